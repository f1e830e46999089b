"""What a person may type for an environment: an id, or a Python file that registers one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from ..envs.registry import entries, find
from ..errors import UsageError


def environment(text: str) -> str:
    """The id that ``text`` means.

    ``my_env.py`` is imported, and means the one environment that it registers; ``my_env.py:demo/Mine-v0`` means this
    one of several. Anything else is an id.

    Args:
        text: an id, a file, or a file and an id.

    Raises:
        UnknownEnvironmentError: no such id; the message names the nearest.
        UsageError: the file cannot be imported, or does not register exactly one environment.
    """
    file, _, id = text.partition(".py:")
    if not text.endswith(".py") and not id:
        return find(text).id
    path = Path(file if text.endswith(".py") else f"{file}.py")
    registered = imported(path)
    if id:
        return find(id).id
    if len(registered) != 1:
        found = f"it registers {', '.join(registered)}; name one, as {path}:ID" if registered else "it registers none"
        raise UsageError(f"{path} stands for the one environment that it registers, but {found}")
    return registered[0]


def imported(path: Path) -> list[str]:
    """Import a file as a module of its own name, and list the ids whose class it defines.

    Its folder goes to the import path, so that processes started later can import it too.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}; name a Python file, or an id (`turnwise envs` lists them)")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() != path.resolve():
        raise UsageError(f"a module called {path.stem!r} is imported already; give {path} another name")
    try:
        importlib.import_module(path.stem)
    except Exception as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return [entry.id for entry in entries() if _module(entry.entry_point) == path.stem]


def _module(entry_point: object) -> str:
    return entry_point.partition(":")[0] if isinstance(entry_point, str) else getattr(entry_point, "__module__", "")
