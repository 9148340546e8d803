"""The page at the server's root, with its own files and nothing else."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from inference.page.assets import HEADERS, PageFile, page_files


def page_routes() -> list[web.RouteDef]:
    """Return a route for each file of the page."""
    return [web.get(path, _sender(file)) for path, file in page_files().items()]


def _sender(file: PageFile) -> Handler:
    headers = {**HEADERS, "ETag": file.etag, "Content-Type": file.content_type}

    async def send(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers={**HEADERS, "ETag": file.etag})
        return web.Response(body=file.content, headers=headers)

    return send
