"""Measure the gain of overlapping play and learning where environments are sometimes slow, and its cost in return.

LOOP on a maze whose every answer takes a log-normal time (one in a hundred a hundred times the median), from one weak
clone, with the same settings and number of episodes on every side. One side alternates play and learning; the others
overlap them with a bound on staleness. Seconds are of the training steps alone; the return is measured afterwards, on
the maze without delays. Sides alternate within a seed. Intervals are 95 % Student intervals over seeds.

Run: python benchmarks/async_training.py [--seeds 3] [--steps 12] [--staleness 1 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kept import shown
from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.agents.named import agent_from
from turnwise.envs.games.maze import MazeU
from turnwise.evals.statistics import student
from turnwise.rollouts.runner import run
from turnwise.trainers import behavior_cloning, loop
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.run.metrics import read_metrics

SLOW, PLAIN = "bench/SlowMaze-v0", "turnwise/MazeU-v0"
TURNS = 12


class SlowMaze(MazeU):
    """The maze with a heavy tail: every answer waits for a log-normal time, without blocking other episodes."""

    def __init__(self, *, median: float = 0.01, sigma: float = 2.0, longest: float = 5.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._wait = median, sigma, longest
        self._random = random.Random()  # independent of the world: it decides only on times

    async def act(self, action: tw.Action) -> tw.Step:  # type: ignore[override]
        """Act as in the maze, with a delay."""
        median, sigma, longest = self._wait
        await asyncio.sleep(min(longest, median * self._random.lognormvariate(0.0, sigma)))
        return super().act(action)


@dataclass(frozen=True)
class Ran:
    """One side's run with one seed.

    Args:
        side: ``sync``, or the bound on staleness.
        seconds: seconds of all training steps.
        idle_learner, idle_policy: shares of it in which that side waited.
        staleness: mean age of the trained tokens, in versions.
        spanning: share of actions with tokens of more than one version.
        before, after: mean return over the maze's starts, of the clone and of the trained model.
    """

    side: str
    seed: int
    seconds: float
    idle_learner: float
    idle_policy: float
    staleness: float
    staleness_max: float
    spanning: float
    before: float
    after: float


def shared(out: Path, env: str, **env_kwargs: Any) -> dict[str, Any]:
    """Return settings of every run."""
    return {
        "env": env,
        "out": str(out),
        "agent": {"context": "last:1", "max_tokens": 4, "show_tools": False},
        "episodes": {"concurrency": 512, "env_kwargs": {"max_turns": TURNS, **env_kwargs}},
        "eval": {"episodes": 0},
        "threads": 1,
        "progress": False,
        "tracking": {"to": []},
    }


def cloned(out: Path) -> Path:
    """Clone the weak model that every run starts from."""
    settings = shared(out, PLAIN) | {
        "steps": 60,
        "batch": 64,
        "optimizer": {"lr": 3e-3},
        "nano": {"size": "0.1M", "layers": 1, "hidden": 32},
        "demonstrations": {"count": 100, "skills": [0.35]},
    }
    return behavior_cloning.train(CloningConfig.model_validate(settings)).model


def returns(model: Path, episodes: int = 200) -> float:
    """Return the mean return without delays."""
    tasks = [MazeU.tasks().spec(number, split="train") for number in range(episodes)]
    played = run(PLAIN, agent_from(str(model)), tasks, env_kwargs={"max_turns": TURNS}, concurrency=256)
    return statistics.mean(episode.total_reward for episode in played if episode.scored)


def ran(out: Path, start: Path, side: str, seed: int, arguments: argparse.Namespace) -> Ran:
    """Train on one side with one seed."""
    tail = {"median": arguments.median, "sigma": arguments.sigma, "longest": arguments.longest}
    overlap = {} if side == "sync" else {"overlap": {"enabled": True, "max_staleness": int(side)}, "is_mode": "tis"}
    settings = (
        shared(out, SLOW, **tail)
        | overlap
        | {
            "model": str(start),
            "seed": seed,
            "steps": arguments.steps,
            "tasks_per_step": arguments.tasks_per_step,
            "group_size": arguments.group_size,
            "optimizer": {"lr": arguments.lr},
            "checkpoint_every": arguments.steps,
        }
    )
    result = loop.train(LoopConfig.model_validate(settings))
    steps = [line for line in read_metrics(out / "metrics.jsonl") if "seconds/step" in line]
    seconds = sum(line["seconds/step"] for line in steps)

    def share(name: str) -> float:
        return float(sum(line[name] * line["seconds/step"] for line in steps) / seconds)

    def over(name: str) -> list[float]:
        return [line.get(name) or 0.0 for line in steps]

    return Ran(
        side=side,
        seed=seed,
        seconds=seconds,
        idle_learner=share("idle/learner"),
        idle_policy=share("idle/policy"),
        staleness=statistics.mean(over("overlap/staleness_mean")),
        staleness_max=max(over("overlap/staleness_max")),
        spanning=statistics.mean(over("overlap/spanning")),
        before=returns(start),
        after=returns(result.model),
    )


def table(runs: Sequence[Ran], sides: Sequence[str]) -> Table:
    """One line per side; the speed-up is the ratio of seconds within a seed."""
    found = Table(title="LOOP on a maze with a heavy tail: play and learning in turns, and overlapped")
    for column in ("side", "seconds", "speed-up", "return after", "difference to sync", "idle learner", "idle policy",
                   "staleness mean / max"):  # fmt: skip
        found.add_column(column, justify="right" if column != "side" else "left")
    base = {one.seed: one for one in runs if one.side == "sync"}
    for side in sides:
        mine = [one for one in runs if one.side == side]
        found.add_row(
            side if side == "sync" else f"overlap, η = {side}",
            shown(student([one.seconds for one in mine]), 1),
            shown(student([base[one.seed].seconds / one.seconds for one in mine])),
            shown(student([one.after for one in mine]), 1),
            shown(student([one.after - base[one.seed].after for one in mine]), 1),
            f"{statistics.mean(one.idle_learner for one in mine):.0%}",
            f"{statistics.mean(one.idle_policy for one in mine):.0%}",
            f"{statistics.mean(one.staleness for one in mine):.2f} / {max(one.staleness_max for one in mine):.0f}",
        )
    return found


def main() -> None:
    """Run all sides with all seeds, print the table, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--tasks-per-step", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--staleness", nargs="+", default=["1", "3"])
    parser.add_argument("--median", type=float, default=0.01, help="seconds that half of all answers take less than")
    parser.add_argument("--sigma", type=float, default=2.0, help="of the logarithm of these seconds")
    parser.add_argument("--longest", type=float, default=5.0, help="seconds that no answer takes more than")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tw.register(SLOW, SlowMaze)
    sides, runs = ["sync", *arguments.staleness], list[Ran]()
    with tempfile.TemporaryDirectory() as scratch:
        start = cloned(Path(scratch, "clone"))
        for seed in range(arguments.seeds):
            for side in sides:
                runs.append(ran(Path(scratch, f"{side}-{seed}"), start, side, seed, arguments))
    console = Console(width=160)
    console.print(table(runs, sides))
    episodes = arguments.tasks_per_step * arguments.group_size * arguments.steps
    console.print(f"the clone returned {runs[0].before:.1f}; {episodes} episodes")
    if arguments.json:
        settings = {name: value for name, value in vars(arguments).items() if name != "json"}
        found = {"settings": settings, "runs": [asdict(one) for one in runs]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
