"""Constants and queries of the newsroom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date

from ....rows.data import phrases_beside

CATEGORIES = ("politics", "city", "sports", "culture", "business", "science")
STATES = ("draft", "review", "scheduled", "published")
"""States of an article, in order."""
PLACES = ("top", "side", "bottom", "newsletter")
"""Positions of banners."""
ARTICLES = """SELECT cms_articles.*, cms_authors.name AS author FROM cms_articles
    JOIN cms_authors ON cms_authors.id = author_id"""
COMMENTS = """SELECT cms_comments.*, title FROM cms_comments JOIN cms_articles ON cms_articles.id = article_id"""
TAGGED = """SELECT cms_taggings.*, name FROM cms_taggings JOIN cms_tags ON cms_tags.id = tag_id WHERE article_id = ?
    ORDER BY name"""


def phrases() -> Mapping[str, tuple[str, ...]]:
    """Return the texts of the newsroom by kind."""
    return phrases_beside(__name__)


def slug_of(title: str) -> str:
    """Return the part of a URL that a title becomes."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def read_day(text: str) -> date | None:
    """Parse a day written as ``2025-05-14``."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
