"""Finds the author's line that reads the clock, the environment variables, the process's random numbers or the
network, or that prints.

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
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from ..author_line import line_of_frame

RANDOM, CLOCK, VARIABLES, NETWORK, OUTPUT = "random", "clock", "variables", "network", "output"

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
"""Modules that read on behalf of their callers."""
ASKING = {"socket.connect": "a connection to", "socket.getaddrinfo": "the address of"}
LOCAL = ("127.", "::1", "localhost")
_listening = threading.local()
OURS = __name__.rpartition(".")[0] + "."
"""Certification itself looks at the clock, to see who hangs."""
PACKAGES = tuple({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")})


@dataclass(frozen=True, slots=True)
class Sighting:
    """One forbidden read.

    Args:
        kind: ``"random"``, ``"clock"``, ``"variables"``, ``"network"`` or ``"output"``.
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

    def noted(kind: str, what: str) -> None:
        if where := line_of_frame(sys._getframe(2)):
            seen[Sighting(kind, what, where)] = None

    before = sys.getprofile()
    with _printing(noted), _connecting(noted):
        sys.setprofile(profile)
        try:
            yield sightings
        finally:
            sys.setprofile(before)
            sightings.extend(seen)


@contextmanager
def _printing(noted: Callable[[str, str], None]) -> Iterator[None]:
    """Note what this thread writes to standard output, and let it pass."""
    whole, here = sys.stdout, threading.get_ident()

    class Noting:
        def __getattr__(self, name: str) -> Any:
            return getattr(whole, name)

        def write(self, text: str) -> int:
            if threading.get_ident() == here and text.strip():
                noted(OUTPUT, f"print({text.strip()[:40]!r})")
            return whole.write(text)

    noting: Any = Noting()
    sys.stdout = noting
    try:
        yield
    finally:
        if sys.stdout is noting:
            sys.stdout = whole


@contextmanager
def _connecting(noted: Callable[[str, str], None]) -> Iterator[None]:
    """Note where this thread connects to, other than this machine, and let it pass."""
    _hear_connections()
    before = getattr(_listening, "noted", None)
    _listening.noted = noted
    try:
        yield
    finally:
        _listening.noted = before


@lru_cache(maxsize=1)
def _hear_connections() -> None:
    """Hear of connections from the interpreter, for the rest of the process: such a hook cannot be removed."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ASKING or (noted := getattr(_listening, "noted", None)) is None:
            return
        address = arguments[1] if event == "socket.connect" else arguments[:2]
        if isinstance(address, tuple) and address[0] and not str(address[0]).startswith(LOCAL):
            noted(NETWORK, f"{ASKING[event]} {address[0]}:{address[1]}")

    sys.addaudithook(hear)


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
