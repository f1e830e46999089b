"""Through which files does a reader follow the configuration of a LOOP run?

    python benchmarks/config_walk.py

Runs the script for one step and lists the functions under ``trainers/`` that get the configuration (as an argument, or
held by their object) and use it, each when it is first called. Neighbors in one file are one station; a file that was
left before is a return. Validators, which pydantic calls, do not count.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from same_bits import train

from turnwise.trainers import loop

FIRST = {"main", "script"}
"""The functions in which the configuration does not exist yet."""
VALIDATORS = {"_nested", "_explores", "_renamed", "_updates_survive", "_resolved"}
TINY = [
    "steps=1",
    "tasks_per_step=2",
    "group_size=2",
    "agent.context=last:1",
    "agent.max_tokens=4",
    "eval.episodes=2",
    "eval.split=train",
]
TINY += ["episodes.env_kwargs.max_turns=6", "threads=1", "progress=false", "tracking.to=[]"]


class Walk:
    """Notes files in the order in which the configuration comes to them; ``sys.setprofile`` calls it."""

    def __init__(self) -> None:
        self.stations: list[tuple[str, list[str]]] = []
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a function that is called for the first time."""
        code = frame.f_code
        _, trainers, file = code.co_filename.partition("/trainers/")
        if event != "call" or not trainers or (file, code.co_qualname) in self._seen:
            return
        if code.co_name in FIRST or (code.co_name not in VALIDATORS and uses(frame)):
            self._seen.add((file, code.co_qualname))
            if not self.stations or self.stations[-1][0] != file:
                self.stations.append((file, []))
            self.stations[-1][1].append(code.co_name)


def uses(frame: FrameType) -> bool:
    """Return whether a function has the configuration at hand and its code names it."""
    code = frame.f_code
    arguments = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
    first: Any = arguments[0] if arguments else None
    if isinstance(first, loop.LoopConfig):
        return True
    held = getattr(first, "config", None) or getattr(getattr(first, "run", None), "config", None)
    at_hand = any(isinstance(each, loop.LoopConfig) for each in [*arguments, held])
    return at_hand and "config" in code.co_names + code.co_varnames


def main() -> None:
    """Run one step, and print the walk."""
    walk, before = Walk(), set[str]()
    with tempfile.TemporaryDirectory() as scratch:
        train("bc", Path(scratch))
        model, out = Path(scratch, "bc", "model"), Path(scratch, "run")
        sys.setprofile(walk)
        loop.main(["env=turnwise/MazeU-v0", f"model={model}", f"out={out}", *TINY])
        sys.setprofile(None)
    for file, functions in walk.stations:
        print(f"{file:24}{', '.join(functions)}{'  (again)' if file in before else ''}")
        before.add(file)
    print(f"{len(walk.stations)} stations in {len(before)} files, {len(walk.stations) - len(before)} returns")


if __name__ == "__main__":
    main()
