"""The catalog of the templates of sites."""

from __future__ import annotations

from ...rows.template import Template, by_name
from .across.journeys import JOURNEYS
from .booking import tasks as booking
from .cms import tasks as cms
from .compose import pairs_of
from .forum import tasks as forum
from .shop import tasks as shop
from .tracker import tasks as tracker
from .wiki import tasks as wiki

BASE: dict[str, Template] = by_name(
    shop.TEMPLATES,
    forum.TEMPLATES,
    tracker.TEMPLATES,
    cms.TEMPLATES,
    wiki.TEMPLATES,
    booking.TEMPLATES,
    JOURNEYS,
)
"""Templates with a function of their own, by name."""
TEMPLATES: dict[str, Template] = {**BASE, **by_name(pairs_of(tuple(BASE.values())))}
"""Every template by its name: those of ``BASE``, and pairs of them, which learners only see apart. A seed draws one of
them by its position: another order changes the tasks of seeds."""
