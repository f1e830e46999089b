"""Games of a made-up package, which ``test_peer_process`` hosts: they hang, crash, and answer with odd values."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from turnwise.envs.adapters import peer_child
from turnwise.envs.adapters.peer_child import serve


class OddGame:
    """A game that does what its caller wants."""

    def begin(self, hang: bool = False) -> dict[str, Any]:
        """Start, or hang."""
        while hang:
            time.sleep(600)
        return {"text": "hi", "value": 1}

    def odd(self) -> Any:
        """Return a value that JSON does not have."""
        return {1, 2}

    def leave(self) -> None:
        """Exit as a careless package does."""
        sys.exit(3)

    def crash(self) -> None:
        """End the process."""
        print("first\nthe heap is gone", file=sys.stderr, flush=True)
        os._exit(7)

    def start_process(self) -> int:
        """Start a process of its own, which reads nothing."""
        return subprocess.Popen(["sleep", "600"]).pid

    def close(self) -> None:
        """Do nothing."""


def main(fd: int, folder: str) -> None:
    """Serve the games."""
    peer_child.IDLE_SECONDS = float(os.environ.get("TEST_IDLE_SECONDS", peer_child.IDLE_SECONDS))
    serve(fd, folder, OddGame)
