"""Words for what is wrong with a setting, and the line of a file that it stands in."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

LISTED = "; choose from "
"""Text between a wrong setting and the list of valid ones."""
TYPES = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "dict": "a table",
    "list": "a list in brackets",
    "tuple": "a list in brackets",
    "string": "text",
}
"""Words for the type of a setting, by pydantic's name of it."""


def value_of(text: str) -> Any:
    """Return the value of an override: TOML's, or the text if it is not a value of TOML."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def contradiction(given: Iterable[tuple[str, str]]) -> str | None:
    """Return a sentence about the first setting that a command line sets to two values, or None.

    Args:
        given: each option and word as the user wrote it, and the override that it means.
    """
    before: dict[str, tuple[str, list[Any]]] = {}
    for written, override in given:
        key, _, text = override.partition("=")
        first, value = before.setdefault(key.strip(), (written, _comparable(text)))
        if value != _comparable(text):
            return f"{first} contradicts {written}; set one of them"
    return None


def _comparable(text: str) -> list[Any]:
    """Return the items of a value, in which 1 is the number 1.0, and ``1,2`` is the list ``[1, 2]``."""
    value = value_of(text)
    items = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else [value]
    return [_number(item.strip() if isinstance(item, str) else item) for item in items]


def _number(item: Any) -> Any:
    try:
        number = float(item)
    except (TypeError, ValueError):
        return item
    return item if isinstance(item, bool) else "nan" if math.isnan(number) else number  # nan does not equal itself


def rule_of(kind: str, said: str, context: Mapping[str, Any]) -> str:
    """Return what a setting has to be, from the kind of a problem, pydantic's sentence about it, and its bounds."""
    what, _, problem = kind.partition("_")
    if what in TYPES and problem in ("type", "parsing", "parsing_size", "from_float"):
        return f" must be {TYPES[what]}"
    if kind in ("too_long", "too_short"):
        bound = f"at most {context['max_length']}" if kind == "too_long" else f"at least {context['min_length']}"
        return f" must have {bound} entries"
    must = said.removeprefix("Input should ")
    return f" must {must}" if must != said else f": {said}"


def hint(wrong: str, known: Sequence[str]) -> str:
    """Suggest the nearest of the known names, or list all of them."""
    near = difflib.get_close_matches(wrong, known, n=2)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else f"{LISTED}{', '.join(known)}"


def listed_once(said: Sequence[str]) -> Iterator[str]:
    """Yield the problems, but list the valid settings only once."""
    seen: set[str] = set()
    for text in said:
        head, _, known = text.partition(LISTED)
        yield head if known and known in seen else text
        seen.add(known)


def malformed(source: str, error: tomllib.TOMLDecodeError) -> str:
    """Return what is wrong with a TOML file; of a key that is set twice, its name."""
    at = re.fullmatch(r"Cannot overwrite a value \(at (?:line (\d+), column \d+|end of document)\)", str(error))
    lines = source.splitlines()
    number = int(at[1] or len(lines)) if at else 0
    key = re.match(r"\s*([^=\[\]#]+?)\s*=", lines[number - 1]) if 0 < number <= len(lines) else None
    return f"line {number}: {key[1]} is set twice" if key else str(error)


def line_of(source: str, location: tuple[Any, ...]) -> int | None:
    """Find the line of a key by walking through the tables; approximate, for error messages."""
    *tables, last = [step for step in location if isinstance(step, str)] or [""]
    table = ""
    for number, line in enumerate(source.splitlines(), 1):
        header = re.match(r"\s*\[+([^\]]+)\]", line)
        if header:
            table = header.group(1).strip()
            if table == ".".join([*tables, last]):
                return number
        elif table == ".".join(tables) and re.match(rf"\s*[\"']?{re.escape(last)}[\"']?\s*=", line):
            return number
    return None
