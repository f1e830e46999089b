"""The words of a query: all that engines look for, whatever syntax an agent wrote."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 4096
"""Most characters of a query to read."""
MOST = 32
"""Most different words of a query to look for, the first ones."""
WORD = re.compile(r"[^\W_]+")

_STOPS = (
    "a about after all also an and any are as at be because been but by can could did do does for from had has have he "
    "her his how i if in into is it its just me more most my no nor not of on or other our out over own she so some "
    "such than that the their them then there these they this to too up us very was we were what when where which "
    "while who whom whose why will with would you your"
)
STOP_WORDS = frozenset(_STOPS.split())
"""English stop words: they occur in so many pages that they separate none, and cost most of a search."""


def query_words(query: str) -> list[str]:
    """The different words of a query in their order, in lower case, without stop words unless nothing else is left.

    Whatever is neither a letter nor a digit parts words: a query is never a language.
    """
    text = unicodedata.normalize("NFC", query[:LONGEST]).lower()
    found = list(dict.fromkeys(WORD.findall(text)))
    telling = [word for word in found if word not in STOP_WORDS]
    return (telling or found)[:MOST]
