"""Configuration: documented pydantic models, read from TOML, overridden by ``key=value`` words."""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import pydantic

from .config_errors import LISTED, hint, line_of, listed_once, malformed, rule_of, value_of
from .errors import ConfigError
from .renamed import Report, former_names, silent, warn, with_new_names

C = TypeVar("C", bound="Config")


class Config(pydantic.BaseModel):
    """Base class of every configuration: frozen, without unknown keys, documented by a string under each field."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )
    renamed: ClassVar[Mapping[str, str]] = {}
    """New names of settings by their former ones, which work for one release with a ``DeprecationWarning``."""
    renamed_values: ClassVar[Mapping[str, Mapping[Any, Any]]] = {}
    """New values by their former ones, for settings by their new names."""
    cures: ClassVar[Mapping[str, str]] = {}
    """Advice about keys that are not settings, or that are missing, by key; for messages."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        return with_new_names(given, cls, report=warn) if isinstance(given, Mapping) else given


def load_config(
    model: type[C],
    path: Path | str | None = None,
    overrides: Sequence[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    presets: Mapping[str, Any] | None = None,
) -> C:
    """Load a configuration from an optional TOML file and overrides such as ``optimizer.lr=1e-3``.

    Args:
        model: class of the configuration.
        path: TOML file, or a ``.json`` file with settings, such as the ``config.json`` of a run.
        overrides: settings that take precedence over the file.
        settings: settings as Python values, nested tables as mappings; they take precedence over the overrides.
        presets: defaults for settings that are not given otherwise.

    Raises:
        ConfigError: the file is missing or malformed (with its line), or a key or value does not fit the model.
    """
    data: dict[str, Any] = {}
    source = ""
    if path is not None:
        try:
            source = Path(path).read_text(encoding="utf-8-sig")  # Windows begins a file with a byte-order mark
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read configuration {path}: {error}") from None
        data = _parsed(model, Path(path), source)
    keys: dict[tuple[str, ...], str] = {}
    for override in overrides:
        _override(model, data, override, keys)
    settings = _with_new_names(model, settings or {}, warn)
    data = merge_defaults(data, settings)
    try:
        return model.model_validate(merge_defaults(presets or {}, data))
    except pydantic.ValidationError as error:
        typed = {".".join(key) for key in keys} | {*settings}
        problems = error.errors(include_url=False)
        said = sorted((_explain(model, p, path, source, typed) for p in problems), key=lambda each: each[0])
        wrong = {str(p["loc"][0]) if p["loc"] else "" for p in problems}
        option = wrong.pop().removesuffix("s") if len(wrong) == 1 else ""  # --split sets ``splits``
        raise ConfigError("\n".join(listed_once([text for _, text in said])), option=option) from None


def _parsed(model: type[Config], path: Path, source: str) -> dict[str, Any]:
    """Read the settings of a file; for the file of a run, also the source of its environment."""

    def report(key: str, message: str) -> None:
        line = line_of(source, tuple(step for step in key.split(".") if not step.isdigit()))
        warn(key, f"{path}, line {line}: {message}" if line else f"{path}: {message}")

    if path.suffix != ".json":
        try:
            return _with_new_names(model, tomllib.loads(source), report, f"{path}: ")
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not valid TOML: {malformed(source, error)}") from None
    try:
        data = json.loads(source)
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} has no settings: it is not a JSON object")
    if not isinstance(data.get("config"), dict):
        return _with_new_names(model, data, report, f"{path}: ")
    settings: dict[str, Any] = data["config"] | ({"env": data["env"]} if "env" in data else {})
    settings.pop("resume", None)  # the new command decides whether it resumes
    return _with_new_names(model, settings, silent, f"{path}: ")


def _with_new_names(model: type[Config], given: Mapping[str, Any], report: Report, where: str = "") -> dict[str, Any]:
    try:
        return with_new_names(given, model, report=report)
    except ValueError as error:
        raise ConfigError(f"{where}{error}") from None


def merge_defaults(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``defaults`` into the settings that were given, table by table and key by key.

    Args:
        defaults: nested settings, e.g. ``{"loss": {"ratio_level": "trajectory"}}``.
        given: settings that take precedence; from a ``Config`` among them, only the fields that were set.
    """
    merged = dict(given)
    for name, default in defaults.items():
        mine = merged.get(name)
        if isinstance(mine, Config):
            mine = tag_of(type(mine)) | mine.model_dump(exclude_unset=True)
        if isinstance(default, Mapping) and isinstance(mine, Mapping):
            merged[name] = merge_defaults(default, mine)
        else:
            merged.setdefault(name, default)
    return merged


def _override(model: type[Config], data: dict[str, Any], override: str, keys: dict[tuple[str, ...], str]) -> None:
    """Put an override into ``data``; ``keys`` are those of the overrides before it, by their new names."""
    key, equals, text = override.partition("=")
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key.strip()):
        raise ConfigError(f"override {override!r} must have the form key=value or table.key=value")
    path, value = _new_key(model, key.strip(), value_of(text))
    if (before := keys.setdefault(path, key.strip())) != key.strip():
        raise ConfigError(f"{before} and {key.strip()} are two names of one setting: write only {'.'.join(path)}")
    *tables, last = path
    for table in tables:
        data[table] = {} if data.get(table) is None else data[table]  # None, in the file of a run
        data = data[table]
        if not isinstance(data, dict):
            raise ConfigError(f"override {override!r}: {table!r} is a value, not a table")
    data[last] = _as_meant(model, path, text, value)


def _new_key(model: type[Config], key: str, value: Any) -> tuple[tuple[str, ...], Any]:
    """Return the key and the value of an override by their new names."""
    given = value
    for step in reversed(key.split(".")):
        given = {step: given}
    path = []
    given = _with_new_names(model, given, warn)
    depth = key.count(".") + 1 + former_names(model).get(key, "").count(".")  # deeper if it moved into a table
    for _ in range(depth):
        ((step, given),) = given.items()
        path.append(step)
    return tuple(path), given


def _as_meant(model: type[Config], location: tuple[str, ...], text: str, value: Any) -> Any:
    """Return the value of a word: None, the text as it stands (a program ``true``, a folder ``2026``), or TOML's value.

    A bare ``none`` means None if the setting takes None and has no choice of that name.
    """
    _, holders = _walk(model, location)
    fields = [holder.model_fields[location[-1]] for holder in holders if location[-1] in holder.model_fields]
    kinds = {kind for field in fields for kind in _kinds(field.annotation)}
    if means_none(text) and type(None) in kinds and "none" not in kinds:
        return None
    number = isinstance(value, int) and float in kinds
    as_text = str in kinds and not number and not {type(value), Any} & kinds and not isinstance(value, list | dict)
    return text if as_text else value


def means_none(text: str) -> bool:
    """Whether a word is a bare ``none``, which takes back what a file sets."""
    return text.strip().lower() == "none"


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the plain types that make up a type."""
    parts = get_args(annotation)
    yield from (kind for part in parts for kind in _kinds(part))
    if not parts:
        yield annotation


def _explain(
    model: type[Config], problem: Any, path: Path | str | None, source: str, typed: Collection[str]
) -> tuple[float, str]:
    """Return one problem in words, after its line of the file; the line is infinite if an override set the value."""
    location, holders = _walk(model, problem["loc"])
    if problem["type"].startswith("union_tag"):  # reported for the table, but about the setting that names its kind
        location = (*location, problem["ctx"]["discriminator"].strip("'"))
    if not location:  # several settings contradict each other
        said = problem["msg"].removeprefix("Value error, ")
        return math.inf, f"{path}: {said}" if path is not None else str(said)
    named = location[:-1] if isinstance(location[-1], int) else location  # an item of a list
    key = ".".join(str(step) for step in named)
    over = any(key == word or key.startswith(f"{word}.") for word in typed)
    line = None if over or path is None else line_of(source, location)
    text = _sentence(model, problem, key, holders, entry=named != location, file=line is not None)
    return (line, f"{path}, line {line}: {text}") if line else (math.inf, text)


def _sentence(
    model: type[Config], problem: Any, key: str, holders: Sequence[type[Config]], *, entry: bool, file: bool
) -> str:
    """Return what is wrong with the setting ``key``, or with an entry of it; ``file`` if a file has it."""
    kind, context = problem["type"], problem.get("ctx", {})
    cure = f": {model.cures[key]}" if key in model.cures else ""
    if kind == "extra_forbidden":
        inside = _inside(model, key, problem["input"])
        better = cure or _in_tables(key, holders) or _above(model, key, file=file) or inside or _near(key, holders)
        return f"there is no setting {key!r}{better}"
    if kind == "union_tag_invalid":
        known = re.findall(r"'([^']*)'", context["expected_tags"])
        return f"setting {key!r} cannot be {context['tag']!r}{hint(context['tag'], known)}"
    if kind in ("enum", "literal_error") and isinstance(problem["input"], str):
        known = re.findall(r"'([^']*)'", context["expected"])
        return f"setting {key!r} cannot be {problem['input']!r}{hint(problem['input'], known)}"
    if kind == "missing" and entry:
        return f"setting {key!r} must have more entries; got {problem['input']!r}"
    if kind in ("missing", "union_tag_not_found"):
        return f"setting {key!r} is missing{cure}"
    said = problem["msg"].removeprefix("Value error, ")
    what = f"each entry of {key!r}" if entry else f"setting {key!r}"
    if kind in ("model_type", "model_attributes_type"):
        rule = " must be a table of settings" if entry else f" is a table of settings{_first_of(key, holders)}"
    else:
        rule = rule_of(kind, said, context)
    whole = kind == "value_error" and isinstance(problem["input"], Mapping)  # the sentence says which of them is wrong
    got = "" if "; got " in rule or whole else f"; got {problem['input']!r}"
    return f"{what}{rule}{got}"


def _above(model: type[Config], key: str, *, file: bool) -> str:
    """Suggest the setting of this name outside all tables: ``steps`` for ``eval.steps``."""
    table, _, name = key.rpartition(".")
    if not table or name not in model.model_fields:
        return ""
    return f"; {name!r} belongs above the first [table]" if file else f"; did you mean {name!r}?"


def _inside(model: type[Config], key: str, given: Any) -> str:
    """Suggest settings of an unknown table that exist outside all tables: ``ratio_level`` for ``loss.ratio_level``."""
    names = [name for name in given if name in model.model_fields] if isinstance(given, Mapping) else []
    return f"; did you mean {' or '.join(map(repr, names))}?" if names and "." not in key else ""


def _first_of(key: str, holders: Iterable[type[Config]]) -> str:
    """Name a setting of the table ``key``, as an example of what can be set."""
    name = key.rpartition(".")[2]
    fields = (holder.model_fields[name] for holder in holders if name in holder.model_fields)
    kinds = (kind for field in fields for kind in config_types_in(field.annotation))
    first = next((f"{key}.{setting}" for kind in kinds for setting in kind.model_fields), None)
    return f": set one, such as {first!r}" if first else ""


def _near(key: str, holders: Sequence[type[Config]]) -> str:
    """Suggest settings of a similar name, in this table or one below, by their whole keys; or list this table's."""
    above, dot, name = key.rpartition(".")
    fields = [item for holder in holders for item in holder.model_fields.items()]
    here = {field: field for field, _ in fields}
    former = {old: new for holder in holders for old, new in former_names(holder).items() if len(old) > 1}
    below: dict[str, str] = {}
    for table, field in fields:
        for kind in config_types_in(field.annotation):
            below |= {each: f"{table}.{each}" for each in kind.model_fields if each not in below}
    for known in (here | former, below):
        if near := dict.fromkeys(known[each] for each in difflib.get_close_matches(name, known, n=2)):
            return f"; did you mean {' or '.join(repr(f'{above}{dot}{each}') for each in near)}?"
    return f"{LISTED}{', '.join(here)}"


def _in_tables(key: str, holders: Iterable[type[Config]]) -> str:
    """Suggest tables that have a setting of this name: ``optimizer.lr`` for ``lr``."""
    above, dot, name = key.rpartition(".")
    fields = ((table, field) for holder in holders for table, field in holder.model_fields.items())
    found = [
        table for table, field in fields if any(name in kind.model_fields for kind in config_types_in(field.annotation))
    ]
    return f"; did you mean {' or '.join(repr(f'{above}{dot}{table}.{name}') for table in found[:2])}?" if found else ""


def config_types_in(annotation: Any) -> tuple[type[Config], ...]:
    """Return the ``Config`` classes in a field's type: itself, a union's members, or a sequence's items."""
    if isinstance(annotation, type) and not get_args(annotation):
        return (annotation,) if issubclass(annotation, Config) else ()
    return tuple(kind for part in get_args(annotation) for kind in config_types_in(part))


def discriminator_of(kind: type[Config]) -> str:
    """Return the tag that distinguishes a member of a union, such as the only value of its ``name``; or nothing."""
    return next(iter(tag_of(kind).values()), "")


def tag_of(kind: type[Config]) -> dict[str, str]:
    """Return the setting that can have a single value only, and this value: the member of a union that a table is."""
    return {
        name: str(field.default)
        for name, field in kind.model_fields.items()
        if get_origin(field.annotation) is Literal and get_args(field.annotation) == (field.default,)
    }


def _walk(model: type[Config], location: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[type[Config], ...]]:
    """Return a location as a user would write it, without union tags, and the classes of table that contain its end."""
    place: list[Any] = []
    holders: tuple[type[Config], ...] = (model,)
    inside = holders
    for step in location:
        if len(inside) > 1 and step in map(discriminator_of, inside):
            inside = tuple(kind for kind in inside if discriminator_of(kind) == step)
            continue
        place.append(step)
        if not isinstance(step, int):
            holders = inside
            fields = [kind.model_fields[step] for kind in holders if step in kind.model_fields]
            inside = tuple(kind for field in fields for kind in config_types_in(field.annotation))
    return tuple(place), holders
