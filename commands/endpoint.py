"""``turnwise endpoint``: a policy behind the APIs of OpenAI and Anthropic, which stores what it sampled."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..agents.named import agent_from
from ..errors import UsageError
from ..rollouts.store import EPISODES, EpisodeStore
from ..stop_signals import STOPS
from .terminal import remark

if TYPE_CHECKING:
    from ..agents.chat import ChatAgent

SHORTEST_KEY = 16
"""Minimum length of a key, in characters, so that it cannot be guessed."""


def endpoint(
    policy: Annotated[str, typer.Option("--policy", "-p", help="Folder of a model, or URL of a server for one.")],
    out: Annotated[Path, typer.Option(help="Output folder for episodes.")] = Path("runs/endpoint"),
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default accepts only this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8000,
    key: Annotated[
        str | None,
        typer.Option(help="Operator's key (default: a random one).", envvar="TURNWISE_ENDPOINT_KEY", show_envvar=True),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Temperature of every answer (default: as each client requests).")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum tokens of an answer (default: the model's own setting).")
    ] = None,
) -> None:
    """Serve a model to programs that use OpenAI's or Anthropic's SDK, and record exactly what it sampled for them.

    All requests with the operator's key form one episode. To record an episode per attempt, a harness opens one with
    POST /episodes and ends it with POST /episodes/API_KEY/end and {"reward": 1.0, "success": true}, both with the
    operator's key; you can train on these.
    Ctrl-C stops the server and writes open episodes.

    Examples:

        turnwise endpoint --policy runs/bc/model --port 8000 --out runs/recorded

        OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=tw-... python my_agent.py

        ANTHROPIC_BASE_URL=http://127.0.0.1:8000 ANTHROPIC_API_KEY=tw-... claude -p "Fix the test."
    """
    from ..service.program import chat_agent  # FastAPI, which nothing else here needs

    if key is not None and len(key) < SHORTEST_KEY:
        raise UsageError(
            f"a key of {len(key)} characters can be guessed; use at least {SHORTEST_KEY}, or omit it for a random one"
        )
    agent = chat_agent(agent_from(policy, temperature=temperature, max_tokens=max_tokens, threaded=True), policy)
    with EpisodeStore(out / EPISODES, run={"endpoint": policy}) as store:
        before = len(store)
        asyncio.run(_serve(agent, store, host, port, key, fixed_temperature=temperature is not None))
        remark().print(f"{len(store) - before} episodes in {out / EPISODES}", markup=False)


async def _serve(
    agent: ChatAgent, store: EpisodeStore, host: str, port: int, key: str | None, *, fixed_temperature: bool
) -> None:
    from ..service.endpoint import Endpoint
    from ..service.remote_episodes import RemoteEpisodes, serve

    served = Endpoint(host=host, port=port)
    episodes = RemoteEpisodes(served, agent, store, key=key, fixed_temperature=fixed_temperature)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for kind in (signal.SIGINT, *STOPS):
        loop.add_signal_handler(kind, stop.set)
    address = await served.start()
    typer.echo(f"OPENAI_BASE_URL={address}/v1")
    typer.echo(f"OPENAI_API_KEY={episodes.key}")
    typer.echo(f"ANTHROPIC_BASE_URL={address}")
    typer.echo(f"ANTHROPIC_API_KEY={episodes.key}")
    await serve(served, episodes, stop)
