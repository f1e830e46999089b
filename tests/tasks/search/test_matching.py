"""Normalization, equality and F1 of answers."""

from __future__ import annotations

import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.tasks.search.matching import betrayed, contained, exact_match, normalised, token_f1

TEXT = st.text(alphabet=st.sampled_from("abthe AN,.'-é1 \t\n"), max_size=30)
WORDS = st.lists(st.sampled_from(["ba", "co", "du", "fi"]), max_size=8)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("The Lantern of Orrin", "lantern of orrin"),
        ("  A   dog, an owl!  ", "dog owl"),
        ("O'Brien's", "obriens"),  # punctuation goes without a trace, as in SQuAD's own
        ("theatre", "theatre"),  # only whole words are articles
        ("1,911", "1911"),
        ("the", ""),
        ("", ""),
    ],
)
def test_normalisation_is_searchs(said: str, expected: str) -> None:
    assert normalised(said) == expected


@given(TEXT)
def test_normalisation_twice_changes_nothing_more(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert not set(once) & set(string.punctuation)
    assert once == once.strip().lower()


@given(TEXT, st.sampled_from(["", "the ", "An ", "  "]), st.sampled_from(["", ".", "!", "  "]))
def test_articles_case_and_punctuation_do_not_matter(text: str, before: str, after: str) -> None:
    assert exact_match(before + text.upper() + after, [text]) == bool(normalised(text))


def test_any_spelling_will_do_and_silence_never() -> None:
    assert exact_match("velmora!", ["Orrin", "The Velmora"])
    assert not exact_match("Velmora town", ["Velmora"])
    assert not exact_match("", [""])
    assert not exact_match("the", ["a"])
    assert not exact_match("Velmora", [])
    assert token_f1("Velmora", []) == 0.0
    assert token_f1("", [""]) == 0.0


@given(WORDS, WORDS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(said: list[str], true: list[str]) -> None:
    shared = sum(min(n, Counter(true)[word]) for word, n in Counter(said).items())
    expected = 0.0
    if shared:
        precision, recall = shared / len(said), shared / len(true)
        expected = 2 * precision * recall / (precision + recall)
    assert token_f1(" ".join(said), [" ".join(true)]) == pytest.approx(expected)
    assert token_f1(" ".join(said), [" ".join(true)]) == token_f1(" ".join(true), [" ".join(said)])


@given(TEXT, TEXT)
def test_what_matches_has_an_f1_of_one(said: str, true: str) -> None:
    if exact_match(said, [true]):
        assert token_f1(said, [true]) == 1.0
    assert 0.0 <= token_f1(said, [true]) <= 1.0


@given(WORDS, WORDS, st.lists(WORDS, max_size=3))
def test_more_spellings_never_make_it_worse(said: list[str], true: list[str], others: list[list[str]]) -> None:
    few, many = [" ".join(true)], [" ".join(true), *(" ".join(one) for one in others)]
    assert token_f1(" ".join(said), many) >= token_f1(" ".join(said), few)


def test_containment_is_of_whole_words() -> None:
    assert contained("Velmora", "Who founded the town (Velmora)?")
    assert not contained("Vel", "Who founded Velmora?")
    assert not contained("the", "the the")


@pytest.mark.parametrize(
    ("answer", "text", "given_away"),
    [
        ("Velmora", "Is it Velmora?", True),
        ("Velmora", "Is it v-e-l-m-o-r-a?", True),
        ("Velmora", "Is it arom lev?", True),
        ("Velmora", "Who built the tower?", False),
        ("yew", "Which wood is it (y e w)?", True),
        ("196", "Is it 1 9 6?", True),
        ("196", "Is it 6, 9, 1?", True),
        ("66", "Is it six (6-6)?", True),
        ("yew", "Who saw they were there?", False),
        ("yew", "Which eyewitness?", False),
        ("66", "How many of the 1,663?", False),
        ("", "Who?", False),
    ],
)
def test_what_gives_an_answer_away(answer: str, text: str, given_away: bool) -> None:
    assert betrayed(answer, text) is given_away
