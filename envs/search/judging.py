"""Scoring of an answer: its correctness, whether its evidence was read, and whether its citations are evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...tasks.score import Score
from ...tasks.search.matching import exact_match, token_f1
from ...tasks.search.task import SearchTask
from .progress import Answer, Progress
from .reading import named

PART = 0.5
"""The F1 from which on an answer counts as partly right."""


@dataclass(frozen=True)
class Measures:
    """Measures of one episode.

    Args:
        exact: whether the answer equals an accepted spelling.
        f1: largest F1 of the answer's tokens against an accepted spelling, in [0, 1].
        recall: share of facts for which the agent read a page that states them.
        precision: share of citations that are evidence and were read; ``None`` without citations.
        invented: citations of pages that the agent never read.
    """

    exact: bool
    f1: float
    recall: float
    precision: float | None
    invented: tuple[str, ...]

    @property
    def success(self) -> bool:
        """Whether the answer is right, all its evidence was read, and no unread page was cited."""
        return self.exact and self.recall == 1.0 and not self.invented

    def to_json(self) -> dict[str, float | bool | None]:
        """Return the entries of ``info``."""
        return {
            "exact": self.exact,
            "f1": self.f1,
            "evidence_recall": self.recall,
            "citation_precision": self.precision,
        }


def measure(task: SearchTask, progress: Progress) -> Measures:
    """Measure an episode; without an answer, as for an empty one."""
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
    """Turn measures into a score.

    Args:
        measures: measures of the episode.
        cites: whether the agent can cite; otherwise there is no check of citations, since it could not pass one.
    """
    checks: Mapping[str, bool] = {
        "answer": measures.exact,
        "answer_f1": measures.f1 >= PART,
        "evidence": measures.recall == 1.0,
        **({"citations": measures.precision == 1.0} if cites else {}),
    }
    violations = tuple(f"cited what was never read: {named(id)}" for id in measures.invented[:10])
    return Score(measures.success, checks, violations=violations)
