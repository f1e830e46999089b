"""The web application of the viewer: its pages, and the addresses of what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ..errors import StoreError, UsageError
from . import live
from .guard import Guard, write_key
from .play import Play
from .routes import PARTS, Routes
from .runs import Runs
from .text_search.background_index import BackgroundIndexer
from .writing import Writing

STATIC = Path(__file__).resolve().parent / "static"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


WRITING = {"start": "/api/play/start", "act": "/api/play/act", "stop": "/api/play/stop", "note": "/api/note"}
"""Addresses that write, by the name of their handler."""


def build_app(
    runs: Runs,
    token: str,
    *,
    play: Play | None = None,
    annotate: bool = False,
    index: bool = False,
    indexer: BackgroundIndexer | None = None,
) -> ASGIApp:
    """Return the application, which only reads unless it is given something to write.

    Args:
        runs: the runs to show.
        token: token that a browser needs.
        play: an environment to play in the browser; ``None`` for none.
        annotate: whether episodes may be labeled and commented on.
        index: whether to keep the index of texts beside each store that is searched.
        indexer: indexes large stores before the first search; ``None`` to leave that to searches.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    routes = Routes(runs, index=index, indexer=indexer)
    for file in STATIC.iterdir():
        if file.suffix in TYPES:
            app.add_api_route("/" if file.name == "index.html" else f"/{file.name}", _static(file), methods=["GET"])
    app.add_api_route("/api/live", routes.live, methods=["GET"])
    app.add_api_route("/api/runs", routes.list, methods=["GET"])
    app.add_api_route("/api/compare", routes.compare, methods=["GET"])
    for name in PARTS:
        handler = routes.live_run if name == "live" else getattr(routes, name)
        app.add_api_route(f"/api/runs/{{id}}/{name}", handler, methods=["GET"])
    app.add_api_route("/api/runs/{id}", routes.run, methods=["GET"])
    writing = Writing(routes, write_key(token), play, annotate)
    for name, handler in {"writing": writing.about, "play": writing.playing}.items():
        app.add_api_route(f"/api/{name}", handler, methods=["GET"])
    for name, handler in {"text": writing.text, "image": writing.image}.items():
        app.add_api_route(f"/api/play/{name}", handler, methods=["GET"])
    for name, path in WRITING.items():
        app.add_api_route(path, getattr(writing, name), methods=["POST"])
    for kind in (StoreError, UsageError, OSError):
        app.add_exception_handler(kind, _explained)
    allowed = {path for name, path in WRITING.items() if (annotate if name == "note" else play is not None)}
    return Guard(app, token, writable=frozenset(allowed))


def _static(file: Path) -> Callable[[], Response]:
    content, media = file.read_bytes(), f"{TYPES[file.suffix]}; charset=utf-8"
    return lambda: Response(content, media_type=media)


async def _explained(request: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, UsageError) else 500
    return Response(live.encoded({"detail": " ".join(str(error).split())}), status, media_type="application/json")
