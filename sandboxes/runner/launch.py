"""The files that a backend must put into a sandbox, and the command to start them."""

from __future__ import annotations

from pathlib import Path

PROGRAM = Path(__file__).with_name("turnwise_runner")
"""The folder of the runner. It stands alone, and must be readable inside under this name, in any folder."""


def command(python: str, folder: str) -> list[str]:
    """Return the command that starts the runner.

    Args:
        python: path of the interpreter inside.
        folder: folder of ``PROGRAM`` inside.
    """
    start = f"import sys; sys.path.append({folder!r}); from turnwise_runner.main import main; main()"
    return [python, "-I", "-S", "-c", start]
