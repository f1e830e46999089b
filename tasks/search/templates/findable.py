"""Whether a query finds a page: a cheap estimate, so that no task depends on a page that search does not return."""

from __future__ import annotations

import math
import re

from ..task import Lookup
from ..wiki.pages import Wiki

TITLE, K1, B = 4.0, 1.2, 0.75
"""BM25's constants, and the weight of a title's words, as in SQLite's engine here."""
WITHIN = 4
"""Rank up to which a page counts as found: engines differ a little, and agents see five hits."""
COMMON = frozenset({"the", "of", "in", "by", "and", "is", "a"})

Page = tuple[str, str, str, float]


def findable(wiki: Wiki, lookup: Lookup) -> bool:
    """Return whether a lookup's page is among the best for its query."""
    wanted = [word for word in re.findall(r"[^\W_]+", lookup.query.lower()) if word not in COMMON]
    scores: dict[str, float] = {}
    pages = _pages(wiki)
    for word in dict.fromkeys(wanted):
        hits = [
            (id, TITLE * title.count(word) + text.count(word), length)
            for id, title, text, length in pages
            if word in text or word in title
        ]
        rarity = max(1e-6, math.log((len(pages) - len(hits) + 0.5) / (len(hits) + 0.5)))
        for id, n, length in hits:
            scores[id] = scores.get(id, 0.0) + rarity * n * (K1 + 1) / (n + K1 * (1 - B + B * length))
    own = scores.get(lookup.document, 0.0)
    return own > 0 and sum(score >= own for score in scores.values()) <= WITHIN


def _pages(wiki: Wiki) -> list[Page]:
    """Return ids, titles and texts in lower case, and lengths relative to the mean."""
    if "findable" not in wiki.remembered:
        rows = [(one.id, one.title.lower(), one.text.lower()) for one in wiki.corpus]
        lengths = [title.count(" ") + text.count(" ") + 2 for _, title, text in rows]
        mean = sum(lengths) / len(lengths)
        wiki.remembered["findable"] = [(*row, length / mean) for row, length in zip(rows, lengths, strict=True)]
    return wiki.remembered["findable"]  # type: ignore[no-any-return]
