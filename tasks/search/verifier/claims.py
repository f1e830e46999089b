"""Claims that hold for every task, verified by a reader that knows only the words of its pages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...rng import Rng
from ..document import Corpus
from ..matching import contained, exact_match
from ..task import SearchTask
from .library import Library


@lru_cache(maxsize=8)
def whole(corpus: Corpus) -> Library:
    """Return all pages of a corpus, parsed."""
    return Library(corpus)


def broken(task: SearchTask, rng: Rng) -> Iterator[str]:
    """Yield every claim that a task violates.

    Args:
        task: a task of the search family.
        rng: draws one page where any one of several is enough.
    """
    corpus = task.corpus
    pages = [[one for id in ids if (one := corpus.get(id)) is not None] for ids in task.evidence]
    if [len(some) for some in pages] != [len(ids) for ids in task.evidence] or not all(pages):
        yield "the evidence names pages that are not there"
        return
    if any(contained(one, task.question) for one in task.answers):
        yield "the answer is in the question"
    chosen = {one.id: one for some in pages for one in (rng.pick(some),)}
    if not _right(task, Library(chosen.values()).answers(task.question)):
        yield f"it is not answered by one page of each group of the evidence: {sorted(chosen)}"
    everything = whole(corpus)
    if not _right(task, everything.answers(task.question)):
        yield f"the whole wiki answers it by {everything.answers(task.question)}"
    for ids in task.evidence:
        left = everything.answers(task.question, without=ids)
        if left:
            yield f"without the pages {ids} the others still answer it, by {left}"
    if Library(()).answers(task.question):
        yield "it is answered without any page"


def _right(task: SearchTask, answers: set[str]) -> bool:
    """Return whether there is exactly one answer, and it is right."""
    return len(answers) == 1 and exact_match(next(iter(answers)), task.answers)
