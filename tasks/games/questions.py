"""Parsing of free questions about a hidden thing: guesses, canonical phrases, and keywords if neither fits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

LONGEST = 40
"""Most words of a question that is understood (LMRL-Gym's limit): a longer one could hold every guess at once."""
NEGATIONS = frozenset({"not", "isnt", "arent", "doesnt", "dont", "cant", "never", "neither", "nor", "without"})
OPENINGS = re.compile(
    r"(?:(?:ok|okay|so|well|hm+|please|tell me|let me guess|my (?:final )?guess is|i guess|i think|i wonder if|"
    r"final answer|answer|question|guess) )*"
    r"(?:(?:would|do) you (?:say|think|call)(?: that)? |(?:is|was|are|were|could|can|may|might|must) )?"
    r"(?:(?:it|this|that|they|the (?:object|thing|word|answer|city|item)|your (?:object|thing|word|city)) )?"
    r"(?:(?:is|are|be) )?(?:(?:it|this|that) )?"
)
ARTICLES = re.compile(r"(?:(?:a|an|the|some|any|your|called|(?:kind|type|sort) of) )+")


class Kind(StrEnum):
    """Kinds of questions."""

    ATTRIBUTE = "attribute"
    """A question whether the thing has a property."""
    GUESS = "guess"
    """A guess of one thing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An understood question.

    Args:
        kind: kind of question.
        name: name of the property, or of the thing guessed.
    """

    kind: Kind
    name: str


@lru_cache(maxsize=4096)
def normal(text: str) -> str:
    """Return a text in lower case without accents, apostrophes or punctuation, its words separated by single spaces."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(re.sub(r"[^a-z0-9]+", " ", re.sub(r"['’`]", "", plain)).split())


def core(text: str) -> str:
    """Remove phrases such as "is it" or "tell me, could it be", and articles, from a normalized question."""
    rest = text + " "
    rest = rest[_end(OPENINGS, rest) :]
    rest = rest[_end(ARTICLES, rest) :]
    return rest.strip()


def named(text: str, names: Mapping[str, str]) -> str | None:
    """Return the one thing that a question names and nothing else, by any of its names.

    Args:
        text: text of the question.
        names: every name and variant, normalized, mapped to its thing.
    """
    words = normal(text)
    if len(words.split()) > LONGEST:
        return None
    return names.get(core(words)) or names.get(words)


class Reader:
    """Understands questions about properties and guesses.

    Args:
        names: every name and variant, mapped to its thing.
        phrases: for each property, phrases that complete "Is it …?".
        keywords: for each property, words that identify a free question.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        phrases: Mapping[str, Iterable[str]],
        keywords: Mapping[str, Iterable[str]],
    ) -> None:
        self.names = {normal(name): thing for name, thing in names.items()}
        self.phrases = {core(normal(text)): name for name, texts in phrases.items() for text in texts}
        self.keywords = [(f" {normal(word)} ", name) for name, words in keywords.items() for word in words]

    def read(self, text: str) -> Reading | None:
        """Return the meaning of a question; ``None`` if it is unknown, or asks several things at once."""
        words = normal(text)
        if not words or len(words.split()) > LONGEST:
            return None
        rest = core(words)
        if rest in self.phrases:
            return Reading(Kind.ATTRIBUTE, self.phrases[rest])
        guess = self.names.get(rest) or self.names.get(words)
        if guess is not None:
            return Reading(Kind.GUESS, guess)
        return self._free(words)

    def _free(self, words: str) -> Reading | None:
        if not NEGATIONS.isdisjoint(words.split()):
            return None
        hits = {name: 0 for _, name in self.keywords}
        for keyword, name in self.keywords:
            if keyword in f" {words} ":
                hits[name] = max(hits[name], len(keyword.split()))
        longest = max(hits.values(), default=0)
        best = [name for name, length in hits.items() if length == longest]
        if not longest or len(best) > 1 or (" or " in words and sum(map(bool, hits.values())) > 1):
            return None
        return Reading(Kind.ATTRIBUTE, best[0])


def _end(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return found.end() if found else 0
