"""When an answer is right: equality and token F1 after normalisation, as in SQuAD and Search-R1."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable

ARTICLES = frozenset({"a", "an", "the"})
SPELT = 4
"""Shorter answers stand in many words by chance; they are looked for where letters stand alone."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces. Applied twice it changes nothing more."""
    return " ".join(word for word in text.lower().translate(_PUNCTUATION).split() if word not in ARTICLES)


def exact_match(answer: str, spellings: Iterable[str]) -> bool:
    """Whether an answer is one of the spellings after normalisation. An empty answer never is."""
    said = normalised(answer)
    return bool(said) and any(said == normalised(one) for one in spellings)


def token_f1(answer: str, spellings: Iterable[str]) -> float:
    """The best F1 of shared tokens over the spellings, each token counted as often as it stands there."""
    return max((_f1(normalised(answer).split(), normalised(one).split()) for one in spellings), default=0.0)


def contained(answer: str, text: str) -> bool:
    """Whether a text has an answer in it as whole words, after normalisation."""
    said = normalised(answer)
    return bool(said) and f" {said} " in f" {normalised(text)} "


def betrayed(answer: str, text: str) -> bool:
    """Whether a text gives an answer away: in whole words, or letter by letter, forwards or backwards."""
    said, words = "".join(_words(answer)), _words(text)
    letters = "".join(words) if len(said) >= SPELT else "".join(one if len(one) == 1 else " " for one in words)
    return contained(answer, text) or (bool(said) and (said in letters or said[::-1] in letters))


def _words(text: str) -> list[str]:
    """Runs of letters and digits, in one form and case."""
    return "".join(one if one.isalnum() else " " for one in unicodedata.normalize("NFKC", text).casefold()).split()


def _f1(said: list[str], true: list[str]) -> float:
    common = sum((Counter(said) & Counter(true)).values())
    # Both empty is equality in SQuAD; here nothing said is no answer.
    return 2 * common / (len(said) + len(true)) if common else 0.0
