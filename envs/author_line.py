"""The author's line: where in an environment's own code an exception arose, or a method is defined."""

from __future__ import annotations

import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

PACKAGE = __name__.partition(".")[0]
FRAMEWORK = frozenset(
    {"asked", "author_line", "background", "base", "certify", "contract", "deprecated", "fork", "messages", "nemo"}
    | {"openenv", "registry", "remote", "required", "reserved", "sampling", "spaces", "step", "toolenv", "tools"}
    | {"wrappers"}
)
"""Modules of ``envs`` that call authors' code. The others are environments, and their code counts as an author's."""
MAKES = "gymnasium.envs.registration"
"""Gymnasium's module that calls constructors: its line is in every traceback of ``make``, and never the fault."""
INSTALLED = tuple({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")})
Frames = list[tuple[FrameType, int]]


def author_line(error: BaseException) -> str:
    """Return ``file:line in function`` of the author's last line in a traceback, or ``""`` if it has none."""
    found = _authors(list(traceback.walk_tb(error.__traceback__)))
    return _place(found[-1][0].f_code, found[-1][1]) if found else ""


def line_of_frame(frame: FrameType | None) -> str:
    """Return the author's line in the stack of a running frame, or ``""`` if it has none."""
    found = _authors(list(traceback.walk_stack(frame))[::-1])
    return _place(found[-1][0].f_code, found[-1][1]) if found else ""


def defined_at(thing: Any) -> str:
    """Return ``file:line in name`` of a function's or class's definition, or ``""`` where there is no source."""
    plain = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", thing))
    code = getattr(plain, "__code__", None)
    if code is not None:
        return _place(code, code.co_firstlineno)
    try:
        return f"{inspect.getsourcefile(plain)}:{inspect.getsourcelines(plain)[1]} in {plain.__qualname__}"
    except (OSError, TypeError, AttributeError):
        return ""


def at(place: str) -> str:
    """Return a place as the end of a message: ``" (at …)"``, or nothing."""
    return f" (at {place})" if place else ""


def noted(error: BaseException) -> str:
    """Return what was noted on an error, such as a cure, as the end of a message."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", ()))


def method_at(owner: object, name: str) -> str:
    """Return where the class of ``owner`` defines a method, as the end of a message."""
    function: Callable[..., Any] | None = getattr(type(owner), name, None)
    return at(defined_at(function)) if function is not None else ""


def author_traceback(error: BaseException) -> str:
    """Return a traceback from the author's first line on, or all of it where none is the author's."""
    whole = list(traceback.walk_tb(error.__traceback__))
    first = _authors(whole)[:1]
    kept = whole[whole.index(first[0]) :] if first else whole
    head = "Traceback (from the environment's code on):\n"
    return head + "".join(
        [*traceback.StackSummary.extract(iter(kept)).format(), *traceback.format_exception_only(error)]
    )


def _authors(frames: Frames) -> Frames:
    """Select the frames of the author's code: a project's own, or a built-in environment's, or an installed one's."""
    frames = [one for one in frames if _module(one[0]) != MAKES]
    foreign = [one for one in frames if _root(one[0]) not in {PACKAGE, *sys.stdlib_module_names}]
    own = [one for one in foreign if not one[0].f_code.co_filename.startswith(INSTALLED)]
    if own:
        return own
    ours = [one for one in frames if _root(one[0]) == PACKAGE and not _is_framework(_module(one[0]))]
    return ours or [one for one in foreign if _root(one[0]) == _root(foreign[0][0])]


def _is_framework(module: str) -> bool:
    parts = module.split(".")
    return parts[1:2] != ["envs"] or parts[2] in FRAMEWORK


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _root(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _place(code: CodeType, line: int) -> str:
    return f"{code.co_filename}:{line} in {code.co_qualname}"
