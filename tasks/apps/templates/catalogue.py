"""The catalog of the templates of apps."""

from __future__ import annotations

from ...rows.template import Template, by_name
from .across import dialogues
from .calendar import tasks as calendar
from .contacts import tasks as contacts
from .files import tasks as files
from .mail import tasks as mail
from .music import tasks as music
from .shop import tasks as shop
from .todo import tasks as todo
from .wallet import tasks as wallet

TEMPLATES: dict[str, Template] = by_name(
    contacts.TEMPLATES,
    mail.TEMPLATES,
    calendar.TEMPLATES,
    todo.TEMPLATES,
    wallet.TEMPLATES,
    shop.TEMPLATES,
    files.TEMPLATES,
    music.TEMPLATES,
    dialogues.TEMPLATES,
)
"""Every template by its name. A seed draws one of them by its position: another order changes the tasks of seeds."""
