"""Comparison of answers: equality and token F1 after normalization, as in SQuAD and Search-R1."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable

ARTICLES = frozenset({"a", "an", "the"})
SPELT = 4
"""Shorter answers occur inside many words by chance, so ``betrayed`` looks for them only between single characters."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, with single spaces. The function is idempotent."""
    return " ".join(word for word in text.lower().translate(_PUNCTUATION).split() if word not in ARTICLES)


def exact_match(answer: str, spellings: Iterable[str]) -> bool:
    """Return whether an answer equals a spelling after normalization. An empty answer never does."""
    said = normalised(answer)
    return bool(said) and any(said == normalised(one) for one in spellings)


def token_f1(answer: str, spellings: Iterable[str]) -> float:
    """Return the best F1 of shared tokens over the spellings, counting repeated tokens."""
    return max((_f1(normalised(answer).split(), normalised(one).split()) for one in spellings), default=0.0)


def contained(answer: str, text: str) -> bool:
    """Return whether a text contains an answer as whole words, after normalization."""
    said = normalised(answer)
    return bool(said) and f" {said} " in f" {normalised(text)} "


def betrayed(answer: str, text: str) -> bool:
    """Return whether a text reveals an answer: as whole words, or spelled out, forwards or backwards."""
    said, words = "".join(_words(answer)), _words(text)
    letters = "".join(words) if len(said) >= SPELT else "".join(one if len(one) == 1 else " " for one in words)
    return contained(answer, text) or (bool(said) and (said in letters or said[::-1] in letters))


def _words(text: str) -> list[str]:
    """Return the runs of alphanumeric characters, in normal form and case-folded."""
    return "".join(one if one.isalnum() else " " for one in unicodedata.normalize("NFKC", text).casefold()).split()


def _f1(said: list[str], true: list[str]) -> float:
    common = sum((Counter(said) & Counter(true)).values())
    # In SQuAD, two empty texts are equal. Here, an empty text does not count as an answer.
    return 2 * common / (len(said) + len(true)) if common else 0.0
