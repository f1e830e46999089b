"""``turnwise view``: runs and episodes in the browser, while they happen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from .terminal import STOPS, remark

if TYPE_CHECKING:
    from ..view.runs import Runs

PORT = 8484
HERE = "127.0.0.1"
USUAL = Path("runs")
"""Folder to which commands write runs, unless ``--out`` names another."""
PAUSE = 1.0
"""Seconds between two looks for the first run."""


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
    Without an argument, it waits for the first run if there is none yet.

    Examples:

        turnwise view

        turnwise view runs/loop runs/eval --open

        turnwise view ../other/runs --port 0
    """
    from ..view.guard import new_token

    asyncio.run(_serve(runs or [], port, new_token(token), open_browser=browser))


async def _serve(folders: list[Path], port: int, token: str, *, open_browser: bool) -> None:
    from ..service.server import LoopServer
    from ..view.app import build_app  # FastAPI and pyarrow, which take a while
    from ..view.runs import Runs

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stop.set)
    runs = Runs(folders) if folders else await _first_run(stop)
    if runs is None:
        return
    app = build_app(runs, token)
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


async def _first_run(stop: asyncio.Event) -> Runs | None:
    """Return the runs in the usual folder as soon as there is one; ``None`` if the viewer is to end before."""
    from ..view.runs import Runs

    waiting = False
    while not stop.is_set():
        try:
            return Runs([USUAL])
        except UsageError:
            if not waiting:
                remark().print(f"there is no run in {USUAL}/ yet; waiting for the first (or name another folder)")
            waiting = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PAUSE)
    return None
