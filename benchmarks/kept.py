"""Runs that a benchmark keeps in a folder, so that the same command goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.errors import UsageError
from turnwise.evals.statistics import Estimate
from turnwise.trainers.options import configured, located
from turnwise.trainers.registry import ALGORITHMS


def note_settings(out: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings into the folder, or check that they are those that it was started with.

    Raises:
        UsageError: they differ.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "settings.json"
    if not path.exists():
        path.write_text(json.dumps(settings, indent=1) + "\n")
    there = json.loads(path.read_text())
    for name, value in settings.items():
        if there.get(name) != value:
            raise UsageError(f"{path} was started with {name} = {there.get(name)}, not {value}: choose another --out")


def trained(word: str, config: str, words: Sequence[str], out: Path) -> Path:
    """The model of a run in ``out``, which is continued if it is there.

    Args:
        word: the algorithm, as ``turnwise train`` calls it.
        config: a shipped configuration.
        words: further settings.
        out: the run's folder.
    """
    if not (out / "done").exists():
        resumed = ["resume=true"] if (out / "config.json").exists() else []
        settings = [*words, f"out={out}", "progress=false", "tracking.to=[]", "threads=1", *resumed]
        ALGORITHMS[word].load()[1](configured(word, located(config), settings))
        (out / "done").touch()
    return out / "model"


def shown(estimate: Estimate, digits: int = 2) -> str:
    """A number with its interval."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"
