"""Measure how far a grammar carries a proposer of questions that knows nothing else.

A proposer of search self-play is given an answer. Suppose it has read the pages that the family's own question rests
on. It then asks one of the grammar's questions of one fact about one of these pages, each equally likely. The table has
the share of such questions that keep the rules, and the share that an exact reader also answers in one way, by the
given answer (``grammar = true``). Both are enumerated, without a model. Beside them stands the same share for the
words that random play proposes. Intervals are 95 % Student intervals over tasks.

Run: python benchmarks/proposal_grammar.py [--tasks 100] [--levels 1 2 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

from kept import shown
from rich.console import Console
from rich.table import Table

from turnwise.envs.search.progress import Answer, Progress
from turnwise.envs.search.proposing import PROPOSABLE, Proposal
from turnwise.envs.search.reading import length
from turnwise.evals.statistics import Estimate, student
from turnwise.tasks.search.document import Document
from turnwise.tasks.search.family import SearchFamily
from turnwise.tasks.search.task import SearchTask
from turnwise.tasks.search.verifier.reading import read
from turnwise.tasks.search.wiki.relations import relations_of


@dataclass(frozen=True)
class Row:
    """Shares at a level, as means over tasks.

    Args:
        level: level of the tasks.
        questions: number of grammatical questions of a task.
        rules: share of them that keep the rules.
        sure: share of them that also have the given answer alone.
    """

    level: int
    questions: Estimate
    rules: Estimate
    sure: Estimate


def simple_questions(pages: Iterable[Document]) -> Iterator[str]:
    """Yield every question of one fact about what a page is about, in every wording."""
    for page in pages:
        about = read(page)
        name, _, sort = about.about.partition(" (")
        text = f"the {sort.rstrip(')')} {name}" if sort else name
        for relation in relations_of(about.kind) if about.kind else ():
            yield from (form.replace("{s}", text) for form in relation.ask)


def proposals(task: SearchTask) -> list[Proposal]:
    """Return the proposal of each such question about the pages that the task's own question rests on."""
    found = [task.corpus.get(ids[0]) for ids in task.evidence]
    pages = {page.id: page for page in found if page is not None}
    seen = {id: ((0, length(page)),) for id, page in pages.items()}
    questions = dict.fromkeys(simple_questions(pages.values()))
    progress = Progress(pages=pages, shown=seen)
    return [Proposal.of(task, replace(progress, answer=Answer(one)), grammar=True) for one in questions]


def measured(level: int, number: int) -> Row:
    """Return the shares of a level."""
    family = SearchFamily.only(PROPOSABLE)
    tasks = [proposals(family.generate(family.spec(seed, level=level))) for seed in range(number)]
    asked = [found for found in tasks if found]  # a list has no kind, and so no question of one fact
    rules = [fmean(one.asks and one.hides and one.rests for one in found) for found in asked]
    sure = [fmean(one.valid for one in found) for found in asked]
    return Row(level, student([len(found) for found in tasks]), student(rules), student(sure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100, help="tasks per level")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    rows = [measured(level, args.tasks) for level in args.levels]
    table = Table("level", "questions per task", "keep the rules", "and have the given answer alone")
    for row in rows:
        table.add_row(str(row.level), shown(row.questions, 1), shown(row.rules, 3), shown(row.sure, 3))
    Console(width=130).print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
