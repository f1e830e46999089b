"""Measure the cost of Turnwise on top of vLLM, the gain of session affinity, and the duration of a weight sync.

Four tables from one run, and a JSON file with ``--out``:

1. tokens/s of episodes through the whole loop (environment, agent, ``RemotePolicy``, HTTP), and of exactly the same
   requests, in the same chains, sent to vLLM by nothing but an HTTP client;
2. the share of prompt tokens found in the prefix cache, on two replicas, with sessions and without;
3. seconds to bring weights to a server, by transport and size of the model;
4. tokens/s of the transformers policy in this process and of vLLM's engine in this process.

Run it in the environment with vLLM, on a machine with nothing else to do:

    .venv-vllm/bin/python benchmarks/serving.py [--size 8M] [--concurrency 1,16,64] [--rounds 3] [--tables 1,2,3,4]
                                                [--out FILE] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.agents.chat import ChatAgent
from turnwise.inference.models import load_model, save_model
from turnwise.inference.nano import NanoConfig, Size, build_model, build_tokenizer
from turnwise.inference.policy import Policy, Sampling
from turnwise.inference.serving.engine.engine import EngineServer
from turnwise.inference.serving.http import routes
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Pause, Sampler, ServerResponse
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes
from turnwise.trainers.weights.reload import Reload
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.transfer import Transport
from turnwise.trainers.weights.vllm_transfer import Files, Native

WORDS = "You stand in a long corridor with doors to the left and to the right ."
CONTEXT = 1024
BLOCK = 32
"""Tokens per block of the prefix cache; with vLLM's 128 on a CPU short episodes would share nothing."""


class Corridor(tw.TurnEnv):
    """Gives the same observation, and ends after ``length`` turns, so that the cost is the loop's."""

    blocking = False

    def __init__(self, length: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.length = length

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return f"{WORDS} The corridor has number {task.seed} ."

    async def act(self, action: tw.Action) -> tw.Step:
        return tw.success(WORDS) if self.turn == self.length else tw.running(WORDS)


class Verbatim:
    """An action parser that takes any text as it is. Random tokens may open a thought, which would not be an action."""

    def parse(self, text: str) -> tw.Action:
        """Return the text as an action."""
        return tw.Action(text)

    def format(self, action: tw.Action) -> str:
        """Return the action's text."""
        return action.text


class Request(NamedTuple):
    """One request of an episode."""

    prompt: tuple[int, ...]
    tokens: int


class Recording:
    """A policy in front of another one that records the requests of every session; stop ids are removed.

    Args:
        policy: policy that answers.
        sessions: whether it receives the session of each request.
    """

    def __init__(self, policy: Policy, *, sessions: bool = True) -> None:
        self.policy, self.sessions = policy, sessions
        self.chains: dict[str, list[Request]] = defaultdict(list)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> tw.Completion:
        """Forward a request, and record it."""
        # Without stop ids every action has exactly ``max_tokens``, so that all ways of sampling do the same work.
        free = Sampling(sampling.temperature, sampling.max_tokens, (), sampling.seed)
        completion = await self.policy.generate(prompt_ids, free, session=session if self.sessions else "")
        self.chains[session].append(Request(tuple(prompt_ids), len(completion.token_ids)))
        return completion

    @property
    def tokens(self) -> int:
        """Number of tokens sampled so far."""
        return sum(request.tokens for chain in self.chains.values() for request in chain)


class Counting:
    """A server in front of another one that counts hits of the prefix cache."""

    def __init__(self, server: Sampler) -> None:
        self.server = server
        self.cached = self.prompt = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.server, name)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, **how: Any) -> ServerResponse:
        """Forward a request, and count."""
        served = await self.server.generate(prompt_ids, sampling, **how)
        self.cached += served.cached
        self.prompt += len(prompt_ids)
        return served


async def play(policy: Policy, tokenizer: Any, *, episodes: int, turns: int, tokens: int, concurrency: int) -> float:
    """Play episodes through the whole loop; seconds."""
    agent = ChatAgent(policy, tokenizer, parser=Verbatim(), sampling=Sampling(max_tokens=tokens))
    tasks = [tw.TaskSpec(Corridor.__name__, seed=seed) for seed in range(episodes)]
    options = RunOptions(concurrency=concurrency, turn_timeout=None, env_kwargs={"length": turns})
    began = time.perf_counter()
    async with aclosing(run_episodes(Corridor, agent, tasks, options=options)) as played:
        outcomes = [episode.outcome async for episode in played]
    seconds = time.perf_counter() - began
    assert len(outcomes) == episodes, f"{len(outcomes)} of {episodes} episodes were played"
    return seconds


async def replay(url: str, chains: Iterable[Sequence[Request]], concurrency: int) -> float:
    """The recorded requests to one server by HTTP clients alone, each chain in its order; seconds."""
    waiting = iter(list(chains))

    async def place(http: httpx.AsyncClient) -> None:
        for requests in waiting:
            for prompt, tokens in requests:
                call = routes.generate(prompt, Sampling(max_tokens=tokens), model="policy", native=True)
                (await http.post(call.path, json=call.body)).raise_for_status()

    async with AsyncExitStack() as stack:
        # A connection for each: many in one client cost more than the loop that they are compared with.
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, timeout=600.0, verify=False, trust_env=False)
            )
            for _ in range(concurrency)
        ]
        began = time.perf_counter()
        await asyncio.gather(*map(place, clients))
        return time.perf_counter() - began


async def overhead(url: str, tokenizer: Any, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """Table 1: the loop next to bare requests, alternating, medians."""
    rows = []
    server = ServerClient(url)
    served = RemotePolicy([server])
    await served.open()
    await play(served, tokenizer, episodes=2, turns=1, tokens=2, concurrency=2)  # warms up
    for concurrency in wanted.concurrency:
        ours, bare, tokens = [], [], 0
        for _ in range(wanted.rounds):
            policy = Recording(served)
            await server.reset_prefix_cache()
            ours.append(await play(policy, tokenizer, **_shape(wanted), concurrency=concurrency))
            await server.reset_prefix_cache()
            bare.append(await replay(url, policy.chains.values(), concurrency))
            tokens = policy.tokens
        loop, alone = statistics.median(ours), statistics.median(bare)
        rows.append(
            {"concurrency": concurrency, "bare": tokens / alone, "turnwise": tokens / loop, "share": alone / loop}
        )
    await server.close()
    return rows


async def affinity(urls: Sequence[str], tokenizer: Any, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """Table 2: hits of the prefix cache on all replicas."""
    rows = []
    for sessions in (True, False):
        servers = [Counting(ServerClient(url)) for url in urls]
        for server in servers:
            await server.reset_prefix_cache()
        served = RemotePolicy(cast(Sequence[Sampler], servers))
        policy = Recording(served, sessions=sessions)
        await play(policy, tokenizer, **_shape(wanted), concurrency=max(wanted.concurrency))
        hits = sum(server.cached for server in servers) / sum(server.prompt for server in servers)
        rows.append({"sessions": sessions, "replicas": len(urls), "hits": hits})
        for server in servers:
            await server.close()
    return rows


async def sync(url: str, model: Any, size: str, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """Table 3: seconds to write the weights while the server keeps sampling, and seconds for which it stops."""
    rows = []
    makers: dict[str, Callable[[RemotePolicy, SharedFolder], Transport]] = {
        "native": lambda policy, exchange: Native(policy, Files(exchange), mode=Pause.KEEP),
        "reload": lambda policy, exchange: Reload(policy, exchange, mode=Pause.KEEP),
    }
    weights = dict(model.state_dict())
    for name, make in makers.items():
        policy = RemotePolicy([ServerClient(url)])
        with tempfile.TemporaryDirectory() as folder:
            transport = make(policy, SharedFolder(Path(folder)))
            await transport.init()
            staged, still = [], []
            for version in range(1, wanted.rounds + 1):
                began = time.perf_counter()
                await transport.stage(weights, version)
                written = time.perf_counter()
                await transport.pause()
                await transport.send(weights, version)
                await policy.begin_version(version)
                await transport.resume()
                still.append(time.perf_counter() - written)
                staged.append(written - began)
            await transport.close()
        await policy.close()
        megabytes = sum(tensor.numel() * tensor.element_size() for tensor in weights.values()) / 1e6
        times = {"stage": statistics.median(staged), "still": statistics.median(still)}
        rows.append({"transport": name, "size": size, "megabytes": megabytes, **times})
    return rows


async def engines(folder: Path, options: ServerOptions, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """Table 4: the same episodes by either engine in this process."""
    model, tokenizer = load_model(folder)
    rows = []
    with EngineServer(folder, options) as engine:
        ways: dict[str, Policy] = {
            "transformers": TransformersPolicy(model, max_batch=options.max_seqs, threaded=True),
            "vLLM": RemotePolicy([engine]),
        }
        for concurrency in wanted.concurrency:
            rates: dict[str, list[float]] = defaultdict(list)
            for _ in range(wanted.rounds):
                for name, policy in ways.items():
                    recording = Recording(policy)
                    seconds = await play(recording, tokenizer, **_shape(wanted), concurrency=concurrency)
                    rates[name].append(recording.tokens / seconds)
            rows.append({"concurrency": concurrency} | {name: statistics.median(rates[name]) for name in ways})
    return rows


def _shape(wanted: argparse.Namespace) -> dict[str, int]:
    return {"episodes": wanted.episodes, "turns": wanted.turns, "tokens": wanted.tokens}


def made(size: Size, folder: Path) -> Path:
    """A nano model of a size, in a folder."""
    tokenizer = build_tokenizer("word", [WORDS, "The corridor has number 0 1 2 3 4 5 6 7 8 9 ."])
    save_model(build_model(NanoConfig(size=size, context_length=CONTEXT), tokenizer), tokenizer, folder)
    return folder


def table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Rows of numbers as a table."""
    shown = Table(title=title)
    for column in rows[0]:
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    return shown


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="8M", help="of the model for tables 1, 2 and 4")
    parser.add_argument("--sizes", default="0.5M,8M,30M", help="of the models for table 3")
    parser.add_argument("--concurrency", default="1,16,64", help="episodes alive at once")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=16, help="of every action")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", default="1,2,3,4", help="numbers of the tables to measure")
    parser.add_argument("--out", type=Path, help="a JSON file for all numbers")
    parser.add_argument("--quick", action="store_true", help="as small as can be: whether it works, not how fast")
    wanted = parser.parse_args(words)
    if wanted.quick:
        wanted.size, wanted.sizes, wanted.concurrency = "0.1M", "0.1M", "1,4"
        wanted.episodes, wanted.turns, wanted.tokens, wanted.rounds = 4, 3, 4, 1
    wanted.concurrency = [int(number) for number in wanted.concurrency.split(",")]
    wanted.tables = [int(number) for number in wanted.tables.split(",")]
    return wanted


def main() -> None:
    """Measure everything, and show it."""
    wanted, console = arguments(), Console()
    found: dict[str, list[dict[str, Any]]] = {"sync": []}
    options = ServerOptions(context_length=CONTEXT, transfer=FILES, kv_megabytes=256, block=BLOCK)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = made(wanted.size, Path(scratch, "model"))
        _, tokenizer = load_model(folder)
        urls = [stack.enter_context(VllmProcess(folder, options)).url for _ in range(2 if 2 in wanted.tables else 1)]
        if 1 in wanted.tables:
            found["overhead"] = asyncio.run(overhead(urls[0], tokenizer, wanted))
            console.print(table(f"1. Tokens/s, {wanted.size}: bare vLLM and Turnwise's loop", found["overhead"]))
        if 2 in wanted.tables:
            found["affinity"] = asyncio.run(affinity(urls, tokenizer, wanted))
            console.print(table("2. Share of prompt tokens found in the prefix cache", found["affinity"]))
        stack.close()
        for size in wanted.sizes.split(",") if 3 in wanted.tables else ():
            place = made(size, Path(scratch, size))
            with VllmProcess(place, options) as server:
                found["sync"] += asyncio.run(sync(server.url, load_model(place)[0], size, wanted))
        if found["sync"]:
            console.print(table("3. Seconds of a weight sync: files written, server standing still", found["sync"]))
        if 4 in wanted.tables:
            found["engines"] = asyncio.run(engines(folder, options, wanted))
            console.print(table(f"4. Tokens/s in this process, {wanted.size}", found["engines"]))
    if wanted.out:
        settings = {name: value for name, value in vars(wanted).items() if name != "out"}
        wanted.out.write_text(json.dumps({"settings": settings, **found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
