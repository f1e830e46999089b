"""Which sites and which templates there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..people.cast import Cast
from ..rng import Rng
from ..rows.database import Database
from ..rows.template import Template
from .simulators.booking import history as booking_history
from .simulators.booking.site import Booking
from .simulators.cms import history as cms_history
from .simulators.cms.site import Newsroom
from .simulators.forum import history as forum_history
from .simulators.forum.site import Forum
from .simulators.shop import history as shop_history
from .simulators.shop.site import Shop
from .simulators.site import Site
from .simulators.tracker import history as tracker_history
from .simulators.tracker.site import Tracker
from .simulators.wiki import history as wiki_history
from .simulators.wiki.site import Wiki
from .templates.across.journeys import JOURNEYS
from .templates.booking import tasks as booking_tasks
from .templates.cms import tasks as cms_tasks
from .templates.forum import tasks as forum_tasks
from .templates.shop import tasks as shop_tasks
from .templates.tracker import tasks as tracker_tasks
from .templates.wiki import tasks as wiki_tasks


@dataclass(frozen=True)
class Part:
    """A site of every world.

    Args:
        site: what it answers.
        fill: writes what lies in it when a world begins.
        templates: of the tasks whose first site it is.
        held_out: whether only the split ``challenge`` knows it.
    """

    site: type[Site]
    fill: Callable[[Database, Cast, Rng], None]
    templates: tuple[Template, ...]
    held_out: bool = False


PARTS: tuple[Part, ...] = (
    Part(Shop, shop_history.fill, shop_tasks.TEMPLATES),
    Part(Forum, forum_history.fill, forum_tasks.TEMPLATES),
    Part(Tracker, tracker_history.fill, tracker_tasks.TEMPLATES),
    Part(Newsroom, cms_history.fill, cms_tasks.TEMPLATES),
    Part(Wiki, wiki_history.fill, wiki_tasks.TEMPLATES),
    Part(Booking, booking_history.fill, booking_tasks.TEMPLATES, held_out=True),
)
"""Every site, in the order in which worlds are filled: later ones may speak of earlier ones."""
ACROSS: tuple[Template, ...] = JOURNEYS
"""Templates of several sites that begin with none of them."""

SITES: tuple[type[Site], ...] = tuple(part.site for part in PARTS)
HELD_OUT = frozenset(part.site.name for part in PARTS if part.held_out)
"""The sites that only the split ``challenge`` knows."""
BASE: dict[str, Template] = {one.name: one for one in (*(one for part in PARTS for one in part.templates), *ACROSS)}
"""Every template that a person wrote, by its name."""
IDLE: dict[str, frozenset[str]] = {table: columns for site in SITES for table, columns in site.idle.items()}
"""Columns, by table, that change when somebody only looks."""
