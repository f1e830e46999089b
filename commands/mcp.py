"""``turnwise mcp``: serve an environment by the Model Context Protocol."""

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
from ..rollouts.store import EPISODES, EpisodeStore
from ..service.mcp.server import McpConfig, McpService
from ..stop_signals import STOPS
from .completion import environment_ids
from .terminal import remark, stdout_for_protocol


def mcp(
    context: typer.Context,
    env: Annotated[
        str,
        typer.Argument(help="Environment id, or a Python file that registers one.", autocompletion=environment_ids),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first session's task; later sessions count up.")] = 0,
    split: Annotated[str, typer.Option(help="Split of the tasks.")] = "train",
    level: Annotated[int | None, typer.Option(help="Level of the tasks (default: the lowest).")] = None,
    template: Annotated[str | None, typer.Option(help="Template of the tasks (default: drawn by the seed).")] = None,
    http: Annotated[
        int | None, typer.Option("--http", min=0, max=65535, metavar="PORT", help="Serve HTTP; 0 picks a free port.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default accepts only this machine.")
    ] = "127.0.0.1",
    show_score: Annotated[bool, typer.Option("--show-score", help="Report the score when an episode ends.")] = False,
    out: Annotated[Path | None, typer.Option(help="Output folder to record episodes in.")] = None,
) -> None:
    """Serve an environment to any MCP client: each session is one episode, with the environment's tools.

    Uses standard input and output. With --http PORT, serves any number of clients at http://HOST:PORT/mcp instead. The
    first observation is available as the server's instructions, as the resource turnwise://task and as the prompt task.
    A client that disconnects before the end has failed.

    Examples:

        turnwise mcp turnwise/CodeShell-v2 --level 2 --seed 7

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
    """Discard an episode: no record was requested."""


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
