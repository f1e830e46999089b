"""Vectors and fusion keep the contract with real faiss; what encodes is checked."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("faiss", reason="NOT TESTED: pip install 'turnwise[search-dense]'")

from turnwise.envs.search.retrieval.dense import AT_ONCE, Dense
from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.envs.search.retrieval.fused import Fused
from turnwise.envs.search.retrieval.retriever import Hit, Retriever
from turnwise.envs.search.retrieval.retriever_checks import PAGES, RetrieverContract
from turnwise.errors import ContractError, InfrastructureError, UsageError
from turnwise.tasks.search.document import Corpus, Document

from .encoders import SIZE, hashed

MODEL = os.environ.get("TURNWISE_SENTENCE_MODEL", "")


class TestDense(RetrieverContract):
    lexical = False

    def engine(self, corpus: Corpus) -> Retriever:
        return Dense(corpus, hashed)


class TestHybrid(RetrieverContract):
    lexical = False

    def engine(self, corpus: Corpus) -> Retriever:
        return Fused(Fts5(corpus), Dense(corpus, hashed))


def test_the_largest_products_are_found() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(3 * AT_ONCE + 7, 12)).astype(np.float32)
    pages = [Document(str(number), "", str(number)) for number in range(len(vectors))]
    found = Dense(Corpus("exact", pages), lambda texts: np.stack([vectors[int(text)] for text in texts]))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for number in range(0, len(vectors), 97):
        wanted = np.argsort(-(unit @ unit[number]), kind="stable")[:9]
        hits = found.search([str(number)], 9)[0]
        assert [int(hit.document.id) for hit in hits] == wanted.tolist()
        assert hits[0].score == pytest.approx(1.0, abs=1e-5), "the inner product of unit vectors is the cosine"


def test_a_model_gets_what_it_wants_before_a_text() -> None:
    asked: list[str] = []

    def noted(texts: Sequence[str]) -> Any:
        asked.extend(texts)
        return np.ones((len(texts), 2))

    Dense(Corpus("before", PAGES[:2]), noted, query="query: ", page="passage: ").search(["what", " "], 1)
    assert asked[0].startswith("passage: Veshaven lighthouse\nA tower")
    assert asked[2:] == ["query: what"], "a blank query is not encoded"


@pytest.mark.parametrize(
    "made",
    [np.ones((1, 4)), np.ones(4), np.full((4, 4), np.nan), np.ones((4, 4, 1))],
    ids=["too few", "no rows", "not finite", "too deep"],
)
def test_an_encoder_that_breaks_its_contract_is_named(made: Any) -> None:
    with pytest.raises(ContractError, match="a finite vector for each of 4 texts"):
        Dense(Corpus("broken", PAGES[:4]), lambda texts: made)


def test_an_encoder_that_changes_its_mind_is_named() -> None:
    pages = [Document(str(number), "", "") for number in range(AT_ONCE + 1)]
    with pytest.raises(ContractError, match="of 256 numbers, and then of 1"):
        Dense(Corpus("changing", pages), lambda texts: np.ones((len(texts), len(texts))))


def test_what_is_closed_says_so() -> None:
    found = Dense(Corpus("closed", PAGES), hashed)
    found.close()
    with pytest.raises(InfrastructureError, match="closed"):
        found.search(["tower"], 1)
    assert hashed(["x"]).shape == (1, SIZE)


class Listed:
    """An engine with scripted results."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids, self.closed = ids, False

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [[Hit(Document(id, "", ""), 0.0) for id in self.ids[:k]] for _ in queries]

    def get(self, id: str) -> Document | None:
        raise UsageError("this engine opens nothing")

    def close(self) -> None:
        self.closed = True


def test_fusion_is_by_places() -> None:
    one, other = Listed(["a", "b", "c"]), Listed(["b", "d"])
    hits = Fused(one, other).search(["x"], 10)[0]
    assert [hit.document.id for hit in hits] == ["b", "a", "d", "c"]
    assert hits[0].score == pytest.approx(1 / 62 + 1 / 61)
    with pytest.raises(UsageError, match="at least two engines"):
        Fused(one)
    fused = Fused(one, Fts5(Corpus("opens", PAGES)))
    assert fused.get("brandt") == PAGES[1], "one that opens pages is enough"
    with pytest.raises(UsageError, match="opens nothing"):
        Fused(one, other).get("a")
    fused.close()
    assert one.closed


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), min_size=2, max_size=4),
    st.integers(1, 9),
)
def test_what_all_rank_higher_stays_higher(lists: list[list[str]], k: int) -> None:
    hits = Fused(*map(Listed, lists)).search(["x"], 8)[0]
    ids = [hit.document.id for hit in hits]
    assert sorted(ids) == sorted({id for one in lists for id in one})
    places = {id: [found.index(id) if id in found else 99 for found in lists] for id in ids}
    for one, other in itertools.permutations(ids, 2):
        if all(a < b or a == b == 99 for a, b in zip(places[one], places[other], strict=True)):
            assert ids.index(one) < ids.index(other)
    assert [hit.document.id for hit in Fused(*map(Listed, lists)).search(["x"], k)[0]] == ids[:k]


@pytest.mark.skipif(
    not MODEL or importlib.util.find_spec("sentence_transformers") is None,
    reason="NOT TESTED: pip install sentence-transformers, and name a model's folder in TURNWISE_SENTENCE_MODEL",
)
def test_a_real_model_finds_what_means_the_same() -> None:
    from sentence_transformers import SentenceTransformer

    pages = [Document("cat", "", "The kitten sleeps on a sofa."), Document("tax", "", "Income is taxed by the state.")]
    found = Dense(Corpus("meaning", pages), SentenceTransformer(MODEL).encode)
    assert [hits[0].document.id for hits in found.search(["a small pet rests", "money owed to a government"], 1)] == [
        "cat",
        "tax",
    ]
