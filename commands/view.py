"""``turnwise view``: runs and episodes in the browser, while they happen."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..stop_signals import STOPS

if TYPE_CHECKING:
    from ..view.play import Play

PORT = 8484
HERE = "127.0.0.1"

InTerminal = Annotated[
    bool, typer.Option("--tui", help="Show runs in this terminal, without a browser; needs the extra 'tui'.")
]
Environment = Annotated[
    str | None, typer.Option(help="Environment to play in the browser: an id, or a Python file that registers one.")
]
PlayTo = Annotated[Path | None, typer.Option(help="Episode store of what you play (default: runs/play-ENV).")]
MayAnnotate = Annotated[
    bool, typer.Option("--annotate", help="Let the pages write labels and comments beside the episodes.")
]
Indexed = Annotated[
    bool, typer.Option("--index", help="Keep the index of searched texts beside the episodes, for the next viewer.")
]
ExportTo = Annotated[Path | None, typer.Option(help="Write the pages to this new folder instead, for any web server.")]
Exported = Annotated[int, typer.Option(min=0, help="Episodes of each store whose conversations are exported.")]


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
    tui: InTerminal = False,
    play: Environment = None,
    play_to: PlayTo = None,
    annotate: MayAnnotate = False,
    index: Indexed = False,
    export: ExportTo = None,
    export_episodes: Exported = 1000,
) -> None:
    """Watch runs in the browser: curves, episodes and tokens, while they happen.

    Reads the folders of runs and evaluations, and writes nothing into them unless you ask for --play, --annotate or
    --index. Runs that begin later appear, too. Only this machine can open the address, and only with its token; for a
    run elsewhere, forward the port: ssh -L 8484:127.0.0.1:8484 HOST. Ctrl-C ends the viewer. `turnwise watch` is the
    same command.

    Examples:

        turnwise view

        turnwise view runs/loop runs/eval --open

        turnwise view ../other/runs --port 0

        turnwise view --tui

        turnwise view --play turnwise/Apps-v2 --annotate

        turnwise view runs/before runs/after --export site
    """
    if export is not None:
        from ..view.export import export as write
        from ..view.runs import Runs

        typer.echo(write(Runs(runs or [Path("runs")]), export, episodes=export_episodes))
        return
    if tui:
        _in_terminal(runs, index=index)
        return
    human = _play(play, play_to) if play is not None else None
    asyncio.run(_serve(runs, port, token, open_browser=browser, human=human, annotate=annotate, index=index))


def _in_terminal(runs: list[Path] | None, *, index: bool) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # it reads keys from the one, and draws on the other
        raise UsageError("--tui needs a terminal; omit it for the viewer in the browser, or write pages by --export")
    from ..view.runs import Runs

    found = Runs(runs or [Path("runs")], wait=not runs)
    try:
        from ..view.tui import Viewer
    except ModuleNotFoundError as error:
        raise UsageError(f"--tui needs {error.name!r}: pip install 'turnwise[tui]'") from None
    Viewer(found, index=index).run()


def _play(env: str, folder: Path | None) -> Play:
    from ..envs.named import environment
    from ..view.play import Play
    from .evaluate import slug

    id = environment(env)
    return Play(id, folder or Path("runs") / f"play-{slug(id)}")


async def _serve(
    named: list[Path] | None,
    port: int,
    token: str | None,
    *,
    open_browser: bool,
    human: Play | None,
    annotate: bool,
    index: bool,
) -> None:
    from ..service.server import LoopServer
    from ..view.app import build_app  # FastAPI and pyarrow, which take a while
    from ..view.guard import new_token
    from ..view.runs import Runs
    from ..view.text_search.background_index import BackgroundIndexer

    secret, sources = new_token(token), [*(named or [Path("runs")]), *([human.folder] if human is not None else [])]
    shown, indexer = Runs(sources, wait=not named), BackgroundIndexer()
    app = build_app(shown, secret, play=human, annotate=annotate, index=index, indexer=indexer)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stop.set)
    try:
        server = await LoopServer.open(app, host=HERE, port=port)
    except UsageError as error:
        raise UsageError(f"{error}; another viewer may run there: choose another --port, or 0 for a free one") from None
    address = f"http://{HERE}:{server.port}/?token={secret}"
    typer.echo(address)
    if open_browser:
        import webbrowser

        await asyncio.to_thread(webbrowser.open, address)
    try:
        await stop.wait()
    finally:
        if human is not None:
            await human.close()
        await server.close()
        indexer.close()
