"""The calls of the address book, as a demanding user would try them."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.catalogue import base_world
from turnwise.tasks.apps.simulators.contacts.app import Contacts
from turnwise.tasks.apps.simulators.situation import Rules, Situation
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split

ADA = {"first_name": "Ada", "last_name": "O'Brien", "email": "Ada@Post.test"}


@pytest.fixture
def world() -> World:
    base = base_world(Split.TRAIN, 0)
    return World(Database(base.image), Situation(base.cast.now), Rules(per_page=1000), (Contacts,))


def refused(world: World, name: str, **arguments: Any) -> str:
    """With which words a call is refused; it must change nothing."""
    before = world.changes()
    with pytest.raises(ToolError) as error:
        world.call(f"contacts_{name}", arguments)
    assert world.changes() == before
    return str(error.value)


def test_somebody_is_added_found_changed_and_deleted(world: World) -> None:
    id = world.call("contacts_add", ADA)["contact_id"]
    assert [one["contact_id"] for one in world.call("contacts_search", {"name": "a o'b"})["items"]] == [id]
    assert [one["contact_id"] for one in world.call("contacts_search", {"email": "ADA@POST"})["items"]] == [id]
    world.call("contacts_update", {"contact_id": id, "last_name": "Baker", "birthday": "1990-02-28", "favorite": True})
    world.call("contacts_add_to_group", {"contact_id": id, "group": "chess"})
    shown = world.call("contacts_get", {"contact_id": id})
    assert shown["name"] == "Ada Baker"
    assert (shown["favorite"], shown["groups"], shown["email"]) == (True, ["chess"], "ada@post.test")
    assert world.call("contacts_list_groups", {})["chess"] == 1
    assert id in [one["contact_id"] for one in world.call("contacts_search", {"favorite": True})["items"]]
    assert id in [one["contact_id"] for one in world.call("contacts_birthdays", {"month": 2})["items"]]
    world.call("contacts_delete", {"contact_id": id})
    assert world.changes() == (), "who is deleted is in no group any more"
    assert "404" in refused(world, "get", contact_id=id)


def test_birthdays_come_by_day(world: World) -> None:
    total = 0
    for month in range(1, 13):
        days = [one["birthday"][5:] for one in world.call("contacts_birthdays", {"month": month})["items"]]
        assert days == sorted(days)
        assert all(day.startswith(f"{month:02}-") for day in days)
        total += len(days)
    assert total == world.call("contacts_search", {})["total"]


@pytest.mark.parametrize(
    "email", ["ada", "ada@", "@post.test", "ada@post", "a da@post.test", "a@b@c.test", "a@post.test\n"]
)
def test_an_address_must_be_one(world: World, email: str) -> None:
    assert "422" in refused(world, "add", **{**ADA, "email": email})
    assert "422" in refused(world, "update", contact_id=1, email=email)


def test_an_address_belongs_to_one(world: World) -> None:
    taken = world.call("contacts_get", {"contact_id": 2})["email"]
    assert "409" in refused(world, "add", **{**ADA, "email": taken.upper()})
    assert "409" in refused(world, "update", contact_id=1, email=taken)
    world.call("contacts_update", {"contact_id": 2, "email": taken.upper()})
    assert world.changes() == (), "one's own address in capitals is the same"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("get", {"contact_id": 10**9}, "404"),
        ("update", {"contact_id": 1}, "422"),
        ("update", {"contact_id": 1, "birthday": "1990-02-30"}, "422"),
        ("update", {"contact_id": 10**9, "city": "Lyon"}, "404"),
        ("delete", {"contact_id": 10**9}, "404"),
        ("search", {"page": 2}, "422"),
        ("list_group", {"group": "nobody's"}, "404"),
        ("add_to_group", {"contact_id": 10**9, "group": "choir"}, "404"),
        ("remove_from_group", {"contact_id": 1, "group": "nobody's"}, "404"),
    ],
)
def test_what_cannot_be_is_refused(world: World, name: str, arguments: dict[str, Any], code: str) -> None:
    assert code in refused(world, name, **arguments)


def test_nobody_joins_twice(world: World) -> None:
    world.call("contacts_add_to_group", {"contact_id": 1, "group": "chess"})
    assert "409" in refused(world, "add_to_group", contact_id=1, group="chess")
    world.call("contacts_remove_from_group", {"contact_id": 1, "group": "chess"})
    assert world.changes() == ()


def test_a_field_can_be_emptied(world: World) -> None:
    world.call("contacts_update", {"contact_id": 1, "phone": "", "birthday": ""})
    shown = world.call("contacts_get", {"contact_id": 1})
    assert (shown["phone"], shown["birthday"]) == ("", "")
    assert all(
        one["contact_id"] != 1 for m in range(1, 13) for one in world.call("contacts_birthdays", {"month": m})["items"]
    )
