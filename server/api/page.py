"""Pages for browsers, all from this server: `/` to try it, `/explain` to see why, and `/docs`, the API."""

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response

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
_JAVASCRIPT, _STYLES = "text/javascript", "text/css"


def page_routes() -> APIRouter:
    """Build the routes of the pages and of what they consist of.

    Returns:
        A router.
    """
    router = APIRouter(include_in_schema=False)
    ours = Path(str(files(__package__)))
    # FastAPI's own page loads these from a CDN: strangers' scripts, and nothing without a way out.
    swagger = Path(str(files("fastapi_offline"))) / "static"

    def add_page(path: str, file: Path, policy: str) -> None:
        html, headers = file.read_text(encoding="utf-8"), _page_headers(policy)

        @router.api_route(path, methods=["GET", "HEAD"])
        async def page() -> Response:
            return HTMLResponse(html, headers=headers)

    def add_file(path: str, file: Path, media_type: str) -> None:
        if not file.is_file():
            raise FileNotFoundError(file)  # now, and not when somebody looks

        @router.api_route(path, methods=["GET", "HEAD"])
        async def content() -> Response:
            return FileResponse(file, media_type=media_type, headers=_FILE_HEADERS)

    add_page("/", ours / "page.html", _PAGE_POLICY)
    add_page("/explain", ours / "explain.html", _PAGE_POLICY)
    add_page("/docs", ours / "docs.html", _DOCS_POLICY)
    add_file("/docs/start.js", ours / "docs.js", _JAVASCRIPT)
    add_file("/docs/swagger-ui-bundle.js", swagger / "swagger-ui-bundle.js", _JAVASCRIPT)
    add_file("/docs/swagger-ui.css", swagger / "swagger-ui.css", _STYLES)
    return router


def _page_headers(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
