"""SQLite's engine: it keeps the contract, ranks what is rare, and stays bounded."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.envs.search.retrieval.retriever import Retriever
from turnwise.envs.search.retrieval.retriever_checks import PAGES, RetrieverContract
from turnwise.envs.search.retrieval.tokenize import MOST, query_words
from turnwise.errors import InfrastructureError
from turnwise.tasks.search.document import Corpus, Document


class TestFts5(RetrieverContract):
    def engine(self, corpus: Corpus) -> Retriever:
        return Fts5(corpus)


def ids(found: Retriever, query: str, k: int = 5) -> list[str]:
    return [hit.document.id for hit in found.search([query], k)[0]]


@given(st.text(max_size=200), st.integers(-3, 40))
def test_any_text_is_a_query(query: str, k: int) -> None:
    (hits,) = ENGINE.search([query], k)
    assert len(hits) <= max(k, 0)


ENGINE = Fts5(Corpus("any", PAGES))


@given(st.lists(st.sampled_from(["tower", "oda", "ister", "quartz", "café"]), min_size=1, max_size=4))
def test_signs_between_words_change_nothing(chosen: list[str]) -> None:
    plain = ENGINE.search([" ".join(chosen)], 9)
    for sign in ("*", '"', ":", "-", "^", "\x00", " AND ", " (", ") NOT ", "+", "{", "\n", "\ud800"):
        if not sign.strip().isalpha():
            assert ENGINE.search([sign.join(chosen) if len(sign) == 1 else chosen[0]], 9) is not None
    for sign in '*":-^\x00+{\n\ud800':
        assert ENGINE.search([sign.join(chosen)], 9) == plain, f"{sign!r} between words is no space"


def test_endings_and_accents_do_not_matter() -> None:
    assert ids(ENGINE, "engineers drawing bridge")[0] == "brandt" or "brandt" in ids(ENGINE, "engineers drawing")
    assert ids(ENGINE, "Zoe istrian") == ["cafe"]


def test_stop_words_count_only_when_alone() -> None:
    assert query_words("the tower of the rocks") == ["tower", "rocks"]
    assert query_words("Who is the who") == ["who", "is", "the"], "what is left is what there was"
    assert query_words("A_b-C") == ["b", "c"]


def test_many_words_are_cut() -> None:
    assert len(query_words(" ".join(f"w{number}" for number in range(1000)))) == MOST


def test_a_title_counts_more_than_a_text() -> None:
    found = Fts5(Corpus("titles", [Document("text", "Fish", "salmon salmon"), Document("title", "Salmon", "A fish.")]))
    assert ids(found, "salmon") == ["title", "text"]


def test_common_words_only_add_where_there_are_too_many_pages() -> None:
    pages = [Document(str(number), f"Page {number}", f"common shared x{number % 100}") for number in range(300)]
    pages.append(Document("both", "Page", "x77 and blue"))
    pages += [Document(f"blue {number}", "Page", "blue") for number in range(50)]
    whole, bounded = Fts5(Corpus("rare", pages)), Fts5(Corpus("rare", pages), ranked=20)
    assert ids(whole, "blue x77", 1) == ids(bounded, "blue x77", 1) == ["both"]
    assert set(ids(bounded, "blue x77", 9)) == {"77", "177", "277", "both"}, "blue finds nothing, and raises one"
    assert ids(bounded, "common", 3) == ["0", "1", "2"], "a common word alone is looked for all the same"


@given(st.lists(st.sampled_from([f"w{n}" for n in range(12)]), min_size=1, max_size=5, unique=True), st.integers(1, 80))
def test_bounded_or_not_a_page_with_all_words_comes_before_one_with_some(chosen: list[str], ranked: int) -> None:
    bounded = Fts5(LADDER, ranked=ranked)
    (hits,) = bounded.search([" ".join(chosen)], 120)
    scores = {hit.document.id: hit.score for hit in hits}
    held = {page.id: set(chosen) & set(page.text.split()) for page in LADDER}
    assert all(held[id] for id in scores), "what has none of the words is not found"
    for id in list(scores)[:5]:
        for other in scores:
            if held[other] < held[id]:
                assert scores[other] < scores[id]


def rung(number: int) -> str:
    return " ".join(f"w{at}" if number % (at + 2) == 0 else f"v{at}" for at in range(12))


LADDER = Corpus("ladder", [Document(str(number), "", rung(number)) for number in range(120)])


def test_what_is_closed_says_so() -> None:
    found = Fts5(Corpus("closed", PAGES))
    found.close()
    with pytest.raises(InfrastructureError, match="closed"):
        found.search(["tower"], 1)


def test_a_copy_of_an_environment_shares_the_index() -> None:
    assert copy.deepcopy({"engine": ENGINE})["engine"] is ENGINE


def test_ties_hold_at_every_cut() -> None:
    rng = random.Random(4)
    pages = [Document(str(number), "Page", rng.choice(["red fish", "blue fish"])) for number in range(200)]
    found = Fts5(Corpus("ties", pages))
    everything = ids(found, "red fish", 200)
    red = [page.id for page in pages if page.text.startswith("red")]
    assert everything[: len(red)] == red
    assert everything[len(red) :] == [page.id for page in pages if page.text.startswith("blue")]
