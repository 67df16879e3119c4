"""`GET /`: one self-contained page to try the server in a browser."""

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def page_routes() -> APIRouter:
    """Build the route of the page.

    Returns:
        A router.
    """
    router = APIRouter(include_in_schema=False)
    html = files(__package__).joinpath("page.html").read_text(encoding="utf-8")

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page() -> Response:
        return HTMLResponse(html, headers=_HEADERS)

    return router
