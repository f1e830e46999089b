"""Labels and comments that a reader gives to episodes, in a file beside the parts of a store."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError, UsageError

ANNOTATIONS = "annotations.jsonl"
LONGEST_LABEL, LONGEST_COMMENT = 100, 10_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """A reader's judgment of an episode.

    Args:
        episode_id: id of the episode.
        label: a word or two, such as ``"good"`` or ``"reward hack"``; empty for none.
        comment: text; empty for none.
        time: seconds since the epoch.
    """

    episode_id: str
    label: str
    comment: str
    time: float

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self)


def read_annotations(store: Path) -> dict[str, Annotation]:
    """Return the last annotation of each episode by its id; an emptied one is left out, and so are damaged lines."""
    file = store / ANNOTATIONS
    if file.is_symlink() or not file.is_file():
        return {}
    found: dict[str, Annotation] = {}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if (each := _read(line)) is None:  # torn by a crash or written by something else: the others still count
            continue
        found.pop(each.episode_id, None)
        if each.label or each.comment:
            found[each.episode_id] = each
    return found


def _read(line: str) -> Annotation | None:
    try:
        each = Annotation(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    return each if all(isinstance(text, str) for text in (each.episode_id, each.label, each.comment)) else None


def annotate(store: Path, episode_id: str, *, label: str = "", comment: str = "") -> Annotation:
    """Append an annotation, which replaces an earlier one of the same episode; one writer at a time.

    Args:
        store: folder of the episode store.
        episode_id: id of an episode in it.
        label: a word or two.
        comment: text.

    Raises:
        UsageError: The label or the comment is too long.
        StoreError: The file cannot be written.
    """
    for name, text, most in (("label", label, LONGEST_LABEL), ("comment", comment, LONGEST_COMMENT)):
        if len(text) > most:
            raise UsageError(f"the {name} has {len(text):,} characters; at most {most:,} are kept")
    made = Annotation(episode_id, label.strip(), comment.strip(), time.time())
    try:
        # A store from elsewhere may hold a link to any file, or a pipe, under this name.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(store / ANNOTATIONS, flags, 0o666), "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreError(f"cannot write {store / ANNOTATIONS}: it is not a regular file")
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            file.write(b"\n" * torn + json.dumps(made.to_json()).encode() + b"\n")
    except OSError as error:
        raise StoreError(f"cannot write {store / ANNOTATIONS}: {error.strerror or error}") from None
    return made
