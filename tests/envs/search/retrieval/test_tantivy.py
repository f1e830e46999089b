"""Tantivy keeps the contract; what is its own is that ties are sorted here."""

from __future__ import annotations

import pytest

pytest.importorskip("tantivy", reason="NOT TESTED: pip install 'turnwise[search]'")

from turnwise.envs.search.retrieval.engines import retriever_for
from turnwise.envs.search.retrieval.retriever import Retriever
from turnwise.envs.search.retrieval.retriever_checks import PAGES, RetrieverContract
from turnwise.envs.search.retrieval.tantivy import Tantivy
from turnwise.errors import InfrastructureError
from turnwise.tasks.search.document import Corpus, Document


class TestTantivy(RetrieverContract):
    def engine(self, corpus: Corpus) -> Retriever:
        return Tantivy(corpus)


def test_hundreds_of_ties_are_in_order() -> None:
    pages = [Document(str(number), "Same", "all the same fish") for number in range(700)]
    (hits,) = Tantivy(Corpus("ties", pages)).search(["fish"], 150)
    assert [hit.document.id for hit in hits] == [str(number) for number in range(150)]


def test_it_is_chosen_by_name() -> None:
    found = retriever_for(Corpus("tantivy/name", PAGES), "tantivy")
    assert isinstance(found, Tantivy)


def test_what_is_closed_says_so() -> None:
    found = Tantivy(Corpus("closed", PAGES))
    found.close()
    with pytest.raises(InfrastructureError, match="closed"):
        found.search(["tower"], 1)
