"""The catalog of sites, and the worlds that they make up."""

from __future__ import annotations

from functools import lru_cache, partial

from ...rows.base_world import WORLDS, BaseWorld, Fill, Part
from ...spec import Split
from . import accounts
from .booking import history as booking
from .booking.site import Booking
from .cms import history as cms
from .cms.site import Newsroom
from .forum import history as forum
from .forum.site import Forum
from .shop import history as shop
from .shop.site import Shop
from .site import Site
from .tracker import history as tracker
from .tracker.site import Tracker
from .wiki import history as wiki
from .wiki.site import Wiki

PARTS: tuple[Part[Site], ...] = (
    Part(Shop, shop.fill),
    Part(Forum, forum.fill),
    Part(Tracker, tracker.fill),
    Part(Newsroom, cms.fill),
    Part(Wiki, wiki.fill),
    Part(Booking, booking.fill, held_out=True),
)
"""All sites, in the order in which a world is filled: rows of later sites may refer to those of earlier ones."""

SITES: tuple[type[Site], ...] = tuple(part.simulator for part in PARTS)
HELD_OUT = frozenset(part.simulator.name for part in PARTS if part.held_out)
"""Sites that only tasks of the split ``challenge`` use."""
IDLE: dict[str, frozenset[str]] = {table: columns for site in SITES for table, columns in site.idle.items()}
"""Columns that reading changes, by table."""


@lru_cache(maxsize=WORLDS)
def base_world(split: Split, number: int) -> BaseWorld:
    """Return the world with this number: a pure function of both arguments."""
    schemas = [accounts.schema(), *(site.schema() for site in SITES)]
    fills: dict[str, Fill] = {"accounts": partial(accounts.fill, sites=tuple(site.name for site in SITES))}
    fills |= {part.simulator.name: part.fill for part in PARTS}
    return BaseWorld.create("web", split, number, schemas, fills)
