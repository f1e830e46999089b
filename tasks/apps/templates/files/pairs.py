"""Pairs of tasks with one prompt: the request can be fulfilled, or must be refused. Only the data shows which."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Number, Refusal, Text, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.files.form import text, with_line
from ..plan import Solver
from .finding import at, files, id_at, path_of, some_file

LOCKERS = ("that person", "the person who locked it")


def _line_wanted(scene: Scene, locked: bool) -> tuple[Row, str, str]:
    """Draw a file, a line to add to it, and the prompt, which says what to do if the file is locked."""
    held = "locked_by != ''" if locked else "locked_by = ''"
    row = some_file(scene, f"content != '' AND name LIKE '%.txt' AND {held}")
    line = f"Don't forget the {scene.pick(scene.cast.words['thing'])}"
    rest = f"If someone has locked the file, leave it alone and refuse with the name of {scene.pick(LOCKERS)}."
    prompt = scene.rng.pick(
        (
            f'Add the line "{line}" at the end of {path_of(row)}. {rest}',
            f'Append the line "{line}" to the file {row["name"]} in the folder {row["folder"]}. {rest}',
        )
    )
    return row, line, prompt


@template("files", kind="action")
def files_add_line(scene: Scene) -> TaskDraft:
    """Add a line to a file that is not locked."""
    row, line, prompt = _line_wanted(scene, locked=False)

    def solve(api: Solver) -> None:
        api.call("files_append", file_id=id_at(api, row["folder"], row["name"]), line=line)
        api.answer()

    return TaskDraft(
        prompt, solve, must=(updated("files", row["id"], "line", **text(with_line(row["content"], line))),)
    )


@template("files", kind="refusal")
def files_add_line_locked(scene: Scene) -> TaskDraft:
    """Refuse to add a line to a locked file."""
    row, _, prompt = _line_wanted(scene, locked=True)

    def solve(api: Solver) -> None:
        found = api.call("files_details", file_id=id_at(api, row["folder"], row["name"]))
        api.refuse("not_allowed", found["locked_by"])

    locker = row["locked_by"]
    return TaskDraft(prompt, solve, refusal=Refusal("not_allowed", Text(locker)), secrets=(locker,))


def _copy_wanted(scene: Scene, fits: bool) -> tuple[Row, str, int, str]:
    """Draw an image, the folder for its copy, the free space, and the prompt."""
    free = scene.db.value("SELECT quota - (SELECT sum(size) FROM files) FROM storage")
    row = some_file(scene, f"name LIKE '%.jpg' AND size {'<=' if fits else '>'} ?", free)
    target = scene.row("SELECT path FROM folders WHERE path != ?", row["folder"])["path"]
    scene.need(not files(scene, "folder = ? AND lower(name) = lower(?)", target, row["name"]))
    prompt = scene.rng.pick(
        (
            f"Copy {path_of(row)} to {target}.",
            f"I want a second copy of the photo {row['name']} (now in {row['folder']}) in {target}.",
        )
    )
    prompt += " If there is not enough storage for that, delete nothing: refuse and tell me how many bytes are free."
    return row, target, free, prompt


@template("files", kind="action")
def files_copy_picture(scene: Scene) -> TaskDraft:
    """Copy an image that fits into the free space."""
    row, target, _, prompt = _copy_wanted(scene, fits=True)

    def solve(api: Solver) -> None:
        api.call("files_copy", file_id=id_at(api, row["folder"], row["name"]), folder=target)
        api.answer()

    copy = inserted("files", "copy", folder=target, name=row["name"], size=row["size"], content="")
    return TaskDraft(prompt, solve, must=(copy,))


@template("files", kind="refusal")
def files_copy_too_large(scene: Scene) -> TaskDraft:
    """Refuse to copy an image that exceeds the free space."""
    row, _, free, prompt = _copy_wanted(scene, fits=False)

    def solve(api: Solver) -> None:
        found = at(api, row["folder"], row["name"])
        room = api.call("files_storage")["free"]
        assert found is not None
        assert found["size"] > room
        api.refuse("not_possible", room)

    return TaskDraft(prompt, solve, refusal=Refusal("not_possible", Number(free)), secrets=(str(free),))


TEMPLATES = (files_add_line, files_add_line_locked, files_copy_picture, files_copy_too_large)
