"""The calls of the files: their effects, their refusals, and what they leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.tasks.apps.simulators.files.form import THERE, text, with_line
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.rows.database import Row

from .opened import everything, opened, refused


@pytest.fixture
def world() -> World:
    return opened()


def one(world: World, condition: str) -> Row:
    """A file for which something holds."""
    row = world.db.row(f"SELECT * FROM files WHERE {condition} ORDER BY id")
    assert row is not None
    return row


def kinds(world: World) -> list[str]:
    """Return the changes."""
    return [f"{change.table} {change.kind}" for change in world.changes()]


def test_folders_say_how_many_files_their_listing_has(world: World) -> None:
    for folder, count in world.call("files_list_folders", {}).items():
        listed = everything(world, "files_list_folder", folder=folder)
        assert len(listed) == count
        assert [item["name"] for item in listed] == sorted(item["name"] for item in listed)
    refused(world, "files_list_folder", 404, folder="/Nowhere")
    refused(world, "files_list_folder", 422, folder="/Documents", page=900)


def test_conditions_of_a_search_must_all_hold(world: World) -> None:
    found = everything(world, "files_search", type="txt", folder="/Documents", since="2024-01-01T00:00")
    there = world.db.rows(f"SELECT id FROM files WHERE {THERE} AND name LIKE '%.txt' AND folder LIKE '/Documents%'")
    assert {item["file_id"] for item in found} == {row["id"] for row in there}
    assert [item["changed_at"] for item in found] == sorted((item["changed_at"] for item in found), reverse=True)
    assert everything(world, "files_search", folder="/Doc") == [], "a folder is not a part of a path"
    assert [item["name"] for item in everything(world, "files_search", words="'; DROP TABLE")] == ["query.txt"]
    assert everything(world, "files_search", until="2000-01-01T00:00") == []


def test_texts_are_read_and_pictures_are_not(world: World) -> None:
    row = one(world, f"content != '' AND {THERE}")
    assert world.call("files_read", {"file_id": row["id"]})["content"] == row["content"]
    refused(world, "files_read", 415, file_id=one(world, f"name LIKE '%.jpg' AND {THERE}")["id"])
    refused(world, "files_read", 409, file_id=one(world, f"NOT {THERE}")["id"])
    refused(world, "files_read", 404, file_id=9999)


def test_a_new_file_is_there_and_takes_up_room(world: World) -> None:
    free = world.call("files_storage", {})["free"]
    made = world.call("files_write", {"folder": "/Backup", "name": "new.txt", "content": "äö"})
    assert made["size"] == 4
    assert world.call("files_storage", {})["free"] == free - 4
    assert world.call("files_read", {"file_id": made["file_id"]})["content"] == "äö"
    assert kinds(world) == ["files insert"]
    refused(world, "files_write", 409, folder="/Backup", name="NEW.txt", content="")
    refused(world, "files_write", 404, folder="/backup", name="other.txt", content="")
    refused(world, "files_write", 415, folder="/Backup", name="new.jpg", content="")
    for name in ("noending", "../new.txt", " .txt", "a/b.txt", ".txt", "two\nlines.txt"):
        refused(world, "files_write", 422, folder="/Backup", name=name, content="")


def test_a_locked_file_can_be_copied_and_shared_only(world: World) -> None:
    id = one(world, f"locked_by != '' AND {THERE}")["id"]
    refused(world, "files_append", 423, file_id=id, line="more")
    refused(world, "files_move", 423, file_id=id, name="other.txt")
    refused(world, "files_delete", 423, file_id=id)
    name = world.call("files_details", {"file_id": id})["name"]
    copy = world.call("files_copy", {"file_id": id, "folder": "/Photos", "name": f"copy of {name}"})["file_id"]
    assert world.call("files_details", {"file_id": copy})["locked_by"] is None
    world.call("files_delete", {"file_id": copy})
    assert kinds(world) == ["files insert", "trash insert"]


def test_a_line_is_added_and_the_size_with_it(world: World) -> None:
    row = one(world, f"content != '' AND locked_by = '' AND {THERE}")
    world.call("files_append", {"file_id": row["id"], "line": "the end"})
    after = world.call("files_read", {"file_id": row["id"]})
    assert after["content"] == f"{row['content']}\nthe end"
    assert after["size"] == row["size"] + len("\nthe end")
    assert set(world.changes()[0].columns) == {"content", "size", "updated_at"}
    refused(world, "files_append", 422, file_id=row["id"], line="two\nlines")
    refused(world, "files_append", 415, file_id=one(world, f"name LIKE '%.pdf' AND {THERE}")["id"], line="x")


def test_moving_keeps_the_type_and_takes_no_name_that_is_taken(world: World) -> None:
    row = one(world, f"locked_by = '' AND name LIKE '%.txt' AND {THERE}")
    target = next(path for path in world.call("files_list_folders", {}) if path != row["folder"])
    refused(world, "files_move", 409, file_id=row["id"])
    refused(world, "files_move", 422, file_id=row["id"], name="other.pdf")
    refused(world, "files_move", 404, file_id=row["id"], folder="/Nowhere")
    world.call("files_move", {"file_id": row["id"], "folder": target, "name": "moved.txt"})
    assert dict(world.changes()[0].columns) == {"folder": target, "name": "moved.txt"}


def test_trash_is_left_by_restoring_unless_the_name_is_taken(world: World) -> None:
    row = one(world, f"locked_by = '' AND name LIKE '%.txt' AND {THERE}")
    world.call("files_delete", {"file_id": row["id"]})
    assert world.call("files_list_trash", {})["items"][0]["file_id"] == row["id"]
    refused(world, "files_delete", 409, file_id=row["id"])
    refused(world, "files_share", 409, file_id=row["id"], email="somebody@post.test")
    world.call("files_write", {"folder": row["folder"], "name": row["name"], "content": "another"})
    refused(world, "files_restore", 409, file_id=row["id"])
    world.call("files_delete", {"file_id": one(world, "content = 'another'")["id"]})
    world.call("files_restore", {"file_id": row["id"]})
    refused(world, "files_restore", 409, file_id=row["id"])


def test_sharing_is_with_people_of_the_address_book_and_once(world: World) -> None:
    row = one(world, f"{THERE} AND id NOT IN (SELECT file_id FROM shares)")
    email = world.db.value("SELECT email FROM contacts")
    world.call("files_share", {"file_id": row["id"], "email": email.upper(), "access": "edit"})
    assert world.call("files_details", {"file_id": row["id"]})["shared_with"] == [{"email": email, "access": "edit"}]
    assert row["id"] in [item["file_id"] for item in everything(world, "files_list_shared", email=email)]
    refused(world, "files_share", 409, file_id=row["id"], email=email)
    refused(world, "files_share", 404, file_id=row["id"], email="stranger@post.test")
    world.call("files_unshare", {"file_id": row["id"], "email": email})
    refused(world, "files_unshare", 404, file_id=row["id"], email=email)
    assert world.changes() == ()


def test_what_does_not_fit_is_not_copied(world: World) -> None:
    free = world.call("files_storage", {})["free"]
    row = one(world, f"{THERE} AND size > {free}")
    refused(world, "files_copy", 507, file_id=row["id"], folder="/Backup", name="copy.jpg")
    assert free == world.call("files_storage", {})["quota"] - world.db.value("SELECT sum(size) FROM files")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
def test_a_file_is_as_large_as_its_text(content: str, line: str) -> None:
    content = content.encode("utf-8", "ignore").decode()
    line = line.encode("utf-8", "ignore").decode()
    columns = text(with_line(content, line))
    assert columns["size"] == len(content.encode()) + len(line.encode()) + (1 if content else 0)
    assert columns["content"].endswith(line)
