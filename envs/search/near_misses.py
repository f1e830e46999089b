"""Near misses of search tasks: guesses, citations of unread pages, and half of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...tasks.search.matching import token_f1
from ...tasks.search.task import SearchTask
from ..base import NearMiss
from ..messages import ActionLike, ToolCall
from .oracle import cited, next_action
from .progress import Progress

GUESSES = ("unknown", "unanswerable", "0", "1", "2", "3", "yes", "no")
Ending = Callable[[Progress], ActionLike]


def near_misses(task: SearchTask, *, opens: bool) -> Mapping[str, NearMiss]:
    """Return ways to play that must not succeed, by name.

    Args:
        task: the task that they miss.
        opens: whether pages can be opened and cited.
    """
    right = task.answers[0]
    everything = [one.id for one in _first(task, 49)]

    def answer(text: str, ids: list[str]) -> ToolCall:
        return ToolCall("answer", {"text": text, **({"citations": ids} if opens else {})})

    def after(ending: Ending) -> NearMiss:
        """Act like the oracle, and end with another answer."""

        def play(env: Any) -> ActionLike:
            own = env.unwrapped
            act = own.oracle()
            return ending(own.progress) if act.name == "answer" else act

        return play

    def wrong(progress: Progress) -> ActionLike:
        titles = [page.title for page in progress.pages.values() if not token_f1(page.title, task.answers)]
        return answer(titles[-1] if titles else f"not {right}", cited(task, progress))

    found: dict[str, NearMiss] = {
        **{f"{guess!r} without looking": [answer(guess, [])] for guess in GUESSES},
        "the right answer, unread": [answer(right, [])],
        "evidence read, another page's title answered": after(wrong),
        "evidence read, all names answered": after(lambda progress: answer(_names(task, progress), [])),
        "evidence read, nothing answered": after(lambda progress: answer("", cited(task, progress))),
        "the answer said, not given": after(lambda progress: right),
    }
    if opens:
        cites = list(dict.fromkeys(id for fact in task.evidence for id in fact))[:50]
        found["the right answer, its evidence cited unread"] = [answer(right, cites)]
        found["all pages cited"] = after(lambda progress: _padded(answer, right, everything, progress))
    if len(task.evidence) > 1:
        found["one fact left unread"] = _without_last(task, answer, opens=opens)
    return found


def _without_last(task: SearchTask, answer: Callable[[str, list[str]], ToolCall], *, opens: bool) -> NearMiss:
    """Give the right answer without reading the pages of the last fact."""
    last = set(task.evidence[-1])
    lookups = [one for one in task.lookups if one.document not in last]

    def play(env: Any) -> ActionLike:
        own = env.unwrapped
        act = next_action(task, own.progress, k=own.k, opens=opens, lookups=lookups)
        if act.name != "answer":
            return act
        # A list of hits may have shown the last fact after all: then this is not a miss.
        whole = own.measures().recall == 1.0
        return answer("" if whole else task.answers[0], [])

    return play


def _padded(
    answer: Callable[[str, list[str]], ToolCall], right: str, everything: list[str], progress: Progress
) -> ActionLike:
    unread = [id for id in everything if not progress.shown.get(id)]
    return answer(right, [*everything[:40], *unread[:10]]) if unread else ""


def _names(task: SearchTask, progress: Progress) -> str:
    """Answer with the titles seen so far, among them the answer."""
    return ", ".join([*(page.title for page in list(progress.pages.values())[:8]), task.answers[0], "unknown"])


def _first(task: SearchTask, n: int) -> list[Any]:
    return [page for page, _ in zip(task.corpus, range(n), strict=False)]
