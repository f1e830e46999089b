"""The calls of the mailbox, as a demanding user would try them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.account.app import Account
from turnwise.tasks.apps.simulators.catalogue import base_world
from turnwise.tasks.apps.simulators.mail.app import Mail
from turnwise.tasks.apps.simulators.situation import Rules, Situation
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.rows.database import Database, Row
from turnwise.tasks.spec import Split


@pytest.fixture
def world() -> World:
    base = base_world(Split.TRAIN, 0)
    rules = Rules(login=False, per_page=1000)
    return World(Database(base.image), Situation(base.cast.now), rules, (Account, Mail))


def some(world: World, folder: str) -> Row:
    row = world.db.row("SELECT * FROM messages WHERE folder = ? ORDER BY sent_at", folder)
    assert row is not None
    return row


def found(world: World, **conditions: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = world.call("mail_search", conditions)["items"]
    return items


def refused(world: World, name: str, **arguments: Any) -> str:
    """With which words a call is refused; it must change nothing."""
    before = world.changes()
    with pytest.raises(ToolError) as error:
        world.call(f"mail_{name}", arguments)
    assert world.changes() == before
    return str(error.value)


def test_conditions_must_all_hold(world: World) -> None:
    row = world.db.row("SELECT * FROM messages WHERE folder = 'inbox' AND unread = 1")
    assert row is not None
    day = row["sent_at"][:10]
    same = {"sender": row["sender"].upper(), "folder": "inbox", "unread": True, "starred": bool(row["starred"])}
    items = found(world, **same, words=row["subject"].upper(), since=day, until=day)
    assert row["id"] in [one["message_id"] for one in items]
    for condition in ({"unread": False}, {"folder": "archive"}, {"sender": "x" + row["sender"]}, {"label": "nothing"}):
        assert row["id"] not in [one["message_id"] for one in found(world, **{**same, **condition})]


def test_a_day_ends_at_midnight(world: World) -> None:
    row = some(world, "inbox")
    at, day = row["sent_at"], row["sent_at"][:10]
    for conditions, there in (
        ({"since": at}, True),
        ({"until": at}, True),
        ({"until": f"{day}T00:00"}, at.endswith("T00:00")),
        ({"since": day, "until": day}, True),
    ):
        assert (row["id"] in [one["message_id"] for one in found(world, **conditions)]) is there, conditions


@pytest.mark.parametrize("when", ["yesterday", "2025", "2025-13-01", "2025-05-14T", "14.05.2025", "' OR 1=1", "T"])
def test_a_time_must_be_one(world: World, when: str) -> None:
    assert "422" in refused(world, "search", since=when)
    assert "422" in refused(world, "search", until=when)


def test_labels_and_recipients_are_found(world: World) -> None:
    sent = world.call(
        "mail_send", {"to": ["b@post.test", "Zoe@post.test", "zoe@post.test"], "subject": "Hello", "body": ""}
    )
    assert sent["to"] == ["b@post.test", "zoe@post.test"], "everybody gets it once"
    assert [one["message_id"] for one in found(world, recipient="ZOE@POST.test")] == [sent["message_id"]]
    world.call("mail_label", {"message_id": sent["message_id"], "label": "new one"})
    assert [one["message_id"] for one in found(world, label="new one")] == [sent["message_id"]]
    assert "409" in refused(world, "label", message_id=sent["message_id"], label="new one")
    world.call("mail_unlabel", {"message_id": sent["message_id"], "label": "new one"})
    assert "404" in refused(world, "unlabel", message_id=sent["message_id"], label="new one")
    assert [str(one) for one in world.changes()] == [f"messages {sent['message_id']}: insert"]


def test_a_draft_is_no_message_yet(world: World) -> None:
    draft = world.call("mail_save_draft", {"to": ["a@post.test"], "subject": "Later", "body": "x"})["message_id"]
    for name in ("reply", "forward"):
        more = {"to": ["b@post.test"]} if name == "forward" else {"body": "y"}
        assert "409" in refused(world, name, message_id=draft, **more)
    assert "409" in refused(world, "move", message_id=draft, folder="inbox")
    assert draft in [one["message_id"] for one in found(world, words="later")]
    assert draft not in [one["message_id"] for one in found(world, words="later", until="2099-01-01")], "it has no time"
    world.call("mail_send_draft", {"message_id": draft})
    assert "409" in refused(world, "send_draft", message_id=draft)
    assert found(world, folder="sent", words="later")[0]["sent_at"] == world.call("account_time", {})["now"]


def test_a_reply_goes_to_the_other_side(world: World) -> None:
    got, own = some(world, "inbox"), some(world, "sent")
    assert world.call("mail_reply", {"message_id": got["id"], "body": "x"})["to"] == [got["sender"]]
    again = world.call("mail_reply", {"message_id": own["id"], "body": "x"})
    assert again["to"] == json.loads(own["recipients"]), "not to oneself"
    third = world.call("mail_reply", {"message_id": again["message_id"], "body": "x"})
    assert third["subject"] == again["subject"], "one Re: is enough"


def test_a_message_goes_for_ever_only_from_the_trash(world: World) -> None:
    row = world.db.row("SELECT * FROM messages WHERE folder = 'inbox' AND id IN (SELECT message_id FROM labels)")
    assert row is not None
    assert "409" in refused(world, "delete", message_id=row["id"])
    world.call("mail_move", {"message_id": row["id"], "folder": "trash"})
    assert "409" in refused(world, "move", message_id=row["id"], folder="trash")
    assert row["id"] not in [one["message_id"] for one in found(world)]
    world.call("mail_delete", {"message_id": row["id"]})
    assert {one.kind for one in world.changes()} == {"delete"}
    assert {one.table for one in world.changes()} == {"messages", "labels"}
    for name, more in (("read", {}), ("mark", {"unread": True}), ("forward", {"to": ["a@post.test"]}), ("delete", {})):
        assert "404" in refused(world, name, message_id=row["id"], **more)


@pytest.mark.parametrize(
    "to", [["nobody"], ["a@post.test", ""], ["a@post.test, b@post.test"], ["@"], ["a b@post.test"]]
)
def test_nothing_goes_to_what_is_no_address(world: World, to: list[str]) -> None:
    for name in ("send", "save_draft"):
        assert "422" in refused(world, name, to=to, subject="x", body="y")
    assert "422" in refused(world, "forward", message_id=some(world, "inbox")["id"], to=to)


def test_to_read_is_to_have_read(world: World) -> None:
    row = world.db.row("SELECT * FROM messages WHERE unread = 1")
    assert row is not None
    assert world.call("mail_read", {"message_id": row["id"]})["unread"] is False
    assert row["id"] not in [one["message_id"] for one in found(world, unread=True)]
    world.call("mail_mark", {"message_id": row["id"], "unread": True})
    assert world.changes() == ()
    assert "422" in refused(world, "mark", message_id=row["id"])
