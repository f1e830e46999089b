"""Measure the levels of the search family, the success of guessing, and the number of different tasks.

The table of levels has means over the tasks of every template. "Pages read" are those that the oracle reads.
"Distractors" are pages whose titles share a name with these: earlier revisions, poor sources, copies, lists, namesakes.
"Guesses" is the share of a template's tasks that the most frequent answer would solve. The sweep takes consecutive
seeds, with levels in turn; two tasks are equal if they ask the same about the same wiki. With --prove, a reader who
knows only the pages answers each question from all of them; no answer, several, or another one make it ambiguous.

Run: python benchmarks/search_levels.py [--n 200] [--count 0] [--split train] [--level 0] [--prove]
     [--processes 1] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean

from turnwise.tasks.search.family import SEARCH_FAMILY
from turnwise.tasks.search.matching import exact_match, normalised
from turnwise.tasks.search.task import SearchTask
from turnwise.tasks.search.templates.levels import LEVELS
from turnwise.tasks.search.verifier.claims import whole
from turnwise.tasks.spec import Split


@dataclass(frozen=True)
class Measured:
    """Mean properties of the tasks of a level.

    Args:
        level: level of the tasks.
        pages: number of pages of a wiki.
        hops: number of facts that have to be followed one after another.
        facts: number of facts that the answer rests on.
        read: number of pages that the oracle reads.
        words: number of words on those pages.
        distractors: number of pages with titles like theirs.
        ms: milliseconds to make a task.
    """

    level: int
    pages: int
    hops: float
    facts: float
    read: float
    words: float
    distractors: float
    ms: float


@dataclass(frozen=True)
class Swept:
    """The result of a sweep.

    Args:
        tasks: number of tasks.
        duplicates: number of duplicates among them.
        ambiguous: number of ambiguous ones among them; ``None`` without a check.
        wikis: number of wikis that they are about.
        seconds: duration of the sweep.
    """

    tasks: int
    duplicates: int
    ambiguous: int | None
    wikis: int
    seconds: float


def distractors(task: SearchTask) -> int:
    """Count the pages that the oracle does not read, with a long word from the title of one that it reads."""
    read = {one.document for one in task.lookups}
    titles = [page.title for id in read if (page := task.corpus.get(id)) is not None]
    names = {word for title in titles for word in title.split() if len(word) > 6 and word[0].isupper()}
    return sum(one.id not in read and not names.isdisjoint(one.title.split()) for one in task.corpus)


def measured(level: int, n: int) -> Measured:
    """Return the means of n tasks of a level, every template of ``train`` equally often."""
    names = SEARCH_FAMILY.templates(Split.TRAIN)
    started = time.perf_counter()
    specs = [SEARCH_FAMILY.spec(i, level=level, template=names[i % len(names)]) for i in range(n)]
    tasks = [SEARCH_FAMILY.generate(one) for one in specs]
    ms = (time.perf_counter() - started) * 1000 / n
    pages = [[page for one in task.lookups if (page := task.corpus.get(one.document)) is not None] for task in tasks]
    return Measured(
        level,
        LEVELS[level].pages,
        mean(one.hops for one in tasks),
        mean(len(one.evidence) for one in tasks),
        mean(len(one) for one in pages),
        mean(sum(len(page.text.split()) for page in some) for some in pages),
        mean(map(distractors, tasks)),
        ms,
    )


def guesses(n: int) -> dict[str, float]:
    """Return the share of n tasks of level 1 that the best constant answer solves, by template."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for split in (Split.TRAIN, Split.CHALLENGE):
        for name in SEARCH_FAMILY.templates(split):
            for seed in range(n):
                task = SEARCH_FAMILY.generate(SEARCH_FAMILY.spec(seed, split=split, level=1, template=name))
                said[name][normalised(task.answers[0])] += 1
    return {name: some.most_common(1)[0][1] / n for name, some in said.items()}


def swept(n: int, *, split: str, level: int | None, prove: bool, processes: int) -> Swept:
    """Make n tasks, and look for equal and ambiguous ones."""
    started = time.perf_counter()
    play = partial(part, n, split, level, prove, processes)
    with ProcessPoolExecutor(processes) as pool:
        tasks, different, ambiguous, wikis = map(sum, zip(*pool.map(play, range(processes)), strict=True))
    return Swept(tasks, tasks - different, ambiguous if prove else None, wikis, time.perf_counter() - started)


def part(n: int, split: str, level: int | None, prove: bool, of: int, number: int) -> tuple[int, int, int, int]:
    """Run one process's part: the tasks of some wikis. Those of two wikis are never equal.

    Returns:
        Numbers of tasks, different ones, ambiguous ones, and wikis.
    """
    seen: set[tuple[str, str]] = set()
    ambiguous = tasks = 0
    specs = [one for one in SEARCH_FAMILY.sample(n, split=split, level=level) if one.seed % 64 % of == number]
    # Tasks of one wiki are consecutive, so that it is made and read once.
    for spec in sorted(specs, key=lambda one: (one.seed // 1024, one.seed % 64, one.level)):
        task = SEARCH_FAMILY.generate(spec)
        tasks += 1
        seen.add((task.corpus.name, normalised(task.question)))
        if prove:
            answers = whole(task.corpus).answers(task.question)
            ambiguous += len(answers) != 1 or not exact_match(next(iter(answers)), task.answers)
        if tasks % 2_000 == 0:
            print(f"process {number}: {tasks} of {len(specs)}", file=sys.stderr, flush=True)
    return tasks, len(seen), ambiguous, len({corpus for corpus, _ in seen})


def main(argv: Sequence[str] | None = None) -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200, help="tasks for every level, and for every template's guesses")
    parser.add_argument("--count", type=int, default=0, help="tasks of the sweep; 0: none")
    parser.add_argument("--split", default="train", choices=list(Split), help="of the sweep")
    parser.add_argument("--level", type=int, default=0, help="of the sweep; 0: all in turn")
    parser.add_argument("--prove", action="store_true", help="look for ambiguous questions, too")
    parser.add_argument("--processes", type=int, default=1, help="of the sweep")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args(argv)
    rows = [measured(level, options.n) for level in LEVELS] if options.n else []
    print("| level | pages | hops | facts | pages read | words read | distractors | ms |")
    print("|---|---|---|---|---|---|---|---|")
    for one in rows:
        figures = (one.hops, one.facts, one.read, one.words, one.distractors, one.ms)
        print(f"| {one.level} | {one.pages} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")
    best = guesses(options.n) if options.n else {}
    print("\n| template | best constant answer |\n|---|---|")
    for name, share in sorted(best.items(), key=lambda pair: -pair[1]):
        print(f"| {name} | {share:.1%} |")
    sweep = None
    if options.count:
        level = options.level or None
        sweep = swept(options.count, split=options.split, level=level, prove=options.prove, processes=options.processes)
        print(f"\n{sweep}")
    if options.json:
        report = {"levels": [asdict(one) for one in rows], "guesses": best, "sweep": asdict(sweep) if sweep else None}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
