"""Measure whether ARPO reaches the reward of plain sampling with fewer calls to the environment.

GRPO with whole attempts against ARPO with the same number of episodes per task, half of which branch off others. Both
start from the same weak clone, with the same tasks, episodes per step, learning rate and updates. A *call* is an action
that an environment received: a turn that a branch repeats counts where it was played. Per seed, the target is a share
of GRPO's gain over the clone (mean of its last evaluations), and each side's calls are those until its evaluations
reach it. The ratio is a geometric mean over seeds, with a 95 % Student interval of the logarithms. A side that does not
reach the target counts with all of its calls, which is too few, and is marked.

Everything is kept in ``--out``, and the same command resumes the measurement.

Run: python benchmarks/branching.py --out DIR [--seeds 5] [--steps 40] [--group-size 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from kept import note_settings, shown, trained
from rich.console import Console
from rich.table import Table

from turnwise.errors import UsageError
from turnwise.evals.statistics import Estimate, student
from turnwise.trainers.run.metrics import read_metrics

PLAIN = "grpo"
SIDES = {PLAIN: (PLAIN, ()), "arpo": ("arpo", ()), "arpo-hard": ("arpo", ("algorithm.advantage=hard",))}
"""Training commands by the name of the side: algorithm and settings."""
LAST = 3
"""Number of last evaluations whose mean is a run's final return."""


@dataclass(frozen=True)
class Curve:
    """One side's run with one seed.

    Args:
        side: key of ``SIDES``.
        calls: actions that environments had received by each evaluation.
        returns: mean return of each evaluation, the first of the clone.
        sampled: number of sampled tokens in all.
        prefilled: prompt tokens that a perfect prefix cache does not serve, in all.
        branches: number of episodes that left another one, in all.
    """

    side: str
    seed: int
    calls: tuple[float, ...]
    returns: tuple[float, ...]
    sampled: float
    prefilled: float
    branches: float

    @property
    def final(self) -> float:
        """The final return."""
        return statistics.mean(self.returns[-LAST:])

    def until(self, target: float) -> float | None:
        """Return the calls until an evaluation reached the target; ``None`` if none did."""
        return next((calls for calls, value in zip(self.calls, self.returns, strict=True) if value >= target), None)


@dataclass(frozen=True)
class Against:
    """A side compared with plain sampling, with the same seed.

    Args:
        ratio: ratio of the calls until the target.
        arrived: whether it reached the target; otherwise the ratio is a lower bound.
        spent: ratio of the calls of whole runs, which have equally many episodes.
        final: difference of the final returns.
    """

    ratio: float
    arrived: bool
    spent: float
    final: float


def against(mine: Curve, plain: Curve, share: float) -> Against | None:
    """Compare the sides of a seed; ``None`` if plain sampling gained nothing, so that there is no target."""
    start = plain.returns[0]
    if plain.final <= start:
        return None
    target = start + share * (plain.final - start)
    theirs, ours = plain.until(target), mine.until(target)
    return Against(
        ratio=(mine.calls[-1] if ours is None else ours) / (plain.calls[-1] if theirs is None else theirs),
        arrived=ours is not None,
        spent=mine.calls[-1] / plain.calls[-1],
        final=mine.final - plain.final,
    )


def geometric(ratios: Sequence[float]) -> Estimate:
    """Return the geometric mean of ratios, with Student's interval of their logarithms."""
    logs = student([math.log(ratio) for ratio in ratios])
    low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.value), low, high, logs.n, "Student's t of logarithms", logs.confidence)


def curve_of(side: str, seed: int, run: Path) -> Curve:
    """Read the curve of a finished run from its metrics."""
    calls, returns, spent = list[float](), list[float](), dict[str, float]()
    for line in read_metrics(run / "metrics.jsonl"):
        for name in ("steps", "sampled", "prefilled", "branches"):
            spent[name] = spent.get(name, 0.0) + (line.get(f"cost/{name}") or 0.0)
        if (value := line.get("eval/return")) is not None:
            calls.append(spent["steps"])
            returns.append(value)
    others = (spent.get(name, 0.0) for name in ("sampled", "prefilled", "branches"))
    return Curve(side, seed, tuple(calls), tuple(returns), *others)


def ran(side: str, seed: int, start: Path, arguments: argparse.Namespace) -> Curve:
    """Train one side with one seed, or read an earlier run."""
    word, settings = SIDES[side]
    words = [
        f"model={start}",
        f"env={arguments.env}",
        f"seed={seed}",
        f"steps={arguments.steps}",
        f"tasks_per_step={arguments.tasks_per_step}",
        f"group_size={arguments.group_size}",
        f"optimizer.lr={arguments.lr}",
        f"eval.every={arguments.every}",
        f"eval.episodes={arguments.episodes}",
        f"episodes.env_kwargs.max_turns={arguments.turns}",
        *settings,
    ]
    if word != PLAIN:
        words += [f"branching.{name}={getattr(arguments, name)}" for name in ("threshold", "weight", "beam")]
    out: Path = arguments.out / f"{side}-{seed}"
    trained(word, f"{word}-maze", words, out)
    return curve_of(side, seed, out)


def noted(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the settings that a folder of runs was started with."""
    names = ("env", "steps", "tasks_per_step", "group_size", "lr", "every", "episodes", "turns")
    names += ("threshold", "weight", "beam", "cloned")
    return {name: getattr(arguments, name) for name in names}


def table(curves: Sequence[Curve], share: float) -> Table:
    """Return one line per side."""
    found = Table(title=f"calls until {share:.0%} of what plain sampling gains")
    columns = (
        "side",
        "with a target",
        "return",
        "difference",
        "calls",
        "of plain's",
        "until the target",
        "not arrived",
    )
    for column in (*columns, "branches"):
        found.add_column(column, justify="left" if column == "side" else "right")
    plain = {curve.seed: curve for curve in curves if curve.side == PLAIN}
    for side in dict.fromkeys(curve.side for curve in curves):
        mine = [curve for curve in curves if curve.side == side and curve.seed in plain]
        pairs = [pair for curve in mine if (pair := against(curve, plain[curve.seed], share)) is not None]
        found.add_row(
            side,
            f"{len(pairs)} of {len(mine)}",
            shown(student([curve.final for curve in mine])),
            shown(student([curve.final - plain[curve.seed].final for curve in mine])),
            f"{statistics.mean(curve.calls[-1] for curve in mine):.0f}",
            shown(geometric([curve.calls[-1] / plain[curve.seed].calls[-1] for curve in mine])),
            shown(geometric([pair.ratio for pair in pairs])) if pairs else "no target",
            str(sum(not pair.arrived for pair in pairs)),
            f"{statistics.mean(curve.branches for curve in mine):.0f}",
        )
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=[PLAIN, "arpo"])
    parser.add_argument("--share", type=float, default=0.9, help="of what plain sampling gained: the target")
    parser.add_argument("--env", default="turnwise/MazeFO-v0")
    parser.add_argument("--turns", type=int, default=100, help="the turn limit")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--tasks-per-step", type=int, default=12)
    parser.add_argument("--group-size", type=int, default=8, help="episodes per task")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--every", type=int, default=2, help="steps between evaluations")
    parser.add_argument("--episodes", type=int, default=50, help="of an evaluation")
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--weight", type=float, default=0.2)
    parser.add_argument("--beam", type=int, default=2)
    parser.add_argument("--cloned", type=int, default=60, help="updates of the clone that all start from")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    try:
        note_settings(arguments.out, noted(arguments))
    except UsageError as error:
        parser.error(str(error))
    words = [f"env={arguments.env}", f"steps={arguments.cloned}", "eval.episodes=0", "eval.every=0"]
    start = trained("bc", "bc-maze", words, arguments.out / "clone")
    sides = list(dict.fromkeys([PLAIN, *arguments.sides]))
    curves = [ran(side, seed, start, arguments) for seed in range(arguments.seeds) for side in sides]
    Console(width=180).print(table(curves, arguments.share))
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name != "json"}
        found = {"settings": settings, "fields": [each.name for each in fields(Curve)]}
        arguments.json.write_text(json.dumps(found | {"curves": [asdict(each) for each in curves]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
