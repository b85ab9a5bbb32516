"""The HTTP routes of the live page, all read-only; actions go over the websocket."""

from __future__ import annotations

import mimetypes
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response, WebSocket

from wmtk.errors import UsageError, WmtkError
from wmtk.version import code_version
from wmtk.viz.live import browse
from wmtk.viz.live.catalog import Catalog
from wmtk.viz.live.engine import Engine
from wmtk.viz.live.measure import MetricsRunner
from wmtk.viz.live.page_socket import serve_page
from wmtk.viz.live.protocol import dump

MOST_PAGES = 8  # at once
BUSY = 1013  # websocket: try again later
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}

DataId = Annotated[str, Path(pattern=r"^d[0-9]{1,4}$")]
Episode = Annotated[int, Path(ge=0, le=2**31 - 1)]
Number = Annotated[float | None, Query()]
Whole = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


def assets() -> dict[str, bytes]:
    """The files of the page by name, read at the start, so that requests contain no paths."""
    folder = resources.files("wmtk.viz.live") / "assets"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def make_app(catalog: Catalog, engine: Engine, *, human: bool = False) -> FastAPI:
    """The application, without access control."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    metrics = MetricsRunner(catalog, engine)
    app.state.metrics = metrics
    files = assets()

    @app.exception_handler(WmtkError)
    async def refuse(_: Request, error: WmtkError) -> Response:
        body = dump({"message": error.message, "hint": error.hint})
        status = 404 if isinstance(error, UsageError) else 500
        return Response(body, status, media_type="application/json")

    @app.get("/")
    async def index() -> Response:
        return Response(files["index.html"], media_type="text/html")

    @app.get("/assets/{name}")
    async def asset(name: str) -> Response:
        if name not in files:
            return Response("File not found.", 404, media_type="text/plain")
        return Response(files[name], media_type=_type(name))

    @app.websocket("/socket")
    async def socket(websocket: WebSocket) -> None:
        if engine.clients >= MOST_PAGES:
            await websocket.accept()
            await websocket.close(BUSY, f"{MOST_PAGES} pages are already open.")
            return
        hello = {**catalog.describe(), "human": human, "version": code_version()}
        await serve_page(websocket, engine, metrics, hello)

    _add_data(app, catalog)
    return app


def _add_data(app: FastAPI, catalog: Catalog) -> None:
    """Routes as plain functions, which run in a thread pool beside the event loop."""

    @app.get("/data/{id}")
    def overview(id: DataId) -> Response:
        return _json(browse.overview(catalog.data(id)))

    @app.get("/data/{id}/episodes")
    def episodes(
        id: DataId,
        offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=browse.MOST_LISTED)] = 24,
        order: Annotated[str, Query(max_length=16)] = "number",
        descending: bool = False,
        min_return: Number = None,
        max_return: Number = None,
        min_length: Whole = None,
        max_length: Whole = None,
        ended: Annotated[str | None, Query(max_length=16)] = None,
    ) -> Response:
        page = browse.listing(
            catalog.data(id),
            offset=offset,
            limit=limit,
            order=order,
            descending=descending,
            min_return=min_return,
            max_return=max_return,
            min_length=min_length,
            max_length=max_length,
            ended=ended,
        )
        return _json(page)

    @app.get("/data/{id}/episodes/{index}")
    def episode(id: DataId, index: Episode) -> Response:
        return _json(browse.details(catalog.data(id), index))

    @app.get("/data/{id}/episodes/{index}/thumbnail.png")
    def thumbnail(id: DataId, index: Episode) -> Response:
        return Response(browse.thumbnail(catalog.data(id), index), media_type="image/png")

    @app.get("/data/{id}/episodes/{index}/frames.png")
    def frames(
        id: DataId, index: Episode, first: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0
    ) -> Response:
        return Response(browse.sprites(catalog.data(id), index, first), media_type="image/png")


def _json(value: Any) -> Response:
    return Response(dump(value), media_type="application/json")


def _type(name: str) -> str:
    ending = f".{name.rpartition('.')[2]}"
    return _TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
