"""How an answer is judged: is it right, was what it rests on read, and is what it cites evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...tasks.score import Score
from ...tasks.search.matching import exact_match, token_f1
from ...tasks.search.task import SearchTask
from .progress import Answer, Progress
from .reading import named

PART = 0.5
"""From this F1 on an answer counts as partly right."""


@dataclass(frozen=True)
class Measures:
    """An episode in numbers.

    Args:
        exact: the answer is one of the accepted spellings.
        f1: of its tokens, against the spelling that is nearest.
        recall: the share of facts of which a page was read that states them.
        precision: the share of citations that are evidence and were read; ``None`` without any.
        invented: citations of what was never read.
    """

    exact: bool
    f1: float
    recall: float
    precision: float | None
    invented: tuple[str, ...]

    @property
    def success(self) -> bool:
        """The right answer, with everything read that it rests on, and nothing cited unread."""
        return self.exact and self.recall == 1.0 and not self.invented

    def to_json(self) -> dict[str, float | bool | None]:
        """For ``info``."""
        return {
            "exact": self.exact,
            "f1": self.f1,
            "evidence_recall": self.recall,
            "citation_precision": self.precision,
        }


def measure(task: SearchTask, progress: Progress) -> Measures:
    """The episode in numbers; without an answer, of an empty one."""
    said = progress.answer or Answer("")
    passages = dict(task.passages)
    read = {id for fact in task.evidence for id in fact if progress.has_read(id, passages.get(id))}
    facts = [any(id in read for id in fact) for fact in task.evidence]
    cited = tuple(dict.fromkeys(said.citations))
    answered = progress.answer is not None
    return Measures(
        exact=answered and exact_match(said.text, task.answers),
        f1=token_f1(said.text, task.answers) if answered else 0.0,
        recall=sum(facts) / len(facts) if facts else 1.0,
        precision=sum(id in read for id in cited) / len(cited) if cited else None,
        invented=tuple(id for id in cited if not progress.shown.get(id)),
    )


def score(measures: Measures, *, cites: bool) -> Score:
    """The judgement.

    Args:
        measures: the episode in numbers.
        cites: whether the agent can cite; a check that it could not pass is no check.
    """
    checks: Mapping[str, bool] = {
        "answer": measures.exact,
        "answer_f1": measures.f1 >= PART,
        "evidence": measures.recall == 1.0,
        **({"citations": measures.precision == 1.0} if cites else {}),
    }
    told = tuple(f"cited what was never read: {named(id)}" for id in measures.invented[:10])
    return Score(measures.success, checks, violations=told)
