"""How many different web tasks there are, and how long they are: sampled, over all splits and levels.

    python benchmarks/web_tasks.py --sample 3000 --play 100

Two sampled tasks come out equal with a probability that tells how many there are: of ``n`` samples of a split from
``d`` equally likely tasks about ``n² / 2d`` pairs are equal. ``--play`` plays so many per level by the solution.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter

import turnwise as tw
from turnwise.tasks.spec import Split
from turnwise.tasks.web.family import WEB_FAMILY
from turnwise.tasks.web.levels import LEVELS
from turnwise.tasks.web.templates.catalogue import BASE, TEMPLATES


def distinct(n: int) -> None:
    """Sample tasks, and say how many differ."""
    per, seen, equal, pairs = n // len(Split), 0, 0, 0.0
    for split in Split:
        found = Counter[str]()
        for spec in WEB_FAMILY.sample(per, split=split, first_seed=1_000_000):
            task = WEB_FAMILY.generate(spec)
            # The question, the place and the user: the same words in another world are another task.
            found[f"{spec.seed % 64} {spec.level} {task.prompt}"] += 1
        seen += per
        equal += sum(many * (many - 1) // 2 for many in found.values())
        pairs += per * (per - 1) / 2
    # Three standard errors of a count of rare events, and never less than three.
    most = equal + 3 * max(1.0, equal) ** 0.5
    print(f"{seen} sampled, {equal} pairs equal: at least {pairs / most:,.0f} tasks in a split")


def lengths(n: int) -> None:
    """Play solutions, and say how long they are."""
    print("| level | solved | oracle's acts: median, 90 % | letters of an observation: median, 90 % |")
    print("|---|---|---|---|")
    env = tw.make("turnwise/WebHTML-v1").unwrapped
    for level in LEVELS:
        acts, letters, solved = [], [], 0
        for number in range(n):
            split = list(Split)[number % len(Split)]
            observation, _ = env.reset(seed=number, options={"level": level, "split": split})
            done, many = False, 0
            while not done:
                letters.append(len(observation.text))
                observation, _, ended, cut, info = env.step(env.oracle())  # type: ignore[attr-defined]
                done, many = ended or cut, many + 1
            acts.append(many)
            solved += bool(info["success"])
        act, letter = ((statistics.median(one), statistics.quantiles(one, n=10)[-1]) for one in (acts, letters))
        print(f"| {level} | {solved}/{n} | {act[0]:.0f}, {act[1]:.0f} | {letter[0]:,.0f}, {letter[1]:,.0f} |")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--sample", type=int, default=3000, help="tasks that are made")
    words.add_argument("--play", type=int, default=60, help="tasks of each level that are played; 0: none")
    said = words.parse_args()
    kinds = Counter(one.kind for one in TEMPLATES.values())
    print(f"{len(TEMPLATES)} templates, {len(BASE)} of them written: {dict(kinds)}")
    distinct(said.sample)
    if said.play:
        lengths(said.play)


if __name__ == "__main__":
    main()
