"""Common parts of templates about files: naming a file, and finding it with calls."""

from __future__ import annotations

from typing import Any

from ....rows.database import Row
from ....rows.scene import Scene
from ...simulators.files.form import THERE
from ..contacts.finding import full_name
from ..plan import Solver

COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def path_of(row: Row) -> str:
    """Return folder and name of a file."""
    return f"{row['folder']}/{row['name']}"


def files(scene: Scene, condition: str, *values: Any) -> list[Row]:
    """Return the files that are not in the trash."""
    return scene.db.rows(f"SELECT * FROM files WHERE {THERE} AND {condition} ORDER BY id", *values)


def some_file(scene: Scene, condition: str, *values: Any) -> Row:
    """Draw one of them."""
    return scene.pick(files(scene, condition, *values))


def someone(scene: Scene) -> tuple[str, str]:
    """Draw a contact, and return the name and email address."""
    row = scene.row("SELECT * FROM contacts")
    return full_name(row), row["email"]


def at(api: Solver, folder: str, name: str) -> Row | None:
    """Return the file of this name in a folder, in the form of calls."""
    if api.rng.random() < 0.5:
        items = api.pages("files_list_folder", folder=folder)
    else:
        items = api.pages("files_search", name=name, folder=folder)
    return next((item for item in items if (item["folder"], item["name"]) == (folder, name)), None)


def id_at(api: Solver, folder: str, name: str) -> int:
    """Return the id of the file of this name in a folder."""
    found = at(api, folder, name)
    assert found is not None
    return int(found["file_id"])


def amounts(content: str) -> list[int]:
    """Return the amounts in a list of costs, in cents."""
    return [round(float(line.rpartition(";")[2]) * 100) for line in content.splitlines()[1:]]
