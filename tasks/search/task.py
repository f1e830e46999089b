"""``SearchTask``: a question, its accepted answers, and the pages with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from .document import Corpus


@dataclass(frozen=True, slots=True)
class Lookup:
    """One step of the oracle: a search, and the page to read from its results.

    Args:
        query: search words; all of them occur in the question or in an earlier step's page.
        document: id of the page to read.
    """

    query: str
    document: str


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A question about a corpus.

    Args:
        question: question as the agent reads it; it does not contain the answer.
        answers: every accepted spelling; the first is the canonical one. Answers are normalized as in ``matching``.
        evidence: for each fact that the answer rests on, the ids of the pages that state it; any one of them is enough.
        lookups: steps by which the oracle finds the evidence, in order.
        corpus: pages to search.
        template: name of the template.
        kind: one-hop, chain, comparison, intersection, count, as-of, unanswerable or disambiguation.
        hops: number of facts to follow one after another.
        passages: pairs of a page id and the words that state the fact. Reading those words counts as reading the page;
            other pages must be read completely.
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
