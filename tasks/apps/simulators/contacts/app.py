"""``Contacts``: an address book with groups."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pydantic

from .....errors import ToolError
from ....rows.database import Row
from ..app import App, Id, Maybe, Page, Words, address, call, day

Relation = Literal["friend", "family", "colleague", "other"]
Month = Annotated[int, pydantic.Field(ge=1, le=12)]


class Contacts(App):
    """The user's address book."""

    name = "contacts"
    about = "the address book: people, their contact details, groups"
    private = False
    ids: ClassVar[dict[str, str]] = {"contact_id": "contacts"}
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"groups": ("contact_id", "name")}
    stray = ("contacts_add", {"first_name": "No", "last_name": "Body", "email": "nobody@post.test"})

    @call
    def search(
        self,
        name: Maybe = "",
        email: Maybe = "",
        city: Maybe = "",
        company: Maybe = "",
        relation: Relation | None = None,
        favorite: bool | None = None,
        page: Page = 1,
    ) -> dict[str, Any]:
        """Search for contacts, sorted by first name and then last name. A contact must match every condition you give.

        Args:
            name: part of the first, last or full name.
            email: part of the email address.
            city: city where the contact lives.
            company: company that the contact works for.
            relation: relation of the contact to the user.
            favorite: whether the contact is a favorite.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            """SELECT * FROM contacts WHERE (instr(lower(first_name || ' ' || last_name), lower(?1)) OR ?1 = '')
               AND (lower(city) = lower(?2) OR ?2 = '') AND (lower(company) = lower(?3) OR ?3 = '')
               AND (relation = ?4 OR ?4 IS NULL) AND (instr(email, lower(?5)) OR ?5 = '')
               AND (favorite = ?6 OR ?6 IS NULL) ORDER BY first_name, last_name, id""",
            name,
            city,
            company,
            relation,
            email,
            favorite,
        )
        return self.paged([_brief(row) for row in rows], page)

    @call
    def get(self, contact_id: Id) -> dict[str, Any]:
        """Show all details of a contact.

        Args:
            contact_id: ID of the contact.
        """
        row = self.find("contacts", contact_id, "contact")
        groups = self.db.rows("SELECT name FROM groups WHERE contact_id = ? ORDER BY name", contact_id)
        rest = {name: row[name] for name in ("phone", "city", "birthday", "company", "relation")}
        return {
            **_brief(row),
            **rest,
            "favorite": bool(row["favorite"]),
            "groups": [found["name"] for found in groups],
        }

    @call
    def add(
        self,
        first_name: Words,
        last_name: Words,
        email: Words,
        phone: Maybe = "",
        city: Maybe = "",
        birthday: Maybe = "",
        company: Maybe = "",
        relation: Relation = "other",
    ) -> dict[str, Any]:
        """Add a contact to the address book.

        Args:
            first_name: first name.
            last_name: last name.
            email: email address; no one else in the address book may have it.
            phone: phone number.
            city: city where the contact lives.
            birthday: date such as 1984-05-30.
            company: company that the contact works for.
            relation: relation of the contact to the user.
        """
        email = self._free(email)
        columns = {"phone": phone, "city": city, "birthday": birthday and day(birthday, "birthday"), "company": company}
        names = {"first_name": first_name, "last_name": last_name, "email": email}
        return {"contact_id": self.db.insert("contacts", **names, **columns, relation=relation, favorite=0)}

    @call
    def update(
        self,
        contact_id: Id,
        first_name: Words | None = None,
        last_name: Words | None = None,
        email: Words | None = None,
        phone: Maybe | None = None,
        city: Maybe | None = None,
        birthday: Maybe | None = None,
        company: Maybe | None = None,
        relation: Relation | None = None,
        favorite: bool | None = None,
    ) -> dict[str, Any]:
        """Change the details of a contact. Fields that you omit keep their values.

        Args:
            contact_id: ID of the contact.
            first_name: first name.
            last_name: last name.
            email: email address; no one else in the address book may have it.
            phone: phone number.
            city: city where the contact lives.
            birthday: date such as 1984-05-30.
            company: company that the contact works for.
            relation: relation of the contact to the user.
            favorite: whether the contact is a favorite.
        """
        row = self.find("contacts", contact_id, "contact")
        if email is not None and email.lower() != row["email"]:
            email = self._free(email)
        given = {
            "first_name": first_name,
            "last_name": last_name,
            "email": email and email.lower(),
            "phone": phone,
            "city": city,
            "birthday": birthday and day(birthday, "birthday"),
            "company": company,
            "relation": relation,
            "favorite": None if favorite is None else int(favorite),
        }
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            raise ToolError("422 specify at least one field to change")
        self.db.update("contacts", contact_id, **changed)
        return {"contact_id": contact_id, **changed}

    @call
    def delete(self, contact_id: Id) -> str:
        """Delete a contact and remove them from all groups.

        Args:
            contact_id: ID of the contact.
        """
        self.find("contacts", contact_id, "contact")
        for row in self.db.rows("SELECT id FROM groups WHERE contact_id = ?", contact_id):
            self.db.delete("groups", row["id"])
        self.db.delete("contacts", contact_id)
        return f"deleted contact {contact_id}"

    @call
    def birthdays(self, month: Month, page: Page = 1) -> dict[str, Any]:
        """List the contacts whose birthday is in a month, by day.

        Args:
            month: month from 1 (January) to 12.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            "SELECT * FROM contacts WHERE birthday LIKE ? ORDER BY substr(birthday, 6), id", f"____-{month:02}-%"
        )
        return self.paged([{**_brief(row), "birthday": row["birthday"]} for row in rows], page)

    @call
    def list_groups(self) -> dict[str, int]:
        """List the groups with the number of people in each."""
        rows = self.db.rows("SELECT name, count(*) AS n FROM groups GROUP BY name ORDER BY name")
        return {row["name"]: row["n"] for row in rows}

    @call
    def list_group(self, group: Words, page: Page = 1) -> dict[str, Any]:
        """List the contacts in a group by name.

        Args:
            group: name of the group.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            """SELECT contacts.* FROM contacts JOIN groups ON groups.contact_id = contacts.id WHERE groups.name = ?
               ORDER BY first_name, last_name, contacts.id""",
            group,
        )
        if not rows:
            raise ToolError(f"404 group {group!r} does not exist")
        return self.paged([_brief(row) for row in rows], page)

    @call
    def add_to_group(self, contact_id: Id, group: Words) -> dict[str, Any]:
        """Add a contact to a group. If the group does not exist yet, it is created.

        Args:
            contact_id: ID of the contact.
            group: name of the group.
        """
        self.find("contacts", contact_id, "contact")
        if self.db.row("SELECT id FROM groups WHERE contact_id = ? AND name = ?", contact_id, group):
            raise ToolError(f"409 contact {contact_id} is already in {group!r}")
        self.db.insert("groups", contact_id=contact_id, name=group)
        return {"contact_id": contact_id, "group": group}

    @call
    def remove_from_group(self, contact_id: Id, group: Words) -> dict[str, Any]:
        """Remove a contact from a group.

        Args:
            contact_id: ID of the contact.
            group: name of the group.
        """
        found = self.db.row("SELECT id FROM groups WHERE contact_id = ? AND name = ?", contact_id, group)
        if found is None:
            raise ToolError(f"404 contact {contact_id} is not in {group!r}")
        self.db.delete("groups", found["id"])
        return {"contact_id": contact_id, "group": group}

    def _free(self, email: str) -> str:
        kept = address(email)
        if self.db.row("SELECT id FROM contacts WHERE email = ?", kept):
            raise ToolError(f"409 another contact already has the address {email!r}")
        return kept


def _brief(row: Row) -> dict[str, Any]:
    return {"contact_id": row["id"], "name": f"{row['first_name']} {row['last_name']}", "email": row["email"]}
