"""Finding a contact in the address book, for solutions."""

from __future__ import annotations

from typing import Any

from ....rows.database import Row
from ..plan import Solver


def full_name(row: Row) -> str:
    """First and last name of a contact."""
    return f"{row['first_name']} {row['last_name']}"


def found_contact(api: Solver, name: str) -> dict[str, Any]:
    """The entry of the address book with this full name."""
    asked = api.rng.pick((name, name.split(" ")[-1]))
    found: dict[str, Any] = next(item for item in api.pages("contacts_search", name=asked) if item["name"] == name)
    return found


def email_of(api: Solver, name: str) -> str:
    """The address of the one whose full name is this."""
    return str(found_contact(api, name)["email"])
