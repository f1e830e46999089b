"""``turnwise view``: runs and episodes in the browser, while they happen."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .terminal import STOPS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PORT = 8484
HERE = "127.0.0.1"


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs, or folders of these (default: runs).", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = PORT,
    browser: Annotated[bool, typer.Option("--open", help="Open the address in a browser.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token in the address (default: a random one).", envvar="TURNWISE_VIEW_TOKEN", show_envvar=True
        ),
    ] = None,
) -> None:
    """Watch runs in the browser: curves, episodes and tokens, while they happen.

    Reads the folders of runs and evaluations, and writes nothing. Only this machine can open the address, and only
    with its token; for a run elsewhere, forward the port: ssh -L 8484:127.0.0.1:8484 HOST. Ctrl-C ends the viewer.

    Examples:

        turnwise view

        turnwise view runs/loop runs/eval --open

        turnwise view ../other/runs --port 0
    """
    from ..view.app import build_app  # FastAPI and pyarrow, which take a while
    from ..view.guard import new_token
    from ..view.runs import Runs

    secret = new_token(token)
    app = build_app(Runs(runs or [Path("runs")]), secret)
    asyncio.run(_serve(app, port, secret, open_browser=browser))


async def _serve(app: ASGIApp, port: int, token: str, *, open_browser: bool) -> None:
    from ..service.server import LoopServer

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stop.set)
    try:
        server = await LoopServer.open(app, host=HERE, port=port)
    except UsageError as error:
        raise UsageError(f"{error}; another viewer may run there: choose another --port, or 0 for a free one") from None
    address = f"http://{HERE}:{server.port}/?token={token}"
    typer.echo(address)
    if open_browser:
        import webbrowser

        await asyncio.to_thread(webbrowser.open, address)
    try:
        await stop.wait()
    finally:
        await server.close()
