"""Check chat APIs that fail: all episodes end, none is scored by a failure, the cap holds, nothing is sent twice.

    python benchmarks/chat_apis.py --episodes 1000 --fault 0.02

plays ``examples/tool_env.py`` through a fake server in this process, on a virtual clock: each request meets each of the
faults with this probability, and the server lets 600 requests a minute through. Then again with a spending cap, resumed
from there with a higher one, and stopped in the middle and resumed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from turnwise.agents.chat_apis.settings import ApiSettings
from turnwise.errors import ContractError, SpendingCapError
from turnwise.evals.evaluation import run_evaluation_async
from turnwise.evals.settings import EvalConfig
from turnwise.evals.summary import Summary

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "agents" / "chat_apis"), str(ROOT / "examples")]

import fake_api  # noqa: E402 - the fake server of the tests
import tool_env  # noqa: E402

ENV, MAX_TOKENS, PER_MINUTE = "demo/Bookshops-v0", 256, 600


class StoppedError(Exception):
    """A crash in the middle."""


def server(fault: float, seed: int) -> fake_api.FakeApi:
    """A server that fails in every way."""
    return fake_api.FakeApi(faults=dict.fromkeys(fake_api.FAULTS, fault), seed=seed, per_minute=PER_MINUTE)


def play(api: fake_api.FakeApi, n: int, folder: Path, *, cap: float | None = None, resume: bool = False) -> Summary:
    """Evaluate; ``folder`` holds the run."""
    settings = ApiSettings(price=api.price, max_cost=cap)
    config = EvalConfig(env=ENV, policy="openai:fake", n=n, api=settings, isolation="inline", max_tokens=MAX_TOKENS)
    agent = api.agent(config.policy, settings, folder=folder, max_tokens=MAX_TOKENS)
    found: Summary = fake_api.run(run_evaluation_async(config, agent, store=folder / "episodes", resume=resume))
    return found


def faults(n: int, fault: float, seed: int, folder: Path) -> dict[str, Any]:
    """All episodes end, and none is scored by a failure."""
    api = server(fault, seed)
    summary = play(api, n, folder)
    assert summary.api is not None
    return {
        "outcomes": dict(summary.outcomes),
        "success": summary.success.value,
        "requests": len(api.requests),
        "answers": summary.api.answers,
        "faults": sum(count for kind, count in api.said.items() if kind),
        "at once": api.most_active,
    }


def capped(n: int, fault: float, seed: int, folder: Path) -> dict[str, Any]:
    """The cap holds, and a resumed run continues from it."""
    api, cap = server(fault, seed), 0.4
    stops = 0
    for _ in range(2):
        try:
            play(api, n, folder, cap=cap, resume=bool(stops))
        except SpendingCapError:
            stops += 1
    billed = api.billed
    assert stops == 2, "the cap must stop both runs"
    assert billed <= Decimal(str(cap)), f"{billed} were billed under a cap of {cap}"
    summary = play(api, n, folder, cap=1e3, resume=True)
    return {"cap": cap, "billed": f"{billed:.6f}", "then": dict(summary.outcomes)}


def interrupted(n: int, seed: int, folder: Path) -> dict[str, Any]:
    """A resumed run sends no request twice."""
    api = server(0.0, seed)

    def stop(path: str, body: dict[str, Any]) -> None:
        if len(api.requests) == 2 * n:
            raise StoppedError

    api.validate = stop
    with contextlib.suppress(ContractError):  # an unexpected error of an agent is a bug, and stops the run
        play(api, n, folder)
    assert len(api.requests) == 2 * n, "it was not stopped"
    before, api.validate = len(api.answered), lambda path, body: None
    summary = play(api, n, folder, resume=True)
    assert summary.api is not None
    twice = len(api.answered) - summary.api.answers
    return {"answers before": before, "after": len(api.answered) - before, "twice": twice}


def main() -> None:
    """Run all and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--fault", type=float, default=0.02, help="probability of each of the faults, per request")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    os.environ.update(OPENAI_API_KEY=fake_api.KEY, OPENAI_BASE_URL="https://api.test/v1")
    assert tool_env.Bookshops is not None
    table = Table("law", "what was found", "seconds of this machine", box=None, header_style="bold")
    with tempfile.TemporaryDirectory() as scratch:
        for name, found in (
            ("all end, none is scored by a failure", lambda at: faults(chosen.episodes, chosen.fault, chosen.seed, at)),
            ("the cap holds", lambda at: capped(chosen.episodes, chosen.fault, chosen.seed, at)),
            ("nothing is asked twice", lambda at: interrupted(chosen.episodes, chosen.seed, at)),
        ):
            started = time.perf_counter()
            result = found(Path(scratch, name.split()[0]))
            table.add_row(
                name, ", ".join(f"{k} {v}" for k, v in result.items()), f"{time.perf_counter() - started:.0f}"
            )
    Console().print(table)


if __name__ == "__main__":
    main()
