"""Wordle: feedback that counts a repeated letter correctly, words of one split, an oracle that always wins."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Split
from turnwise.errors import TaskError
from turnwise.tasks.games import wordle
from turnwise.tasks.games.wordle import LEVELS, TRIES, WORDLES, Guess, best_guess, consistent, feedback

few_letters = st.text("abc", min_size=5, max_size=5)  # a small alphabet, so that many characters repeat
pairs = st.one_of(st.tuples(few_letters, few_letters), st.tuples(*[st.text("abcdefgh", min_size=3, max_size=3)] * 2))


@given(pairs)
def test_a_letter_is_marked_as_often_as_the_secret_has_it(pair: tuple[str, str]) -> None:
    guess, secret = pair
    marks = feedback(guess, secret)
    for letter in set(guess):
        marked = sum(mark != "-" for mine, mark in zip(guess, marks, strict=True) if mine == letter)
        assert marked == min(guess.count(letter), secret.count(letter)), "no letter of the secret is spent twice"
        kinds = [mark for mine, mark in zip(guess, marks, strict=True) if mine == letter and mark != "g"]
        assert kinds == sorted(kinds, key="y-".index), "yellows go to the leftmost"
    for mine, theirs, mark in zip(guess, secret, marks, strict=True):
        assert (mark == "g") == (mine == theirs), "green means the same letter in the same place, and nothing else"


@given(pairs)
def test_numbers_say_what_marks_say(pair: tuple[str, str]) -> None:
    guess, secret = pair
    code = 0
    for mark in feedback(guess, secret):
        code = code * 3 + "-yg".index(mark)
    assert wordle.answers(wordle.letters([guess]), wordle.letters([secret]))[0].nonzero()[0].tolist() == [code]


@pytest.mark.parametrize(
    ("guess", "secret", "marks"),
    [
        ("speed", "abide", "--y-y"),
        ("speed", "erase", "y-yy-"),
        ("allee", "apple", "gy--g"),
        ("eerie", "there", "y-y-g"),
        ("aabbb", "bbaab", "yyyyg"),
    ],
)
def test_repeated_letters_by_hand(guess: str, secret: str, marks: str) -> None:
    assert feedback(guess, secret) == marks


def test_words_of_different_length_have_no_feedback() -> None:
    with pytest.raises(TaskError, match="'cat' and secret 'crane'"):
        feedback("cat", "crane")


def test_a_secret_belongs_to_learning_or_to_a_test() -> None:
    for level in LEVELS:
        words = {split: set(wordle.secrets(level, split)) for split in Split}
        train, dev = words.pop(Split.TRAIN), words.pop(Split.DEV)
        assert train
        assert dev
        assert not train & dev
        for split, held in words.items():
            assert held, f"level {level} has no secrets in {split}"
            assert not held & (train | dev), f"level {level}: {split} holds words that a learner may have seen"
        initials = {word[0] for word in train | dev | words[Split.TEST_IID]}
        assert not initials & {word[0] for word in words[Split.TEST_ENTITY]}, "test_entity begins otherwise"


def test_what_is_train_at_one_level_is_train_at_every_level() -> None:
    for common, every in ((1, 2), (4, 5)):
        for split in Split:
            assert set(wordle.secrets(common, split)) <= set(wordle.secrets(every, split))


def test_lists_grow_with_the_level() -> None:
    sizes = [len(wordle.vocabulary(level)) for level in LEVELS]
    assert all(one < other for one, other in pairwise(sizes))
    assert sizes == [116, 275, 925, 1365, 3449], "a change of the lists changes every digest's meaning: new version"
    for level, rule in LEVELS.items():
        words = wordle.vocabulary(level)
        assert len(set(words)) == len(words)
        assert {len(word) for word in words} == {rule.length}


def test_what_is_read_first_spells_no_secret() -> None:
    for level in LEVELS:
        for split in WORDLES.splits:
            for word in wordle.secrets(level, split):
                for wording in wordle.WORDINGS.values():
                    assert word not in f"{wording.rules} {wordle.OPENING}".lower()


def turns_of_the_oracle(level: int) -> dict[str, int]:
    """Turns for every word of a level, by walking the oracle's whole tree of answers."""
    turns: dict[str, int] = {}

    def walk(guesses: tuple[Guess, ...], words: list[str], turn: int) -> None:
        guess = best_guess(level, guesses, TRIES - turn + 1)
        answers = defaultdict(list)
        for word in words:
            answers[feedback(guess, word)].append(word)
        for marks, left in answers.items():
            if set(marks) == {"g"}:
                turns[guess] = turn
            elif turn < TRIES:
                walk((*guesses, (guess, marks)), left, turn + 1)

    walk((), list(wordle.vocabulary(level)), 1)
    return turns


@pytest.mark.parametrize(
    ("level", "mean", "longest"),
    [
        (1, 3.31, 5),
        (2, 4.26, 6),
        pytest.param(3, 3.77, 6, marks=[pytest.mark.slow, pytest.mark.shift]),
        pytest.param(4, 3.25, 5, marks=pytest.mark.shift),
        pytest.param(5, 3.64, 6, marks=pytest.mark.shift),
    ],
)
def test_the_oracle_finds_every_secret_in_six(level: int, mean: float, longest: int) -> None:
    turns = turns_of_the_oracle(level)
    secrets = {word for word in wordle.vocabulary(level) if wordle.splits_of(word)}
    assert secrets <= set(turns), f"never found: {sorted(secrets - set(turns))}"
    needed = [turns[word] for word in secrets]
    assert max(needed) == longest
    assert np.mean(needed) == pytest.approx(mean, abs=0.005), "the table in the module's docstring"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_openers_are_what_the_oracle_would_choose(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    opener = LEVELS[level].opener
    monkeypatch.setattr(wordle, "LEVELS", {level: replace(LEVELS[level], opener="")})
    assert best_guess.__wrapped__(level, (), TRIES) == opener


def test_what_is_consistent_answers_alike() -> None:
    words = wordle.vocabulary(1)
    guesses = (("pat", feedback("pat", "ten")), ("end", feedback("end", "ten")))
    left = consistent(words, guesses)
    assert "ten" in left
    assert all(feedback("pat", word) == guesses[0][1] for word in left)
    assert consistent(words, ()) == list(words)
