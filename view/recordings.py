"""Find the recording of an episode in a browser: the screenshots that ``record=FOLDER`` took beside the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..envs.web.recording.recording import TURNS, said
from ..rollouts.episode import Episode

PNG = b"\x89PNG\r\n\x1a\n"
LARGEST = 20 * 2**20
"""Most bytes of a screenshot, or of a recording's list of turns."""
TRIED = 64
"""Most recordings of one task that are compared with an episode."""


def shots_of(episode: Episode, store: Path) -> list[Path | None]:
    """Return the screenshots of an episode: at the beginning, and after each turn; empty if it was not recorded.

    A recording is named after its task. Of several, the one with the same action in every turn is taken.

    Args:
        episode: the episode.
        store: folder of its store; a relative folder of recordings is looked for below its parents, and here.
    """
    if not episode.turns:
        return []
    expected = [said(turn.action) for turn in episode.turns if turn.sent]
    for folder in _recordings(episode, store):
        turns = _turns(folder)
        if [turn.get("said") for turn in turns[1:]] == expected:
            shots = [_shot(folder, turn.get("picture")) for turn in turns]
            return shots if len(expected) == len(episode.turns) else []
    return []


def _recordings(episode: Episode, store: Path) -> Iterator[Path]:
    try:
        named = json.loads(episode.fingerprints.get("env_kwargs", "{}")).get("record")
    except (ValueError, AttributeError):
        return
    if not isinstance(named, str) or not named or "\0" in named:
        return
    for base in (Path(), *store.resolve().parents[:4]):
        for number in range(1, TRIED + 1):
            folder = base / named / f"{episode.task.digest}-{number}"
            if not folder.is_dir():
                break
            yield folder


def _turns(folder: Path) -> list[dict[str, Any]]:
    """Return the turns of a recording, without its remarks; empty if they cannot be read."""
    file = folder / TURNS
    try:
        if file.stat().st_size > LARGEST:
            return []
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except (OSError, ValueError):
        return []
    return [line for line in lines if isinstance(line, dict) and "said" in line]


def _shot(folder: Path, name: Any) -> Path | None:
    """Return the path of a screenshot: a PNG in the folder itself."""
    if not isinstance(name, str) or not name.endswith(".png") or Path(name).name != name:
        return None
    file = folder / name
    try:
        with file.open("rb") as opened:
            fits = opened.read(len(PNG)) == PNG
        return file if fits and file.stat().st_size <= LARGEST and file.resolve().parent == folder.resolve() else None
    except OSError:
        return None
