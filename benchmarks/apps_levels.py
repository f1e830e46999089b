"""Measure the levels of the apps family, and the number of different tasks.

Levels: the templates' own solutions solve sampled tasks, and their calls are counted (``task_answer``, messages to the
user and logins included); "rows" are those that differ in the end. Distinct tasks: two random specs are equal if they
have the same question, world and user, at any level. The number of tasks is estimated from the equal pairs.

Run: python benchmarks/apps_levels.py [--n 300] [--sample 6000] [--count 0] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from turnwise.tasks.apps.family import APPS_FAMILY, open_world
from turnwise.tasks.apps.levels import LEVELS
from turnwise.tasks.apps.simulators.catalogue import IDLE
from turnwise.tasks.apps.simulators.world import calls_of
from turnwise.tasks.apps.templates.plan import plan
from turnwise.tasks.apps.templates.play import played
from turnwise.tasks.apps.templates.task import AppTask
from turnwise.tasks.rng import Rng, stable_hash
from turnwise.tasks.rows.base_world import WORLDS
from turnwise.tasks.spec import Split, TaskSpec

SPLITS = tuple(split for split in Split if APPS_FAMILY.templates(split))
SURE = 3.0
"""Standard errors allowed for chance."""


@dataclass(frozen=True)
class Solved:
    """Measurements of one task.

    Args:
        kind: kind of the task.
        calls: number of calls that its solution made.
        needed: number of necessary apps.
        shown: number of visible apps.
        offered: number of calls of the visible apps.
        rows: number of rows that differ in the end.
    """

    kind: str
    calls: int
    needed: int
    shown: int
    offered: int
    rows: int


@dataclass(frozen=True)
class Distinct:
    """The number of different tasks, estimated from a random sample.

    Args:
        sampled: number of sampled tasks.
        seen: number of different ones among them.
        estimate: lower estimate of the number of all different tasks; exact only if all are equally likely.
        surely: the same with three standard errors of the sample subtracted.
    """

    sampled: int
    seen: int
    estimate: float
    surely: float


def solved(spec: TaskSpec) -> Solved:
    """Solve a task, and return its measurements.

    Raises:
        AssertionError: its own solution does not solve it.
    """
    task = APPS_FAMILY.generate(spec)
    world = open_world(spec, task)
    acts = plan(task, world, Rng("levels", spec.digest))
    score = played(task, world, acts, IDLE)
    assert score.success, f"{spec} is not solved: {score}"
    offered = len(calls_of(world.simulators))
    return Solved(task.kind, len(acts), len(task.needs), len(task.shown), offered, len(world.changes()))


def content(spec: TaskSpec, task: AppTask) -> bytes:
    """Return everything that makes two tasks different: prompt, world, additions, and the user's other messages."""
    world = (spec.seed + task.draw // 8) % WORLDS
    return stable_hash(task.prompt, str(spec.split), world, repr(task.setup), repr(task.talk))


def drawn(n: int, seed: int = 0) -> list[TaskSpec]:
    """Draw random specs, every template of every split equally often, sorted by world."""
    rng, found = Rng("how many tasks", seed), []
    pairs = [(split, template) for split in SPLITS for template in APPS_FAMILY.templates(split)]
    for _ in range(n):
        split, template = rng.pick(pairs)
        level, number = rng.pick(APPS_FAMILY.levels), rng.randrange(2**31)
        found.append(APPS_FAMILY.spec(number, split=split, level=level, template=template))
    return sorted(found, key=lambda spec: (str(spec.split), spec.seed % WORLDS))


def distinct(contents: Iterable[bytes]) -> Distinct:
    """Estimate the number of different tasks from the equal pairs of a random sample.

    Two independent draws from K things are equal with probability sum p_k^2 >= 1 / K (Cauchy-Schwarz), whatever their
    frequencies p_k; so K is at least one over the share of equal pairs. That share is a U-statistic, whose variance
    is W. Hoeffding's (Annals of Mathematical Statistics 19, 1948); three more pairs are added in case none is equal.

    Args:
        contents: content of at least two independent draws.
    """
    times = Counter(contents)
    n = sum(times.values())
    pairs = n * (n - 1) / 2
    share = sum(many * (many - 1) / 2 for many in times.values()) / pairs
    spread = sum(many * ((many - 1) / (n - 1) - share) ** 2 for many in times.values()) / n
    error = math.sqrt(4 * spread / n + share / pairs)
    estimate = 1 / share if share else math.inf
    return Distinct(n, len(times), estimate, 1 / (share + SURE * error + 3 / pairs))


def how_many(sample: int, seed: int = 0) -> Distinct:
    """Estimate the number of different tasks in the whole family.

    Args:
        sample: number of tasks to draw.
        seed: seed of the draw.
    """
    return distinct(content(spec, APPS_FAMILY.generate(spec)) for spec in drawn(sample, seed))


def counted(n: int) -> int:
    """Count the different tasks among n drawn as above; a large n needs no estimate."""
    return len({content(spec, APPS_FAMILY.generate(spec)) for spec in drawn(n, seed=1)})


def row(name: str, level: int | None, found: Sequence[Solved], templates: int) -> str:
    """Return a line of the table."""
    calls = sorted(one.calls for one in found)
    cells = (
        name,
        "all" if level is None else str(level),
        str(templates),
        f"{statistics.median(calls):.0f}",
        f"{calls[math.ceil(0.9 * len(calls)) - 1]}",
        f"{calls[-1]}",
        "" if level is None else str(LEVELS[level].turns),
        f"{statistics.mean(one.needed for one in found):.1f}",
        f"{statistics.mean(one.shown for one in found):.1f}",
        f"{statistics.median(one.offered for one in found):.0f}",
        f"{statistics.mean(one.rows for one in found):.1f}",
    )
    return f"| {' | '.join(cells)} |"


def kinds(name: str, found: Sequence[Solved]) -> str:
    """Return a line of the table of kinds."""
    shares = Counter(one.kind for one in found)
    cells = (f"{100 * shares[kind] / len(found):.0f} %" for kind in KINDS)
    return f"| {name} | {' | '.join(cells)} |"


KINDS = ("question", "action", "mixed", "refusal", "dialogue")
HEAD = (
    "| split | level | templates | calls, median | 90 % | most | turns | apps needed | shown | calls offered | rows |",
    "|---" * 11 + "|",
)
KINDS_HEAD = (f"| split | {' | '.join(KINDS)} |", "|---" * (1 + len(KINDS)) + "|")


def tables(found: dict[tuple[Split, int], list[Solved]]) -> list[str]:
    """Return two Markdown tables: the requirements of the levels, and the kinds of the splits."""
    lines = [*HEAD]
    for level in APPS_FAMILY.levels:
        both = [one for split in SPLITS for one in found[split, level]]
        names = {name for split in SPLITS for name in APPS_FAMILY.templates(split)}
        lines.append(row("all", level, both, len(names)))
    for split in SPLITS:
        for level in APPS_FAMILY.levels:
            lines.append(row(str(split), level, found[split, level], len(APPS_FAMILY.templates(split))))
    lines += ["", *KINDS_HEAD]
    for split in SPLITS:
        lines.append(kinds(str(split), [one for level in APPS_FAMILY.levels for one in found[split, level]]))
    return lines


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=300, help="tasks of each split, its levels in turn; 0: no table")
    parser.add_argument("--sample", type=int, default=6000, help="tasks to tell apart; 0: none")
    parser.add_argument("--count", type=int, default=0, help="tasks of which to count those that differ, one by one")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    written: dict[str, object] = {}
    if arguments.n:
        found: dict[tuple[Split, int], list[Solved]] = {}
        for split in SPLITS:
            for spec in sorted(APPS_FAMILY.sample(arguments.n, split=split), key=lambda one: one.seed % WORLDS):
                found.setdefault((split, spec.level), []).append(solved(spec))
        print("\n".join(tables(found)), flush=True)
        written["levels"] = {
            f"{split} {level}": [asdict(one) for one in each] for (split, level), each in found.items()
        }
    if arguments.sample:
        many = how_many(arguments.sample)
        print(f"\n{many.seen} of {many.sampled} tasks differ; in all at least {many.estimate:.3g}", end="")
        print(f" different ones ({many.surely:.3g} with three standard errors off)", flush=True)
        written["distinct"] = asdict(many)
    if arguments.count:
        number = counted(arguments.count)
        print(f"{number} of {arguments.count} tasks differ ({1 - number / arguments.count:.2%} come again)", flush=True)
        written["counted"] = {"tasks": arguments.count, "different": number}
    if arguments.json:
        arguments.json.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
