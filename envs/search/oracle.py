"""The oracle of search tasks, step by step, and random play."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.rng import Rng
from ...tasks.search.task import Lookup, SearchTask
from ..messages import ToolCall
from .progress import Progress
from .reading import PART_WORDS, covers, length, named, parts

MOST = 10
"""Most hits of a search."""


def next_action(
    task: SearchTask, progress: Progress, *, k: int, opens: bool, lookups: Sequence[Lookup] | None = None
) -> ToolCall:
    """Return the first action that is not done yet: a search, opening the page that it should find, or the answer.

    Args:
        task: the task.
        progress: the progress of the episode so far.
        k: the number of hits of a search that names no number.
        opens: whether pages can be opened.
        lookups: the lookups to follow; omitted, all of the task's.
    """
    passages = dict(task.passages)
    for lookup in task.lookups if lookups is None else lookups:
        if progress.has_read(lookup.document, passages.get(lookup.document)):
            continue
        act = _towards(lookup, progress, k=k, opens=opens)
        if act is not None:
            return act
    return ToolCall("answer", {"text": task.answers[0], **({"citations": cited(task, progress)} if opens else {})})


def cited(task: SearchTask, progress: Progress) -> list[str]:
    """Return one page that was read for every fact."""
    passages = dict(task.passages)
    read = [[id for id in fact if progress.has_read(id, passages.get(id))] for fact in task.evidence]
    return list(dict.fromkeys(ids[0] for ids in read if ids))


def _towards(lookup: Lookup, progress: Progress, *, k: int, opens: bool) -> ToolCall | None:
    """Return the next action toward a page: its search, a wider one, or its parts; ``None`` if none is left."""
    if opens and lookup.document in progress.pages:
        return _next_part(lookup.document, progress)
    searched = " ".join(lookup.query.split())
    for wanted in dict.fromkeys((k, MOST)) if opens else (k,):
        if (searched, wanted) not in progress.searched:
            return ToolCall("search", {"query": lookup.query, **({"k": wanted} if wanted != k else {})})
    return None


def _next_part(id: str, progress: Progress) -> ToolCall | None:
    page = progress.pages[id]
    for part in range(1, parts(page) + 1):
        begin = (part - 1) * PART_WORDS
        if not covers(progress.shown.get(id, ()), (begin, min(begin + PART_WORDS, length(page)))):
            return ToolCall("open", {"id": id, **({"part": part} if part > 1 else {})})
    return None


def random_act(task: SearchTask, progress: Progress, rng: Rng, *, opens: bool) -> ToolCall:
    """Search for words seen so far, open a page that was found, or answer with some of these words."""
    words = task.question.split()
    for page in list(progress.pages.values())[-3:]:
        words += [*page.title.split(), *page.text.split()[:60]]
    drawn = rng.random()
    if drawn < 0.5 or not progress.pages:
        return ToolCall("search", {"query": " ".join(rng.pick(words) for _ in range(3))})
    if opens and drawn < 0.8:
        return ToolCall("open", {"id": named(rng.pick(sorted(progress.pages)))})
    begin = rng.randrange(len(words))
    said = " ".join(words[begin : begin + rng.randint(1, 2)])
    return ToolCall("answer", {"text": said, **({"citations": [*list(progress.pages)[:2]]} if opens else {})})
