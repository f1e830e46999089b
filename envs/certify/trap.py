"""Catches whoever reads the clock, the environment variables or the process's random numbers, and says at which line.

The interpreter reports every call to a profiler (``sys.setprofile``), C functions included, however they were
imported; so nothing is patched, and nothing is missed because it was imported under another name. Not seen: what
compiled extensions call inside themselves. Their use of NumPy's global generator is found by its state (see
``laws_isolation``).
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

RANDOM, CLOCK, VARIABLES = "random", "clock", "variables"

CLOCKS = frozenset(
    f"{name}{unit}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
) | {"localtime", "gmtime", "ctime"}
TODAY = frozenset({"now", "utcnow", "today"})
GLOBAL_RANDOM: Any = random._inst
ENVIRON_READS: frozenset[CodeType] = frozenset(
    getattr(type(os.environ), name).__code__ for name in ("__getitem__", "__iter__")
)
UNSEEDED: CodeType = random.Random.seed.__code__
THROUGH = frozenset(
    {"random", "os", "uuid", "secrets", "_collections_abc", "collections", "datetime", "numpy", "gymnasium"}
)
"""Modules that read on behalf of whoever called them."""
OURS = __name__.rpartition(".")[0] + "."
"""Certification itself looks at the clock, to see who hangs."""
PACKAGES = tuple({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")})


@dataclass(frozen=True, slots=True)
class Sighting:
    """One forbidden read.

    Args:
        kind: ``"random"``, ``"clock"`` or ``"variables"``.
        what: the function that was called.
        where: ``file:line in function`` of the caller.
    """

    kind: str
    what: str
    where: str


@contextmanager
def trapped(own: frozenset[str]) -> Iterator[list[Sighting]]:
    """Collect what this thread reads inside the block.

    Args:
        own: top-level packages of the environment; other installed packages and the standard library may read
            what they like on their own account (a log line's time, a timeout).
    """
    seen: dict[Sighting, None] = {}
    sightings: list[Sighting] = []

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        found = _forbidden(frame, event, arg)
        if found is None:
            return
        kind, what, caller = found
        culprit = _culprit(caller, own)
        if culprit is not None:
            code = culprit.f_code
            seen[Sighting(kind, what, f"{code.co_filename}:{culprit.f_lineno} in {code.co_qualname}")] = None

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield sightings
    finally:
        sys.setprofile(before)
        sightings.extend(seen)


def _forbidden(frame: FrameType, event: str, arg: Any) -> tuple[str, str, FrameType | None] | None:
    """The kind of read, what was called, and the frame that called it; ``None`` for any other call."""
    if event == "c_call":
        owner, name = getattr(arg, "__self__", None), arg.__name__
        if owner is GLOBAL_RANDOM and name in ("random", "getrandbits"):
            return RANDOM, f"random.{name}()", frame
        if name == "urandom":
            return RANDOM, "os.urandom()", frame
        if name in CLOCKS and getattr(arg, "__module__", None) == "time":
            return CLOCK, f"time.{name}()", frame
        if name in TODAY and isinstance(owner, type) and issubclass(owner, datetime.date):
            return CLOCK, f"{owner.__name__}.{name}()", frame
    elif event == "call":
        if frame.f_code in ENVIRON_READS:
            return VARIABLES, "os.environ", frame.f_back
        if frame.f_code is UNSEEDED and frame.f_locals.get("a") is None:
            return RANDOM, "random.Random() without a seed", frame.f_back
    return None


def _culprit(frame: FrameType | None, own: frozenset[str]) -> FrameType | None:
    """The first frame that reads on its own account, if it is one whom this concerns."""
    culprit: FrameType | None = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        root = module.partition(".")[0]
        if "importlib" in frame.f_code.co_filename:
            return None  # importing a module for the first time is not acting
        if culprit is None and root not in THROUGH:
            outside = root in sys.stdlib_module_names or frame.f_code.co_filename.startswith(PACKAGES)
            if (outside and root not in own) or module.startswith(OURS):
                return None
            culprit = frame
        frame = frame.f_back
    return culprit
