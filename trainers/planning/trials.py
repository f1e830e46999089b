"""The result of ``scripts/gpu-trial``: lines of measurements in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import UsageError

LINES = "lines.jsonl"


def trial_lines(folder: Path) -> list[Any]:
    """Return the lines of a trial.

    Raises:
        UsageError: there is no trial in the folder, or it cannot be read.
    """
    file = folder / LINES
    if not file.is_file():
        raise UsageError(f"there is no trial in {folder}: name the output folder of scripts/gpu-trial, with {LINES}")
    try:
        return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} is not the result of scripts/gpu-trial: {error}") from None
