"""Parts of solutions that find a contact in the address book."""

from __future__ import annotations

from typing import Any

from ....rows.database import Row
from ..plan import Solver


def full_name(row: Row) -> str:
    """Return the first and last name of a contact."""
    return f"{row['first_name']} {row['last_name']}"


def found_contact(api: Solver, name: str) -> dict[str, Any]:
    """Return the entry of the address book with this full name."""
    asked = api.rng.pick((name, name.split(" ")[-1]))
    found: dict[str, Any] = next(item for item in api.pages("contacts_search", name=asked) if item["name"] == name)
    return found


def email_of(api: Solver, name: str) -> str:
    """Return the email address of the contact with this full name."""
    return str(found_contact(api, name)["email"])
