"""Answers on disk, so that a resumed run or a retried episode sends no request twice."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...tasks.rng import stable_hash


class AnswerCache:
    """One JSON file per answer, named after the request.

    Args:
        folder: folder of the files; ``None`` keeps answers in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, dict[str, Any]] = {}

    def prepare(self) -> None:
        """Create the folder now, before any request costs money; otherwise the first answer creates it.

        Raises:
            UsageError: it cannot be created or written to.
        """
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / ".writable").touch()
        except OSError as error:
            raise UsageError(f"cannot keep answers in {self._folder}: {error.strerror}") from None

    @staticmethod
    def key(address: str, episode: str, body: bytes) -> str:
        """Return the name of an answer, a function of server, episode and request.

        Without the episode, several attempts at one task would share one sample.
        """
        return stable_hash("answer", address, episode, body.decode()).hex()

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the answer, if it is there and complete."""
        if self._folder is None:
            return self._memory.get(key)
        try:
            found = json.loads(self._path(key).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Keep an answer.

        Raises:
            UsageError: it cannot be written.
        """
        if self._folder is None:
            self._memory[key] = answer
            return
        path = self._path(key)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(json.dumps(answer).encode())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise UsageError(f"cannot keep an answer in {path.parent}: {error.strerror}") from None

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / key[:2] / f"{key[2:]}.json"
