"""``SearchTask``: a question, what counts as its answer, and the pages that show it."""

from __future__ import annotations

from dataclasses import dataclass

from .document import Corpus


@dataclass(frozen=True, slots=True)
class Lookup:
    """One step of the oracle: a search, and the page that it is made for.

    Args:
        query: what is searched for; it has only words that the question or an earlier step's page has.
        document: the id of the page that is then read.
    """

    query: str
    document: str


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A question about a corpus.

    Args:
        question: as the agent reads it; the answer is not in it.
        answers: every spelling that is accepted; the first is the canonical one. Normalised as in ``matching``.
        evidence: for each fact that the answer rests on, the ids of the pages that state it, any one of which will do.
        lookups: how the oracle finds the evidence, in order.
        corpus: where it is searched.
        template: the template's name.
        kind: one-hop, chain, comparison, intersection, count, as-of, unanswerable or disambiguation.
        hops: how many facts are followed one after another.
        passages: (page, words of it) where the words state the fact, and whoever was shown them has read enough of the
            page; of other pages all must have been shown.
    """

    question: str
    answers: tuple[str, ...]
    evidence: tuple[tuple[str, ...], ...]
    lookups: tuple[Lookup, ...]
    corpus: Corpus
    template: str
    kind: str
    hops: int
    passages: tuple[tuple[str, str], ...] = ()
