"""Settings that have a new name: the former one works for one release, with a warning that says what to write."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

OURS = ("turnwise", "pydantic", "typer", "click", "contextlib")
"""Packages between a user's line and a setting, which a warning passes over."""

Report = Callable[[str, str], None]
"""Receives the whole key of a former name, and a message about it."""


def former_names(model: type[Any]) -> Mapping[str, str]:
    """Return the new names of a table's settings by their former ones, with those that it inherits.

    A new name with a dot, such as ``tracking.to``, is that of a setting that moved into a table below.
    """
    return {old: new for kind in reversed(model.__mro__) for old, new in vars(kind).get("renamed", {}).items()}


def _former_values(model: type[Any]) -> Mapping[str, Mapping[Any, Any]]:
    return {name: new for kind in reversed(model.__mro__) for name, new in vars(kind).get("renamed_values", {}).items()}


def _tables(model: type[Any], name: str) -> tuple[type[Any], ...]:
    """Return the tables that a setting may be, or that it lists."""
    field = model.model_fields.get(name)
    return tuple(_configs(field.annotation)) if field is not None else ()


def _configs(annotation: Any) -> Iterator[type[Any]]:
    if isinstance(annotation, type) and hasattr(annotation, "renamed"):
        yield annotation
    for part in get_args(annotation):
        yield from _configs(part)


def with_new_names(given: Mapping[str, Any], *models: type[Any], report: Report, above: str = "") -> dict[str, Any]:
    """Return settings with new names in place of former ones, in all their tables.

    Args:
        given: Settings as Python values, nested tables as mappings.
        models: The class of the table, or the classes that it may be.
        report: Receives the key of each former name, and a message.
        above: Key of the table with a dot, e.g. ``"loss."``.

    Raises:
        ValueError: A setting is given by both of its names.
    """
    own = {name for model in models for name in model.model_fields}
    names = {old: new for model in models for old, new in former_names(model).items()}
    values = {name: known for model in models for name, known in _former_values(model).items()}
    settings: dict[str, Any] = {}
    moved: dict[str, str] = {}
    for key, value in given.items():
        name = key if key in own and not _is_former(key, value, models) else names.get(key, key)
        if "." in name:
            moved[key] = name
            continue
        if name != key and name in given:
            raise ValueError(f"{above}{key} is the former name of {above}{name}, and both are set: remove {above}{key}")
        tables = tuple(table for model in models for table in _tables(model, name))
        settings[name] = _within(value, tables, report, f"{above}{name}")
        if isinstance(value, str) and value in values.get(name, {}):
            settings[name] = values[name][value]
            cure = f"{above}{name} = {settings[name]!r}"
            report(f"{above}{key}", f"setting '{above}{key}' = {value!r} is deprecated: write {cure}")
        elif name != key:
            report(f"{above}{key}", f"setting '{above}{key}' is deprecated: write {above}{name}")
    for key, name in moved.items():
        _move(settings, key, given[key], name, values.get(name, {}), report, above)
    return settings


def _move(
    settings: dict[str, Any],
    key: str,
    value: Any,
    name: str,
    values: Mapping[Any, Any],
    report: Report,
    above: str,
) -> None:
    """Put the value of a former setting into the table that has its new name."""
    table, _, inner = name.partition(".")
    held = settings.get(table, {})
    if not is_table(held):
        return  # validation says what is wrong with it
    held = dict(held) if isinstance(held, Mapping) else held.model_dump(exclude_unset=True)
    if inner in held:
        raise ValueError(f"{above}{key} is the former name of {above}{name}, and both are set: remove {above}{key}")
    new = next((new for old, new in values.items() if old is value or old == value), value)
    settings[table] = {**held, inner: new}
    report(f"{above}{key}", f"setting '{above}{key}' = {value!r} is deprecated: write {above}{name} = {new!r}")


def _is_former(key: str, value: Any, models: tuple[type[Any], ...]) -> bool:
    """Return whether a name that belongs to a table today is used for the single value that had it before."""
    return not is_table(value) and any(_tables(model, key) for model in models)


def is_table(value: Any) -> bool:
    """Return whether the value of a setting is a table: a mapping, or a ``Config``."""
    return isinstance(value, Mapping) or hasattr(type(value), "renamed")


def _within(value: Any, tables: tuple[type[Any], ...], report: Report, key: str) -> Any:
    if not tables:
        return value
    if isinstance(value, Mapping):
        return with_new_names(value, *tables, report=report, above=f"{key}.")
    if isinstance(value, list | tuple):
        return [_within(each, tables, report, f"{key}.{place}") for place, each in enumerate(value)]
    return value


def silent(key: str, message: str) -> None:
    """Accept a former name without a warning, as in the settings of an older run."""


def warn(key: str, message: str) -> None:
    """Warn at the line of a user's program that passes a former name, where Python shows it by default."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame = frame.f_back
    seen = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__", "__main__")
    warnings.warn_explicit(message, DeprecationWarning, frame.f_code.co_filename, frame.f_lineno, module, seen)
