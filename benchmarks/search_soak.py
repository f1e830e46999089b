"""Many questions by their oracle, and by all that must not succeed: guesses, silence, chance, the answer itself unread.

    python benchmarks/search_soak.py -n 5000

All splits and levels get equally many tasks, sixteen from a wiki. Every task is played in ``turnwise/Search-v1`` and
``turnwise/SearchTags-v1`` by the oracle, and in the former once in each other way. A first observation with one of the
task's answers in it is counted, too.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

import turnwise as tw
from turnwise.envs.search.env import SearchEnv
from turnwise.tasks.rng import Rng
from turnwise.tasks.search.family import SEARCH_FAMILY
from turnwise.tasks.spec import TaskSpec

FIRST, WIKIS, PLACES = 1024 * 50, 64, 16
"""The first seed; how many wikis a round of seeds has, and how many tasks of a kind each of them."""
Act = Callable[[SearchEnv], Any]


def sampled(n: int) -> Iterator[TaskSpec]:
    """Tasks of all splits and levels."""
    parts = [(split, level) for split in SEARCH_FAMILY.splits for level in SEARCH_FAMILY.levels]
    for number, (split, level) in enumerate(parts):
        for i in range(n // len(parts) + (number < n % len(parts))):
            wiki, place = divmod(i, PLACES)
            seed = FIRST + wiki % WIKIS + WIKIS * place + WIKIS * PLACES * (wiki // WIKIS)
            yield SEARCH_FAMILY.spec(seed, split=split, level=level)


def answers(text: str, *ids: str) -> Act:
    """Answer at once."""
    call = tw.ToolCall("answer", {"text": text, "citations": list(ids)})
    return lambda env: call


def ways(env: SearchEnv, spec: TaskSpec) -> dict[str, Act]:
    """Return actions that must not succeed, for the task of the current episode."""
    assert env.work is not None
    right, rng = env.work.answers[0], Rng("soak", spec.digest)
    ids = [id for fact in env.work.evidence for id in fact]
    return {
        "silence": lambda env: "",
        "chance": lambda env: env.random_action(rng),
        "unknown": answers("unknown"),
        "2": answers("2"),
        "the right answer, unread": answers(right),
        "the right answer, its evidence cited unread": answers(right, *ids[:50]),
    }


def played(env: SearchEnv, spec: TaskSpec, act: Act) -> bool:
    """Play an episode to its end."""
    env.reset(options={"task": spec})
    while True:
        _, _, terminated, truncated, info = env.step(act(env))
        if terminated or truncated:
            return bool(info["success"])


def opened(id: str) -> SearchEnv:
    """An environment without its wrappers."""
    env = tw.make(id).unwrapped
    assert isinstance(env, SearchEnv)
    return env


def main() -> None:
    """Play, and show what succeeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=5000, help="tasks")
    n, console = parser.parse_args().n, Console()
    env, tags = opened("turnwise/Search-v1"), opened("turnwise/SearchTags-v1")
    solved, began = Counter[str](), time.perf_counter()
    for number, spec in enumerate(sampled(n), 1):
        first, _ = env.reset(options={"task": spec})
        solved["an answer in the first observation"] += any(
            one.casefold() in first.text.casefold() for one in env.secrets()
        )
        others = ways(env, spec)
        for name, one in (("oracle, by tools", env), ("oracle, by tags", tags)):
            done = played(one, spec, lambda env: env.oracle())
            solved[name] += done
            if not done:
                console.print(f"NOT SOLVED, {name}: {spec.to_json()}")
        for name, act in others.items():
            done = played(env, spec, act)
            solved[name] += done
            if done and name != "chance":
                console.print(f"SOLVED BY {name!r}: {spec.to_json()}")
        if number % 250 == 0:
            console.print(f"{number} of {n} tasks, {time.perf_counter() - began:.0f} s", highlight=False)
    table = Table("way", "succeeded", "of")
    for name, count in solved.items():
        table.add_row(name, str(count), str(n))
    console.print(table)


if __name__ == "__main__":
    main()
