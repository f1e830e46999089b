"""A file under its final name is whole, and what others wrote beside it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnwise.commands.new_file import new_file
from turnwise.errors import UsageError


def test_what_a_killed_command_left_blocks_no_other_and_stays(tmp_path: Path) -> None:
    path, left = tmp_path / "rows.jsonl", tmp_path / f".rows.jsonl.{os.getpid()}"
    left.write_text("half")
    with new_file(path) as partial, partial.open("x") as file:
        file.write("whole")
    assert (path.read_text(), left.read_text()) == ("whole", "half")
    assert sorted(tmp_path.iterdir()) == [left, path]


def write(path: Path, meanwhile: str = "") -> None:
    with new_file(path) as partial:
        partial.write_text("half")
        if not meanwhile:
            raise ZeroDivisionError
        path.write_text(meanwhile)


def test_an_error_leaves_no_file_and_an_existing_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ZeroDivisionError):
        write(path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="already exists"):
        write(path, "another's")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["another's"]


def test_a_folder_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere; make it first"):
        write(tmp_path / "nowhere" / "rows.jsonl")
    assert not list(tmp_path.iterdir())
