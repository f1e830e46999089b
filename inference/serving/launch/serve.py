"""Serve a model until a signal stops it, with the options that tests and training use; ``scripts/serve`` runs this.

::

    python -m turnwise.inference.serving.launch.serve runs/bc/model port=8000 transfer=turnwise_files

It ends on SIGINT, SIGTERM or SIGHUP, or with exit code 1 when the server ends.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, get_args

from ....config import load_config
from ....errors import TurnwiseError, UsageError
from ...hardware import ProfileName, detected_profile, serving_settings
from .process import ServerOptions, VllmProcess

POLL = 0.5
"""Seconds between two checks of the server."""


def serve(words: Sequence[str], python: Path | str | None = None) -> int:
    """Start a server, print its URL, and wait until it ends.

    Args:
        words: folder of a model, then settings such as ``port=8000``; ``log=FILE`` names its log, and ``profile=NAME``
            the hardware whose defaults apply (default: this machine's; see ``inference/hardware.py``).
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
    given = [word for word in words[1:] if not word.startswith(("log=", "profile="))]
    profile = next((word.partition("=")[2] for word in words if word.startswith("profile=")), "auto")
    presets = _presets(words[0], profile)
    if presets:
        print(f"hardware profile: {', '.join(f'{name}={value}' for name, value in presets.items())}", file=sys.stderr)
    options = load_config(ServerOptions, overrides=given, presets=presets)
    try:
        with VllmProcess(words[0], options, python=python, log=log) as server:
            print(f"serving {words[0]} as {options.name!r} at {server.url}", flush=True)
            while server.running:
                time.sleep(POLL)
            print(f"turnwise: the server ended by itself; the end of its log:\n{server.tail()}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0


def _presets(model: str, profile: str) -> dict[str, Any]:
    """Return the defaults for a model on this machine's hardware, or on that of a profile.

    Raises:
        UsageError: there is no such profile, or no GPU for it.
    """
    found = detected_profile()
    if profile not in get_args(ProfileName):
        raise UsageError(f"there is no profile {profile!r}; choose from {', '.join(get_args(ProfileName))}")
    if profile not in ("auto", "cpu") and found == "cpu":
        raise UsageError(f"profile={profile} is for a GPU, and torch sees none here; leave it out")
    presets = serving_settings(found if profile == "auto" else profile)
    try:
        longest = int(json.loads(Path(model, "config.json").read_text(encoding="utf-8"))["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        return presets
    return presets | ({"context_length": min(presets["context_length"], longest)} if presets else {})


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
