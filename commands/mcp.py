"""``turnwise mcp``: an environment as a server of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TextIO

import typer

from ..envs.named import environment
from ..rollouts.episode import Episode
from ..rollouts.store import EpisodeStore
from ..service.mcp.server import McpConfig, McpService
from .completion import environment_ids
from .stores import EPISODES
from .terminal import STOPS, remark, stdout_for_protocol


def mcp(
    context: typer.Context,
    env: Annotated[
        str,
        typer.Argument(
            help="An environment's id, or a Python file that registers one.", autocompletion=environment_ids
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of the first session's task; each further one gets the next.")] = 0,
    split: Annotated[str, typer.Option(help="Which split the tasks are from.")] = "train",
    level: Annotated[int | None, typer.Option(help="Their level (the lowest if not said).")] = None,
    template: Annotated[str | None, typer.Option(help="Their template (drawn by the seed if not said).")] = None,
    http: Annotated[
        int | None, typer.Option("--http", min=0, max=65535, metavar="PORT", help="Serve HTTP; 0 takes a free port.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; this machine only, if not said.")] = "127.0.0.1",
    show_score: Annotated[bool, typer.Option("--show-score", help="Say at the end how it was judged.")] = False,
    out: Annotated[Path | None, typer.Option(help="Record the episodes there.")] = None,
) -> None:
    """Serve an environment to any MCP client: one session is one episode, its tools are the environment's.

    Over standard input and output, unless --http names a port; then at http://HOST:PORT/mcp, for any number of clients.
    The first observation is the server's instructions, its resource turnwise://task and its prompt task. A client that
    leaves before the end has failed.

    Examples:

        turnwise mcp turnwise/CodeShell-v1 --level 2 --seed 7

        turnwise mcp my_env.py --http 8080 --out runs/visitors --show-score
    """
    wire = context.with_resource(stdout_for_protocol()) if http is None else None
    config = McpConfig(environment(env), seed, split, level, template, show_score)
    with ExitStack() as stack:
        store = stack.enter_context(EpisodeStore(out / EPISODES, run={"mcp": config.env})) if out is not None else None
        recorded = store.append if store is not None else _forget
        asyncio.run(_serve(McpService(config, recorded), host, http, wire))
        if store is not None:
            remark().print(f"{len(store)} episodes in {store.path}", markup=False)


def _forget(episode: Episode) -> None:
    """Nobody asked for a record."""


async def _serve(service: McpService, host: str, port: int | None, wire: TextIO | None) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stop.set)
    if port is not None:
        announce: Callable[[str], None] = typer.echo
        await service.over_http(host, port, stop, announce)
        return
    serving, stopped = asyncio.ensure_future(service.over_streams(wire)), asyncio.ensure_future(stop.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    serving.cancel()
    await asyncio.wait((serving,))
    if not serving.cancelled():
        serving.result()
