"""Pages for browsers, all from this server: `/` to try it, `/explain` to see why, and `/docs`, the API."""

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

_NO_OTHERS = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    + _NO_OTHERS
)
_DOCS_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; " + _NO_OTHERS
)
_FILE_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "public, max-age=3600"}
_HTML, _JAVASCRIPT, _STYLES = "text/html", "text/javascript", "text/css"


def page_routes() -> APIRouter:
    """Build the routes of the pages and of what they consist of."""
    router = APIRouter(include_in_schema=False)
    ours = Path(str(files(__package__)))
    # FastAPI's own page loads these from a CDN: strangers' scripts, and nothing without a way out.
    swagger = Path(str(files("fastapi_offline"))) / "static"

    def add(path: str, file: Path, media_type: str, headers: dict[str, str]) -> None:
        content = file.read_bytes()  # now: what is missing is missed at the start

        @router.api_route(path, methods=["GET", "HEAD"])
        async def page() -> Response:
            return Response(content, headers=headers, media_type=media_type)

    add("/", ours / "page.html", _HTML, _page_headers(_PAGE_POLICY))
    add("/explain", ours / "explain.html", _HTML, _page_headers(_PAGE_POLICY))
    add("/docs", ours / "docs.html", _HTML, _page_headers(_DOCS_POLICY))
    add("/docs/start.js", ours / "docs.js", _JAVASCRIPT, _FILE_HEADERS)
    add("/docs/swagger-ui-bundle.js", swagger / "swagger-ui-bundle.js", _JAVASCRIPT, _FILE_HEADERS)
    add("/docs/swagger-ui.css", swagger / "swagger-ui.css", _STYLES, _FILE_HEADERS)
    return router


def _page_headers(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
