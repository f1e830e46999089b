"""Check policy servers that fail: the handling of each fault, and the means of runs.

    python benchmarks/policy_servers.py

plays episodes over a fake server in another process. First each fault alone, in every answer: all must end as failures
of the infrastructure, with one line, and unscored; then once per episode: all must be completed. Then whole runs of
which a share of the answers is wrong, with every fault in turn: they must end with the mean of a run without faults.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.agents.agent import Agent
from turnwise.agents.named import agent_from
from turnwise.errors import UsageError
from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.inference.serving.faults import FAULTS, SETTINGS, SLOW, FaultyServer, bomb
from tests.rollouts.fakes import Count, tasks

RUN_ENDED = "run ended"


class Parity(Count):
    """Solved if the answer has an even number of characters: any other answer would change the mean."""

    def act(self, action: tw.Action) -> Any:
        result = super().act(action)
        if self.turn < self.length:
            return result
        return tw.success("done") if len("".join(self.said)) % 2 == 0 else tw.failure("done")


def serve(folder: str, orders: Connection) -> None:
    """Serve until a stop order; each order is a share and the faults to send."""
    from turnwise.inference.models import load_model

    model, tokenizer = load_model(folder)
    with FaultyServer(model, tokenizer, root=folder) as server:
        for bits in (31, 15):
            bomb(bits)  # here, not while a request waits
        orders.send(server.url)
        while (order := orders.recv()) is not None:
            share, faults, once = order
            if once:
                server.fail_by_session(*faults, first=True)
            else:
                server.fail(*faults, share=share)
            orders.send(None)


def play(agent: Agent, count: int, retries: int) -> list[Episode]:
    """Episodes in the order of their tasks."""
    options = RunOptions(concurrency=16, retries=retries, backoff=0.01)

    async def collect() -> list[Episode]:
        return [episode async for episode in run_episodes(Parity, agent, tasks(count), options=options)]

    return sorted(asyncio.run(collect()), key=lambda episode: episode.task.seed)


def ended(agent: Agent) -> tuple[str, str]:
    """How one episode ended, and the error, or that the run ended."""
    try:
        (episode,) = play(agent, 1, 0)
    except UsageError as error:
        return RUN_ENDED, str(error)
    assert episode.scored == (episode.outcome is not Outcome.INFRA_FAILED)
    return str(episode.outcome), str(episode.error)


def peak() -> float:
    """MiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def each(url: str, orders: Connection, console: Console) -> bool:
    """Every fault alone: in all answers, then in one."""
    table = Table("fault", "always", "once", "seconds", "what is said", box=None, header_style="bold")
    counts: Counter[str] = Counter()
    for name in FAULTS:
        ends = []
        started = time.perf_counter()
        for once, limit in ((False, 2.0), (True, 20.0)):
            orders.send((0.0, (name,), False))  # the first requests meet a good server
            orders.recv()
            agent = agent_from(url, max_tokens=4, turn_timeout=limit)
            orders.send((1.0, (name,), once))
            orders.recv()
            outcome, error = ended(agent)
            ends.append(outcome)
            if not once:
                seconds, said = time.perf_counter() - started, error
        # A single hang at a working server is indistinguishable from a slow policy.
        wanted = (
            RUN_ENDED if name in SETTINGS else str(Outcome.INFRA_FAILED),
            str(Outcome.POLICY_FAILED if name.startswith(SLOW) else Outcome.COMPLETED),
        )
        good = tuple(ends) == wanted and "\n" not in said and "Traceback" not in said
        counts["as it should be" if good else f"WRONG: {name}"] += 1
        table.add_row(name, *ends, f"{seconds:.1f}", said.split(": ", 3)[-1][:90])
    console.print(table)
    console.print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))
    return set(counts) == {"as it should be"}


def means(agent: Agent, orders: Connection, episodes: int, console: Console) -> bool:
    """Whole runs with a share of faulty answers."""
    table = Table("faulty", "outcomes", "mean", "same episodes", "seconds", box=None, header_style="bold")
    faults = tuple(name for name in FAULTS if not name.startswith(SLOW) and name not in SETTINGS)
    whole: list[Episode] = []
    same = True
    for share in (0.0, 0.02, 0.1, 0.5):
        orders.send((share, faults, False))
        orders.recv()
        started = time.perf_counter()
        played = play(agent, episodes, 2)
        whole = whole or played
        alike = sum(
            [turn.action_ids for turn in a.turns] == [turn.action_ids for turn in b.turns]
            for a, b in zip(whole, played, strict=True)
        )
        scored = [episode.success for episode in played if episode.scored]
        mean, seconds = sum(scored) / max(len(scored), 1), time.perf_counter() - started
        outcomes = dict(Counter(str(episode.outcome) for episode in played))
        table.add_row(f"{share:.0%}", str(outcomes), f"{mean:.3f}", f"{alike} of {episodes}", f"{seconds:.1f}")
        same = same and alike == episodes
    console.print(table)
    return same


def main() -> int:
    """Run all and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=60)
    chosen = parser.parse_args()
    console = Console(width=200)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = build_tokenizer("byte")
        shape = NanoConfig(tokenizer="byte", size="0.1M", context_length=256, initializer_range=0.2)
        save_model(build_model(shape, tokenizer, 0), tokenizer, Path(scratch, "model"))
        here, there = context.Pipe()
        server = context.Process(target=serve, args=(str(Path(scratch, "model")), there), daemon=True)
        server.start()
        url = here.recv()
        whole = agent_from(url, max_tokens=4, turn_timeout=None)
        before = peak()
        good = each(url, here, console)
        console.print(f"memory: at most {peak() - before:.0f} MiB above {before:.0f} MiB")
        good = means(whole, here, chosen.episodes, console) and good
        here.send(None)
        server.join(30)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
