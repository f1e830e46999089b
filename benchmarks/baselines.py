"""Measure agents that know nothing: random play, a constant, a memorizer, a template and a memoryless table.

Per environment and level, the baselines are made from the oracle's episodes on training tasks and play every split; on
``train`` they play the very tasks that they have seen. The constant is the best of ``--sequences`` fixed sequences of
actions on ten training tasks. Results are appended to a file, so that a run can be stopped and repeated; the table is
made from the whole file.

Run: python benchmarks/baselines.py [ID ...] [--levels 1 2] [--demonstrations 60] [--tasks 6] [--sequences 40]
     [--out FILE] [--table]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import turnwise as tw
from turnwise.agents.agent import Agent
from turnwise.agents.baselines import (
    ConstantAgent,
    Demonstration,
    MemorizerAgent,
    MemorylessAgent,
    TemplateAgent,
    fixed_sequences,
)
from turnwise.agents.scripted import OracleAgent, RandomAgent
from turnwise.envs.builtin import IDS
from turnwise.envs.registry import find
from turnwise.evals.statistics import wilson
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.runner import run
from turnwise.tasks.family import TaskFamily
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import Split, TaskSpec

OUT = Path("runs/baselines.jsonl")
LEFT_OUT = ("turnwise/MiniWoB-", "turnwise/Web-v1", "turnwise/ChessStockfish-v1")
"""No oracle; the tasks of WebHTML in a browser; the tasks of Chess with another opponent."""
BASELINES = ("random", "constant", "memorizer", "template", "memoryless")
TRIED, RETRIED, FINALISTS = 3, 10, 4
"""Training tasks on which every fixed sequence is tried, and on which the best few are tried again."""
HIGH = 0.2
"""Success above which a level is worth a line of its own."""
Cell = tuple[Split, str]
"""A split, and the baseline that plays it."""


def chosen(patterns: Sequence[str]) -> list[str]:
    """Return the installed environments whose ids have one of these parts; all if there are none."""
    ids = [id for id, *_ in IDS if not id.startswith(LEFT_OUT) and find(id).lacks is None]
    return [id for id in ids if not patterns or any(pattern in id for pattern in patterns)]


def played(env: str, agent: Agent, tasks: Iterable[TaskSpec]) -> list[Episode]:
    """Play tasks, a few at a time."""
    return run(env, agent, tasks, concurrency=4, retries=0)


def solved(episodes: Sequence[Episode]) -> int:
    """Return how many episodes succeed."""
    return sum(bool(episode.success) for episode in episodes)


def demonstrated(episodes: Iterable[Episode]) -> list[Demonstration]:
    """Return episodes as demonstrations; those without a turn are left out."""
    return [
        Demonstration(tuple(turn.observation for turn in each.turns), tuple(turn.action for turn in each.turns))
        for each in episodes
        if each.turns
    ]


def best_constant(env: str, pool: Sequence[Demonstration], tasks: Sequence[TaskSpec], count: int) -> ConstantAgent:
    """Return the fixed sequence that solves most training tasks: all are tried on a few, the best few on more."""
    agents = [ConstantAgent(actions) for actions in fixed_sequences(pool, count, Rng("constant", env))]
    ranked = sorted(agents, key=lambda agent: -solved(played(env, agent, tasks[:TRIED])))
    return max(ranked[:FINALISTS], key=lambda agent: solved(played(env, agent, tasks[:RETRIED])))


def measured(
    env: str, family: TaskFamily[Any], level: int, missing: Collection[Cell], sizes: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Make the baselines for one level and play those that are missing; one record per split and baseline."""
    seen = list(family.sample(sizes.demonstrations, split=Split.TRAIN, level=level))
    known = demonstrated(played(env, OracleAgent(), seen))
    guesses = demonstrated(played(env, RandomAgent(), seen[:RETRIED]))
    agents: dict[str, Agent] = {
        "random": RandomAgent(),
        "constant": best_constant(env, [*known, *guesses], seen, sizes.sequences),
        "memorizer": MemorizerAgent(known),
        "template": TemplateAgent(known),
        "memoryless": MemorylessAgent(known),
    }
    for split, name in missing:
        episodes = played(env, agents[name], family.sample(sizes.tasks, split=split, level=level))
        yield {
            "env": env,
            "level": level,
            "split": str(split),
            "baseline": name,
            "solved": solved(episodes),
            "tasks": sum(episode.outcome.scored for episode in episodes),
            "demonstrations": len(known),
        }


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return what a file has; an incomplete last line, of a run that was stopped, is cut off."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        path.write_text(text, encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def measure(sizes: argparse.Namespace) -> None:
    """Play what the file does not have yet, level by level; each result is written at once."""
    there = {(one["env"], one["level"], one["split"], one["baseline"]) for one in recorded(sizes.out)}
    sizes.out.parent.mkdir(parents=True, exist_ok=True)
    for env in chosen(sizes.ids):
        family = tw.make(env).unwrapped.tasks()  # type: ignore[attr-defined]
        for level in [level for level in family.usual if level in (sizes.levels or family.usual)]:
            began = time.monotonic()
            cells = [(split, name) for split in family.splits for name in BASELINES]
            missing = [cell for cell in cells if (env, level, *map(str, cell)) not in there]
            with sizes.out.open("a", encoding="utf-8") as file:
                for one in measured(env, family, level, missing, sizes) if missing else ():
                    file.write(json.dumps(one) + "\n")
                    file.flush()
            print(f"{env} level {level}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return two Markdown tables: every split with its levels pooled, and what is above ``HIGH`` outside training."""
    lines = [f"| environment | split | tasks | {' | '.join(BASELINES)} |", "|---|---|" + "---:|" * (1 + len(BASELINES))]
    for (env, split), cells in pooled(records, "split").items():
        shares = [f"{100 * cells[name][0] / max(1, cells[name][1]):.0f}" for name in BASELINES]
        lines.append(f"| {env} | {split} | {cells['random'][1]} | {' | '.join(shares)} |")
    lines += ["", "| environment | level | baseline | solved | 95 % interval |", "|---|---:|---|---:|---|"]
    held_out = [one for one in records if one["split"] != Split.TRAIN]
    for (env, level), cells in pooled(held_out, "level").items():
        for name, (won, tasks) in cells.items():
            if won > HIGH * tasks:
                interval = wilson(won, tasks).scaled(100)
                shown = f"{won} of {tasks} | {interval.low:.0f} to {interval.high:.0f} % |"
                lines.append(f"| {env} | {level} | {name} | {shown}")
    return lines


def pooled(records: Iterable[dict[str, Any]], by: str) -> dict[tuple[str, Any], dict[str, list[int]]]:
    """Return solved and played tasks by environment and ``by``, for each baseline."""
    found: dict[tuple[str, Any], dict[str, list[int]]] = {}
    for one in records:
        cells = found.setdefault((one["env"].removeprefix("turnwise/"), one[by]), {name: [0, 0] for name in BASELINES})
        cells[one["baseline"]][0] += one["solved"]
        cells[one["baseline"]][1] += one["tasks"]
    return found


def main() -> None:
    """Read the command line, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="environments, or parts of their ids; omitted: all")
    parser.add_argument("--levels", type=int, nargs="+", help="levels; omitted: all")
    parser.add_argument("--demonstrations", type=int, default=60, help="oracle episodes of training per level")
    parser.add_argument("--tasks", type=int, default=6, help="tasks per split and level")
    parser.add_argument("--sequences", type=int, default=40, help="fixed sequences among which the constant is chosen")
    parser.add_argument("--out", type=Path, default=OUT, help="results, which a repeated run completes")
    parser.add_argument("--table", action="store_true", help="play nothing and print the tables of what is there")
    sizes = parser.parse_args()
    if unknown := [pattern for pattern in sizes.ids if not chosen([pattern])]:
        shown = ", ".join(map(repr, unknown))
        parser.exit(2, f"{parser.prog}: error: no installed environment that can be measured matches {shown}\n")
    if sizes.table and not sizes.out.is_file():
        parser.exit(2, f"{parser.prog}: error: there are no results in {sizes.out}\n")
    if not sizes.table:
        measure(sizes)
    print("\n".join(table(recorded(sizes.out))))


if __name__ == "__main__":
    main()
