"""``Recording``: a folder that shows users what an agent did in one episode.

::

    recordings/                  named by whoever wants them
        index.html               the episodes that are over, a line each
        3f2a9c41d07b56e8-1/      the digest of the task, and a number: nobody writes into another one's
            index.html           what was said and told, turn by turn, with the pictures
            turns.jsonl          the same for programs
            000.png              what the window showed at the beginning
            001.png              and after the first turn
            trace.zip            on request: for ``playwright show-trace``

Every file is only added to, so that what was recorded of an episode that was broken off can be read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ....errors import UsageError
from ....tasks.spec import TaskSpec
from ...messages import Action, ImagePart, Observation, call_text
from .page import Shot, entry, head, label, remark, section

PAGE, TURNS, TRACE = "index.html", "turns.jsonl", "trace.zip"
MIMES = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}


def recordings_in(folder: Path | str) -> Path:
    """A folder for recordings, made if it is not there.

    Args:
        folder: the path of the folder.

    Raises:
        UsageError: the folder cannot be written to.
    """
    if not isinstance(folder, (str, Path)) or not str(folder):
        raise UsageError(f"record names a folder, such as record='recordings'; got {folder!r}")
    path = Path(folder).absolute()  # wherever the process goes
    try:
        path.mkdir(parents=True, exist_ok=True)
        with (path / PAGE).open("a", encoding="utf-8") as page:
            if not page.tell():
                page.write(head("Recorded episodes"))
    except (OSError, ValueError) as error:  # a name may be none that a disk can have
        raise _refused(path, error) from None
    return path


class Recording:
    """One episode, written down as it goes.

    Args:
        into: the folder of all recordings.
        task: the task of the episode.

    Attributes:
        folder: the folder of this recording.

    Raises:
        UsageError: the folder cannot be written to.
    """

    def __init__(self, into: Path, task: TaskSpec) -> None:
        self._into, self._title = into, label(task)
        self.folder = _own(into, task.digest)
        self._turns = -1
        self._over = False
        self._write(PAGE, head(self._title))

    def add(self, action: Action | None, observation: Observation, reward: float, picture: bytes | str) -> None:
        """Write down a turn.

        Args:
            action: the action of the agent; ``None`` at the beginning.
            observation: the observation that answered it.
            reward: the reward of the turn.
            ``picture``: a screenshot of the window as PNG, or the reason why there is none.

        Raises:
            UsageError: it cannot be written.
        """
        self._turns += 1
        name = f"{self._turns:03d}"
        if isinstance(picture, bytes):
            self._write(f"{name}.png", picture)
        shot = Shot(
            number=self._turns,
            said=said(action),
            told=observation.text,
            reward=reward,
            picture=f"{name}.png" if isinstance(picture, bytes) else "",
            lacks="" if isinstance(picture, bytes) else picture,
            given=self._given(name, observation),
        )
        self._write(TURNS, json.dumps(asdict(shot)) + "\n")
        self._write(PAGE, section(shot))

    def note(self, text: str) -> None:
        """Write down what happened besides, as a line of its own.

        Raises:
            UsageError: it cannot be written.
        """
        self._write(TURNS, json.dumps({"note": text}) + "\n")
        self._write(PAGE, remark(text))

    def end(self, verdict: str = "") -> None:
        """End the recording with the episode; later calls have no effect.

        Args:
            verdict: how it ended; omitted, that it was broken off.

        Raises:
            UsageError: it cannot be written.
        """
        if self._over:
            return
        self._over = True
        verdict = verdict or f"broken off in turn {self._turns + 1}"
        self.note(verdict)
        self._write(f"../{PAGE}", entry(self.folder.name, self._title, verdict))

    def _given(self, name: str, observation: Observation) -> tuple[str, ...]:
        """Write the images of an observation to files and return their names."""
        files: list[str] = []
        for message in observation.messages:
            for part in message.parts:
                if isinstance(part, ImagePart) and part.mime in MIMES:
                    files.append(f"{name}-given-{len(files)}.{MIMES[part.mime]}")
                    self._write(files[-1], part.data)
        return tuple(files)

    def _write(self, name: str, content: bytes | str) -> None:
        """Add to a file, all at once."""
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        try:
            with (self.folder / name).open("ab", buffering=0) as file:
                written = file.write(data)
                if written < len(data):  # a disk that is nearly full takes a part
                    file.write(data[written:])
        except OSError as error:
            raise _refused(self._into, error) from None


def said(action: Action | None) -> str:
    """Return the text of an action, and its calls in human-readable form."""
    if action is None:
        return ""
    lines = [action.text, *map(call_text, action.tool_calls), f"[{action.problem}]" if action.problem else ""]
    return "\n".join(line for line in lines if line)


def _own(into: Path, digest: str) -> Path:
    """Create and return a folder that no other process has."""
    number = 1
    while True:
        try:
            folder = into / f"{digest}-{number}"
            folder.mkdir()
        except FileExistsError:
            number += 1
        except OSError as error:
            raise _refused(into, error) from None
        else:
            return folder


def _refused(into: Path, error: OSError | ValueError) -> UsageError:
    folder = str(into).encode("utf-8", "replace").decode()
    why = getattr(error, "strerror", None) or error
    return UsageError(
        f"episodes cannot be recorded in {folder}: {why}; make room, name another folder with record, or leave it out"
    )
