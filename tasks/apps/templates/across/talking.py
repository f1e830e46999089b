"""Common parts of dialogues: known people, and how solutions ask and interpret answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....rows.database import Row
from ....rows.scene import Scene
from ..contacts.finding import full_name
from ..plan import Solver

WHO = ("who", "whom", "recipient", "addressee", "which person")
TEXT = ("text", "write", "say", "content", "body", "message be", "what should it")
ASK_FIRST = (
    "Ask me about anything you don't know. Before you change anything, tell me exactly what you are about to do, and"
    " wait until I agree.",
    "You will have to ask me for details. Then tell me exactly what you would do, and do it only after I say yes.",
    "Talk to me first: ask for what you need, tell me exactly what you are going to do, and do it once I agree.",
)


def others(scene: Scene, *names: str) -> tuple[str, ...]:
    """Return the full names and email addresses of all other contacts."""
    rows = scene.db.rows("SELECT * FROM contacts ORDER BY id")
    return tuple(text for row in rows if full_name(row) not in names for text in (full_name(row), row["email"]))


def reached(row: Row) -> tuple[str, str]:
    """Return the two ways to name a contact in a proposal."""
    return full_name(row), row["email"]


def part_after(answer: str, begin: str) -> str:
    """Return the part of an answer after some words, up to the end of the sentence."""
    return answer.rpartition(begin)[2].rstrip(".").strip()


def namesake(scene: Scene, row: Row) -> Row:
    """Draw a contact that is easily confused with another: with the same first name, if possible."""
    alike = scene.db.rows("SELECT * FROM contacts WHERE first_name = ? AND id != ?", row["first_name"], row["id"])
    return scene.pick(alike or scene.db.rows("SELECT * FROM contacts WHERE id != ?", row["id"]))


def question(api: Solver, *wordings: str) -> str:
    """Ask the user, in one of several ways."""
    return api.say(api.rng.pick(wordings))


def between(answer: str) -> str:
    """Return the text between quotation marks in an answer."""
    found: Sequence[str] = re.findall(r"'([^']*)'", answer)
    return found[-1]


def counted(n: int) -> tuple[str, ...]:
    """Return the ways to write a number of messages."""
    return tuple(f"{n} {noun}{'' if n == 1 else 's'}" for noun in ("message", "e-mail", "email", "mail"))
