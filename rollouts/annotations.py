"""Labels and comments that a reader gives to episodes, in a file beside the parts of a store."""

from __future__ import annotations

import fcntl
import json
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
    """Return the last annotation of each episode by its id; an emptied one is left out.

    Raises:
        StoreError: A line is damaged.
    """
    try:
        text = (store / ANNOTATIONS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    found: dict[str, Annotation] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            each = Annotation(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise StoreError(f"{store / ANNOTATIONS}, line {number}: not an annotation ({error})") from None
        found.pop(each.episode_id, None)
        if each.label or each.comment:
            found[each.episode_id] = each
    return found


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
        with (store / ANNOTATIONS).open("a", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(made.to_json()) + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {store / ANNOTATIONS}: {error.strerror or error}") from None
    return made
