"""What a backend must put into a sandbox, and how it is started there."""

from __future__ import annotations

from pathlib import Path

PROGRAM = Path(__file__).with_name("turnwise_runner")
"""The folder of the runner. It stands alone, and must be readable inside under this name, in any folder."""


def command(python: str, folder: str) -> list[str]:
    """Starts the runner.

    Args:
        python: the interpreter, as it is called inside.
        folder: where ``PROGRAM`` lies inside.
    """
    start = f"import sys; sys.path.append({folder!r}); from turnwise_runner.main import main; main()"
    return [python, "-I", "-S", "-c", start]
