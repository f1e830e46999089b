"""The catalog of apps and templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..people.cast import Cast
from ..rng import Rng
from ..rows.database import Database
from ..rows.template import Template
from .simulators.account import history as account_history
from .simulators.account.app import Account
from .simulators.app import App
from .simulators.calendar import history as calendar_history
from .simulators.calendar.app import Calendar
from .simulators.contacts import history as contacts_history
from .simulators.contacts.app import Contacts
from .simulators.files import history as files_history
from .simulators.files.app import Files
from .simulators.mail import history as mail_history
from .simulators.mail.app import Mail
from .simulators.music import history as music_history
from .simulators.music.app import Music
from .simulators.shop import history as shop_history
from .simulators.shop.app import Shop
from .simulators.todo import history as todo_history
from .simulators.todo.app import Todo
from .simulators.wallet import history as wallet_history
from .simulators.wallet.app import Wallet
from .templates.across import dialogues
from .templates.calendar import tasks as calendar_templates
from .templates.contacts import tasks as contacts_templates
from .templates.files import tasks as files_templates
from .templates.mail import tasks as mail_templates
from .templates.music import tasks as music_templates
from .templates.shop import tasks as shop_templates
from .templates.todo import tasks as todo_templates
from .templates.wallet import tasks as wallet_templates


@dataclass(frozen=True)
class Part:
    """An app of every world.

    Args:
        app: class of the app.
        fill: function that writes the rows it has when a world begins.
        templates: templates of the tasks whose first app it is.
        held_out: whether only the split ``challenge`` has it.
    """

    app: type[App]
    fill: Callable[[Database, Cast, Rng], None]
    templates: tuple[Template, ...] = ()
    held_out: bool = False


PARTS: tuple[Part, ...] = (
    Part(Account, account_history.fill),
    Part(Contacts, contacts_history.fill, contacts_templates.TEMPLATES),
    Part(Mail, mail_history.fill, mail_templates.TEMPLATES),
    Part(Calendar, calendar_history.fill, calendar_templates.TEMPLATES),
    Part(Todo, todo_history.fill, todo_templates.TEMPLATES),
    Part(Wallet, wallet_history.fill, wallet_templates.TEMPLATES),
    Part(Shop, shop_history.fill, shop_templates.TEMPLATES),
    Part(Files, files_history.fill, files_templates.TEMPLATES, held_out=True),
    Part(Music, music_history.fill, music_templates.TEMPLATES, held_out=True),
)
"""Every app, in the order in which a world is filled: rows of later apps may refer to those of earlier ones."""
ACROSS: tuple[Template, ...] = dialogues.TEMPLATES
"""Templates of tasks across apps that belong to no single app."""

APPS: tuple[type[App], ...] = tuple(part.app for part in PARTS)
HELD_OUT = frozenset(part.app.name for part in PARTS if part.held_out)
"""The apps that only the split ``challenge`` has."""
TEMPLATES: dict[str, Template] = {
    one.name: one for one in (*(one for part in PARTS for one in part.templates), *ACROSS)
}
"""Every template by its name."""
IDLE: dict[str, frozenset[str]] = {table: columns for app in APPS for table, columns in app.idle.items()}
"""Columns that reading changes, by table."""
