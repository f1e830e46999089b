"""Serve a model until a signal stops it, with the options that tests and training use; ``scripts/serve`` runs this.

::

    python -m turnwise.inference.serving.launch.serve runs/bc/model port=8000 transfer=turnwise_files

It ends on SIGINT, SIGTERM or SIGHUP, or with exit code 1 when the server ends.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ....config import load_config
from ....errors import TurnwiseError, UsageError
from .process import ServerOptions, VllmProcess

POLL = 0.5
"""Seconds between two checks of the server."""


def serve(words: Sequence[str], python: Path | str | None = None) -> int:
    """Start a server, print its URL, and wait until it ends.

    Args:
        words: folder of a model, then settings such as ``port=8000``; ``log=FILE`` names its log.
        python: interpreter that has vLLM; this one by default.

    Returns:
        the exit code.

    Raises:
        UsageError: there is no folder, or a setting does not exist.
        InfrastructureError: the server does not start.
    """
    if not words or "=" in words[0]:
        raise UsageError("name the folder of a model first, then settings: scripts/serve runs/bc/model port=8000")
    log = next((word.partition("=")[2] for word in words if word.startswith("log=")), None)
    options = load_config(ServerOptions, overrides=[word for word in words[1:] if not word.startswith("log=")])
    try:
        with VllmProcess(words[0], options, python=python, log=log) as server:
            print(f"serving {words[0]} as {options.name!r} at {server.url}", flush=True)
            while server.running:
                time.sleep(POLL)
            print(f"turnwise: the server ended by itself; the end of its log:\n{server.tail()}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0


def main() -> None:
    """Run the command line; print a Turnwise error as one line, with exit code 2 for invalid input and else 1."""

    def end(kind: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(kind, end)
    words = sys.argv[1:]
    python = next((word.partition("=")[2] for word in words if word.startswith("python=")), None)
    try:
        sys.exit(serve([word for word in words if not word.startswith("python=")], python))
    except TurnwiseError as error:
        print(f"turnwise: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)


if __name__ == "__main__":
    main()
