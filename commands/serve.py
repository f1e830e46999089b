"""``turnwise serve``: environments for clients on other machines."""

from __future__ import annotations

import asyncio
import gc
import secrets
import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import load_config
from ..config_help import describe
from ..envs.named import environment
from ..envs.remote.address import TOKEN, is_remote, refuse_bound, served_token
from ..errors import UsageError
from ..stop_signals import STOPS
from .completion import environment_ids
from .terminal import remark

if TYPE_CHECKING:
    from ..service.environments.server import EnvironmentServer

OPERATOR = "TURNWISE_OPERATOR_KEY"
COLLECT_AFTER = (50_000, 20, 100)
"""Thresholds of the garbage collector in a server's process."""


def _list_settings(wanted: bool) -> None:
    if wanted:
        from ..service.environments.settings import ServeConfig

        typer.echo("\n".join(describe(ServeConfig)))
        raise typer.Exit


def serve(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV|KEY=VALUE",
            help="Environment ids, or Python files that register one; then settings.",
            show_default=False,
            autocompletion=environment_ids,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default accepts only this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8765,
    capacity: Annotated[int | None, typer.Option(min=1, help="Number of episodes at a time (default: 16).")] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(help=f"Token of a client; may be repeated (default: {TOKEN}, or a random one)."),
    ] = None,
    operator_key: Annotated[
        str | None,
        typer.Option(help="Key that also opens the oracle (default: none has it).", envvar=OPERATOR, show_envvar=True),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let in every client that reaches the port.")] = False,
    settings_only: Annotated[
        bool,
        typer.Option("--settings", callback=_list_settings, is_eager=True, help="List every setting and exit."),
    ] = False,
) -> None:
    """Serve environments to runners, trainers and OpenEnv clients on other machines.

    Each environment runs in a process of its own. A client names one as turnwise://HOST:PORT/ID, wherever an id is
    accepted, and finds the token in TURNWISE_TOKEN. OpenEnv's clients use http://HOST:PORT. SIGTERM and Ctrl-C wait for
    running episodes (drain=30 seconds), unless their client left; a second one ends them.

    Examples:

        turnwise serve turnwise/Maze-v0

        TURNWISE_TOKEN=tw-... turnwise eval turnwise://127.0.0.1:8765/turnwise/Maze-v0 --policy random -n 20

        turnwise serve my_env.py turnwise/Apps-v2 --host 0.0.0.0 --capacity 32 env_timeout=60
    """
    if no_token and token:
        raise UsageError("choose either --token or --no-token")
    for given in token or []:
        refuse_bound(given)
    known = "" if no_token or token else served_token()
    made = [] if no_token or token or known else [f"tw-{secrets.token_urlsafe(24)}"]
    tokens = [] if no_token else token or ([known] if known else made)
    overrides = [f"capacity={capacity}"] if capacity is not None else []
    server = _server(words or [], overrides, tokens=tokens, operator=operator_key, host=host, port=port)
    asyncio.run(_serve(server, made))


def _server(words: list[str], overrides: list[str], **arguments: Any) -> EnvironmentServer:
    """Return the server for environments and settings on a command line.

    Raises:
        UsageError: an environment does not exist or is a remote one, or a setting is wrong.
    """
    from ..service.environments.server import EnvironmentServer  # FastAPI, which nothing else here needs
    from ..service.environments.settings import ServeConfig

    ids = [environment(word) for word in words if "=" not in word]
    if remote := next(filter(is_remote, ids), None):
        raise UsageError(f"{remote} is already on a server; serve an environment of this machine")
    settings = load_config(ServeConfig, None, [*overrides, *(word for word in words if "=" in word)])
    return EnvironmentServer(ids, settings, **arguments)


async def _serve(server: EnvironmentServer, made: list[str]) -> None:
    stop, at_once, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    def stopped() -> None:
        (at_once if stop.is_set() else stop).set()

    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stopped)
    async with server:
        _collect_less()
        for id in server.catalog.digests:
            typer.echo(f"turnwise{server.address.removeprefix('ws')}/{id}")
        for token in made:
            typer.echo(f"{TOKEN}={token}")
        remark().print(f"{server.config.capacity} episodes at a time; Ctrl-C stops the server", markup=False)
        await stop.wait()
        remark().print(_waiting(server), markup=False)
        draining = asyncio.ensure_future(server.drain())
        ending = asyncio.ensure_future(at_once.wait())
        await asyncio.wait((draining, ending), return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()
        ending.cancel()


def _waiting(server: EnvironmentServer) -> str:
    """Say which episodes a server that stops waits for, and for how long."""
    playing = server.playing
    left = max(0, server.episodes.places.load - playing)
    what = f"waiting up to {server.config.drain:g} seconds for {_counted(playing)}; Ctrl-C again ends them"
    return (what if playing else "stopping") + (f" ({_counted(left)} without a client: not waited for)" if left else "")


def _counted(episodes: int) -> str:
    return f"{episodes} episode{'s' * (episodes != 1)}"


def _collect_less() -> None:
    """Collect garbage less often: a collection visits all that thousands of sessions keep, and delays every step."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
