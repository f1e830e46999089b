"""Server-sent events: the list of runs and the metrics of one run, as they change."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable
from typing import Any

from .runs import Runs

SECONDS = 1.0
"""Seconds between two looks at the files of a run."""
SILENCE = 15.0
"""Seconds of silence after which a comment is sent, so that a closed connection is noticed."""


def encoded(value: Any) -> str:
    """Return JSON in ASCII, which also holds lone surrogates; numbers that JSON does not have become null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


async def changes(look: Callable[[], dict[str, Any]], *, seconds: float = SECONDS) -> AsyncGenerator[str, None]:
    """Yield an event for each name of ``look`` whose value is not empty and not that of the last event.

    Args:
        look: function that returns the present values by name of the event; it runs in a thread.
        seconds: pause between two calls.
    """
    last: dict[str, str] = {}
    silent = 0.0
    while True:
        found = {name: encoded(value) for name, value in (await asyncio.to_thread(look)).items() if value}
        new = {name: text for name, text in found.items() if last.get(name) != text}
        last |= new
        for name, text in new.items():
            yield f"event: {name}\ndata: {text}\n\n"
        silent = 0.0 if new else silent + seconds
        if silent >= SILENCE:
            yield ": still here\n\n"
            silent = 0.0
        await asyncio.sleep(seconds)


def look_at_list(runs: Runs) -> Callable[[], dict[str, Any]]:
    """Return a function that returns the list of runs."""
    return lambda: {"runs": [each.to_json() for each in runs.list()]}


def look_at_run(runs: Runs, id: str) -> Callable[[], dict[str, Any]]:
    """Return a function that returns a run's state, and the points that its metrics gained since the last call.

    If nothing changed it returns nothing, after a few system calls: a look costs the run that is watched.

    Args:
        runs: the runs.
        id: id of one of them.
    """
    counts: dict[str, int] = {}
    generation = 0
    seen: tuple[object, ...] = ()

    def look() -> dict[str, Any]:
        nonlocal generation, seen
        path = runs.path(id)
        if path is None:
            return {"gone": True}
        if seen == (signature := runs.signature(path)):
            return {}
        info, seen = runs.info(id), signature
        if info is None:
            return {"gone": True}
        metrics = runs.metrics(path)
        metrics.refresh()
        reset = metrics.generation != generation
        if reset:
            generation = metrics.generation
            counts.clear()
        points = metrics.since(counts)
        return {"points": {"reset": reset, "series": points} if points or reset else None, "run": info.to_json()}

    return look
