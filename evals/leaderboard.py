"""Rank the evaluations in a folder: one table for each environment and choice of tasks, best first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from .summary import SUMMARY, Summary

TASKS = ("splits", "levels", "seed", "group_size", "env_kwargs", "env_source")
"""Settings that determine the tasks: only evaluations that agree in them share a table."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One evaluation.

    Args:
        folder: folder of the evaluation.
        summary: its numbers.
    """

    folder: Path
    summary: Summary

    @property
    def policy(self) -> str:
        """Name of the policy, with the sampling settings if they were recorded."""
        settings = self.summary.made.settings if self.summary.made else {}
        temperature = settings.get("temperature")
        return (
            f"{self.summary.policy} (temperature {temperature:g})" if temperature is not None else self.summary.policy
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict of the summary and its folder."""
        return {"folder": str(self.folder), "summary": self.summary.to_json()}


@dataclass(frozen=True, slots=True)
class Standing:
    """Evaluations of the same tasks.

    Args:
        title: environment and choice of tasks.
        entries: entries by success, then by return, best first; inconclusive ones last.
    """

    title: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All evaluations in a folder.

    Args:
        tables: one for each environment and choice of tasks.
        skipped: why some files of that name are not evaluations, one sentence each.
    """

    tables: tuple[Standing, ...]
    skipped: tuple[str, ...] = ()


def standings(folder: Path) -> Leaderboard:
    """Find every ``summary.json`` below a folder and sort the evaluations into tables.

    Raises:
        StoreError: there is no evaluation.
    """
    tables: dict[str, list[Entry]] = {}
    skipped: list[str] = []
    for path in sorted(folder.rglob(SUMMARY)):
        try:
            entry = Entry(path.parent, Summary.load(path))
        except StoreError as error:  # another program's file, or a damaged one
            skipped.append(str(error))
        else:
            tables.setdefault(_title(entry.summary), []).append(entry)
    if not tables:
        found = f" of an evaluation ({skipped[0]})" if skipped else ""
        raise StoreError(f"there is no {SUMMARY}{found} in {folder}; name a folder of evaluations (turnwise eval)")
    ordered = (
        Standing(title, tuple(sorted(entries, key=lambda entry: (entry.summary.rank_key, str(entry.folder)))))
        for title, entries in sorted(tables.items())
    )
    return Leaderboard(tuple(ordered), tuple(skipped))


def _title(summary: Summary) -> str:
    settings = summary.made.settings if summary.made else {}
    chosen = [
        f"{name}={_plain(settings[name])}"
        for name in TASKS
        if settings.get(name) not in (None, [], {}) and (name, settings[name]) != ("group_size", 1)
    ]
    return " · ".join([", ".join(summary.env_ids), *chosen])


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
