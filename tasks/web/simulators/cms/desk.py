"""What the newsroom writes about, and what its pages ask of the rows."""

from __future__ import annotations

import re
from datetime import date

CATEGORIES = ("politics", "city", "sports", "culture", "business", "science")
STATES = ("draft", "review", "scheduled", "published")
"""What may become of an article, in this order."""
PLACES = ("top", "side", "bottom", "newsletter")
"""Where banners stand."""
TAGS = ("weather", "schools", "traffic", "housing", "health", "energy", "books", "football", "startups", "climate")
TITLES = (
    "{city} argues about the {topic}",
    "New {topic} for {city}",
    "{city}: {topic} postponed again",
    "What the {topic} in {city} costs",
    "{topic} in {city} starts early",
    "Few come to the {topic} in {city}",
    "{city} celebrates its {topic}",
)
LEADS = (
    "No one had expected it to happen so fast.",
    "The town council met for six hours.",
    "Neighbors had been complaining since spring.",
    "There is more money than last year.",
    "A decision is expected within a month.",
    "Our reporter was there in the morning.",
)
TEXTS = (
    "More than two hundred people came. The organizers were pleased and want to continue next year.",
    "The mayor said that this was only the beginning. The opposition called it a waste.",
    "It had been planned for a long time. In the end, it took a single afternoon.",
    "Residents have mixed feelings. Some have put up signs.",
    "The figures were published on Tuesday. They are lower than in previous years.",
)
REMARKS = (
    "Finally, someone writes about this.",
    "Where did you get these numbers?",
    "Buy cheap watches on my page.",
    "I was there, it was different.",
    "Good article, thank you.",
    "My cousin earns a fortune from home.",
    "You forgot the north side of town.",
    "This is the third time this year.",
)
READERS = ("nightowl", "marta_k", "tramfan", "old_oak", "best_deals", "river7", "quietman", "lucky_offer")
"""Who comments."""
ARTICLES = """SELECT cms_articles.*, cms_authors.name AS author FROM cms_articles
    JOIN cms_authors ON cms_authors.id = author_id"""
COMMENTS = """SELECT cms_comments.*, title FROM cms_comments JOIN cms_articles ON cms_articles.id = article_id"""
TAGGED = """SELECT cms_taggings.*, name FROM cms_taggings JOIN cms_tags ON cms_tags.id = tag_id WHERE article_id = ?
    ORDER BY name"""


def slug_of(title: str) -> str:
    """The part of an address that a title gives."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def read_day(text: str) -> date | None:
    """A day written as ``2025-05-14``."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
