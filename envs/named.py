"""Names that a user may type for an environment: an id, a Python file that registers one, or a package's folder."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb

from ..errors import UnknownEnvironmentError, UsageError
from .base import TurnEnv
from .harbor.address import SCHEME, folder_of, is_harbor
from .registry import GROUP, entries, find, register
from .remote.address import is_foreign, is_remote

_places: dict[str, str] = {}
"""The files and folders of environments by id; like the registry, it lasts as long as the process."""


def environment(text: str) -> str:
    """Return the id that ``text`` means.

    ``my_env.py`` is imported, and stands for the one environment that it registers; ``my_env.py:demo/Mine-v0`` for
    this one of several. ``my_env``, a folder such as ``turnwise new`` writes, stands for the environment that its
    ``pyproject.toml`` declares, installed or not. Anything else is an id, also ``turnwise://host:port/ID``,
    ``openenv://host:port`` or ``nemo://host:port``. ``harbor:PATH`` is the id of a folder of Harbor tasks.

    Args:
        text: an id, a file, or a folder; with ``:ID`` after it where there are several.

    Raises:
        UnknownEnvironmentError: no such id; the message names the nearest, or says what a file or folder lacks.
        UsageError: the file or folder cannot be imported, or does not bring exactly one environment.
    """
    if is_remote(text) or is_foreign(text):
        return find(text).id
    if is_harbor(text):
        return f"{SCHEME}{folder_of(text)}"  # runs record the id, and other processes have other working directories
    place, colon, id = text.partition(":")
    path = Path(place)
    if path.suffix != ".py" and not (path / "pyproject.toml").is_file():
        return _id(text, path)
    brought = from_file(path) if path.suffix == ".py" else from_package(path)
    if id not in brought and (colon or len(brought) != 1):
        known = f"it registers {', '.join(brought)}; name one, as {path}:ID" if brought else unregistered(path)
        raise UsageError(f"{text} does not name one environment: {known}")
    chosen = id or brought[0]
    _places[chosen] = f"{path.resolve()}:{chosen}"
    return chosen


def _id(text: str, path: Path) -> str:
    """Return a registered id; a folder or file of this name, which has no environment, is answered by what it is."""
    try:
        return find(text).id
    except UnknownEnvironmentError:
        if not path.is_dir() and not path.is_file():
            raise
        what = "a folder without a pyproject.toml" if path.is_dir() else "not a Python file (.py)"
    raise UnknownEnvironmentError(
        f"{path} is {what}; name an environment by its id (`turnwise envs` lists them) or the Python file that "
        "registers it (my_env.py). A folder must be a package that declares it (`turnwise new` writes one), or of "
        "Harbor tasks (harbor:FOLDER)."
    )


def refuse_several(names: Sequence[str], *, model: str, already: bool = False) -> None:
    """Refuse several names on a command line; a name that cannot be an environment's is meant as a setting.

    Args:
        names: the words that are not settings.
        model: text before the folder of a model on this command line, such as ``--policy ``.
        already: whether a setting names the environment.

    Raises:
        UsageError: there are several names, or a setting is written without ``=``.
    """
    if len(names) + already < 2:
        return
    stray = [name for name in names if not re.search(r"[/:\\]|\.py$", name) and not Path(name).is_dir()]
    if stray:
        what = (
            f"{' and '.join(map(repr, stray))} {'is not an environment' if len(stray) == 1 else 'are not environments'}"
        )
        raise UsageError(f"{what}; write settings as {stray[0]}={stray[1] if len(stray) > 1 else 'VALUE'}")
    if len(names) > 1:
        folders = [name for name in names if (Path(name) / "config.json").is_file()]
        hint = f"; write the model as {model}{folders[0]}" if folders else ""
        raise UsageError(f"give one environment at a time, not {' and '.join(names)}{hint}")


def place_of(id: str) -> str:
    """Return what makes an environment known in a new process: its file or folder, or its id if that suffices.

    Args:
        id: the id of an environment that this process knows.
    """
    return _places.get(id, id)


def from_file(path: Path) -> list[str]:
    """Import a file as a module of its own name, and return the ids whose class it defines.

    Raises:
        UsageError: there is no such file, its name is taken, or it raises.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}; name a Python file, or an id (`turnwise envs` lists them)")
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() != path.resolve():
        raise UsageError(f"a module named {path.stem!r} is already imported; give {path} another name")
    _reachable(path.resolve().parent)
    _import(path.stem, path)
    return [entry.id for entry in entries() if getattr(entry.entry_point, "__module__", "") == path.stem]


def unregistered(path: Path) -> str:
    """Return the missing line for a file that defines an environment but registers none."""
    members = vars(sys.modules[path.stem]).values() if path.suffix == ".py" else ()
    defined = [one for one in members if isinstance(one, type) and issubclass(one, TurnEnv)]
    names = [one.__name__ for one in defined if one.__module__ == path.stem]
    if not names:
        return "it registers none; define one, and add tw.register('my/Name-v0', Name) below it"
    name = names[-1]
    return f"it registers none; write tw.register('my/{name}-v0', {name}) below the class {name}"


def from_package(folder: Path) -> list[str]:
    """Register what a source folder's ``pyproject.toml`` declares, and return the ids.

    Raises:
        UsageError: the declaration cannot be read, or what it names cannot be imported.
    """
    declared = folder / "pyproject.toml"
    try:
        project = tomllib.loads(declared.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read {declared}: {error}") from None
    points: dict[str, str] = project.get("project", {}).get("entry-points", {}).get(GROUP, {})
    for root in (folder, folder / "src"):
        _reachable(root.resolve())
    for id, point in points.items():
        module, _, name = point.partition(":")
        found = getattr(_import(module, declared), name, None)
        if found is None:
            raise UsageError(f"{declared} declares {id} as {point}, but {module} has no {name!r}")
        register(id, found)
    return list(points)


def _reachable(folder: Path) -> None:
    """Let this process, and those that it starts for environments, import from a folder."""
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _import(module: str, named_by: Path) -> object:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a file that exits would end this command as if all were well
        frames = [each for each in extract_tb(error.__traceback__) if Path(each.filename) == named_by.resolve()]
        line = f", line {frames[-1].lineno}" if frames else ""
        raise UsageError(f"cannot import {named_by}{line}: {type(error).__name__}: {error}") from error
