"""The catalog of apps, and the worlds that they make up."""

from __future__ import annotations

from functools import lru_cache, partial

from ...rows.base_world import WORLDS, BaseWorld, Part
from ...spec import Split
from .account import history as account
from .account.app import Account
from .app import App
from .calendar import history as calendar
from .calendar.app import Calendar
from .contacts import history as contacts
from .contacts.app import Contacts
from .files import history as files
from .files.app import Files
from .mail import history as mail
from .mail.app import Mail
from .music import history as music
from .music.app import Music
from .shop import history as shop
from .shop.app import Shop
from .todo import history as todo
from .todo.app import Todo
from .wallet import history as wallet
from .wallet.app import Wallet

PARTS: tuple[Part[App], ...] = (
    Part(Account, account.fill),
    Part(Contacts, contacts.fill),
    Part(Mail, mail.fill),
    Part(Calendar, calendar.fill),
    Part(Todo, todo.fill),
    Part(Wallet, wallet.fill),
    Part(Shop, shop.fill),
    Part(Files, files.fill, held_out=True),
    Part(Music, music.fill, held_out=True),
)
"""Every app, in the order in which a world is filled: rows of later apps may refer to those of earlier ones."""

APPS: tuple[type[App], ...] = tuple(part.simulator for part in PARTS)
HELD_OUT = frozenset(part.simulator.name for part in PARTS if part.held_out)
"""The apps that only the split ``challenge`` has."""
IDLE: dict[str, frozenset[str]] = {table: columns for app in APPS for table, columns in app.idle.items()}
"""Columns that reading changes, by table."""


@lru_cache(maxsize=WORLDS)
def base_world(split: Split, number: int) -> BaseWorld:
    """Return the world with this number: a pure function of both arguments."""
    parts = [part for part in PARTS if split is Split.CHALLENGE or not part.held_out]
    private = tuple(part.simulator.name for part in parts if part.simulator.private)
    fills = {part.simulator.name: part.fill for part in parts}
    fills["passwords"] = partial(account.fill_passwords, apps=private)
    return BaseWorld.create("apps", split, number, [part.simulator.schema() for part in parts], fills)
