"""The company that the wiki is about: sections, headings and texts of its pages."""

from __future__ import annotations

from collections.abc import Mapping

from ....rows.data import lists_beside, phrases_beside

SECTIONS = ("handbook", "products", "how-tos", "people", "teams", "offices")
"""Sections of pages."""
HEADS: Mapping[str, tuple[str, ...]] = {
    "handbook": ("Rule", "Exceptions"),
    "products": ("Use", "Known problems"),
    "how-tos": ("Before you start", "Steps"),
    "people": ("About",),
    "teams": ("What we do",),
    "offices": ("Getting there", "Opening hours"),
}
"""Headings of paragraphs, by section."""


def phrases() -> Mapping[str, tuple[str, ...]]:
    """Return the texts of the wiki by kind, but for the sentences of pages."""
    return phrases_beside(__name__)


def sentences() -> Mapping[str, tuple[str, ...]]:
    """Return the sentences that a part of a page may have, by its heading."""
    return lists_beside(__name__, "sentences.toml")
