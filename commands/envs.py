"""``turnwise envs``: which environments exist."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..envs.registry import Entry, entries, make, nearest
from ..errors import UnknownEnvironmentError, UsageError
from .terminal import screen

MANY = 10
"""Environments of one class, if there are more of them, share one line in the short list."""


@dataclass(frozen=True, slots=True)
class Row:
    """What there is to say about one environment.

    Args:
        id: ``namespace/Name-vN``.
        source: the distribution that registers it.
        kind: ``turn`` or ``tool``.
        levels: the levels of its tasks.
        splits: the splits of its tasks.
        turns: after how many actions an episode is truncated, on the lowest and the highest level.
        summary: the first line of its docstring.
        problem: why it cannot be made here, e.g. a missing extra.
    """

    id: str
    source: str
    kind: str = ""
    levels: tuple[int, ...] = ()
    splits: tuple[str, ...] = ()
    turns: tuple[int, ...] = ()
    summary: str = ""
    problem: str | None = None


def envs(
    pattern: Annotated[str, typer.Argument(help="Part of an id, or a pattern such as '*Maze*'.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """List the environments that are registered: Turnwise's own and those of installed packages.

    Without a pattern, each is one line. With a pattern, the list has levels, splits and turn limits too.

    Examples:

        turnwise envs

        turnwise envs maze

        turnwise envs 'demo/*' --json
    """
    found = [entry for entry in entries() if matches(entry.id, pattern)]
    if not found:
        near = nearest(pattern, [entry.id for entry in entries()])
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise UnknownEnvironmentError(f"no environment matches {pattern!r}.{hint}")
    if as_json:
        typer.echo(json.dumps([asdict(describe(entry)) for entry in found], indent=2))
    elif pattern:
        screen().print(listed([describe(entry) for entry in found]))
    else:
        _print_short(found)


def _print_short(found: list[Entry]) -> None:
    """Print a line per environment, per large family and per reason why several cannot be made."""
    rows, lines = folded([row for family in families(found) for row in briefly(family)])
    table = Table(box=None, header_style="bold")
    for name in ("id", "what it is"):
        table.add_column(name, no_wrap=True)
    for row in sorted(rows, key=lambda row: row.id):
        table.add_row(row.id, Text(row.problem, "yellow") if row.problem else row.summary)
    screen().print(table)
    for line in lines:
        screen().print(Text(line, "yellow"), soft_wrap=True)
    screen().print("`turnwise envs maze` shows levels, splits and turn limits.", markup=False)


def families(found: list[Entry]) -> list[list[Entry]]:
    """Group the entries by class, package and extra."""
    groups: dict[object, list[Entry]] = {}
    for entry in found:
        groups.setdefault((entry.entry_point, entry.source, entry.extra), []).append(entry)
    return list(groups.values())


def briefly(family: list[Entry]) -> list[Row]:
    """Return a row for each environment of a class, or a single one if there are many.

    What lacks an extra is not made. Of the others each is made, but no episode begins.
    """
    if any(entry.lacks for entry in family):
        return [Row(entry.id, entry.source, problem=entry.lacks) for entry in family]
    if len(family) <= MANY:
        return [_made(entry, _brief) for entry in family]
    first = _made(family[0], _brief)
    if first.problem:
        return [replace(first, id=entry.id) for entry in family]
    return [replace(first, id=f"{first.id} and {len(family) - 1} more")]


def folded(rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Separate what cannot be made here for a reason that it shares with others, as one line per reason."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        if row.problem:
            reasons.setdefault(row.problem.replace(row.id, "").strip(), []).append(row)
    shared = {reason: alike for reason, alike in reasons.items() if len(alike) > 1}
    hidden = {row.id for alike in shared.values() for row in alike}
    lines = [
        f"{len(alike)} more, {alike[0].id} to {alike[-1].id}: {reason} (`turnwise envs '*'` lists them)"
        for reason, alike in shared.items()
    ]
    return [row for row in rows if row.id not in hidden], lines


def listed(rows: list[Row]) -> Table:
    """The rows as a table; what cannot be made is yellow."""
    table = Table(box=None, header_style="bold")
    for name in ("id", "levels", "splits", "turns", "what it is", "from"):
        table.add_column(name, no_wrap=name == "id")
    for row in rows:
        splits = " ".join(split.removeprefix("test_") for split in row.splits)
        text = Text(row.problem, "yellow") if row.problem else Text(row.summary)
        table.add_row(row.id, span(row.levels), splits, span(row.turns), text, row.source)
    return table


def matches(id: str, pattern: str) -> bool:
    """Whether a pattern names an id: as a glob where it has a wildcard, as a part otherwise; case does not matter."""
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatch(id.lower(), pattern.lower())
    return pattern.lower() in id.lower()


def describe(entry: Entry) -> Row:
    """The row of one environment; what cannot be made or begun is listed too, with the reason."""
    return _made(entry, _described)


def _made(entry: Entry, row_of: Callable[[Entry, Any], Row]) -> Row:
    """Make an environment for its row. If that fails, the row has the reason."""
    try:
        env = make(entry.id)
        try:
            return row_of(entry, env.unwrapped)
        finally:
            env.close()
    except UsageError as error:
        return Row(entry.id, entry.source, problem=str(error))
    except Exception as error:
        return Row(entry.id, entry.source, problem=f"{type(error).__name__}: {error}")


def _brief(entry: Entry, env: Any) -> Row:
    return Row(entry.id, entry.source, summary=summary(env))


def _described(entry: Entry, env: Any) -> Row:
    family = env.tasks()
    return Row(
        id=entry.id,
        source=entry.source,
        kind="tool" if env.tools else "turn",
        levels=tuple(family.levels),
        splits=tuple(str(split) for split in family.splits),
        turns=tuple(limit(env, level) for level in (family.levels[0], family.levels[-1])),
        summary=summary(env),
        problem=entry.lacks,
    )


def summary(env: Any) -> str:
    """Return the first line of the docstring of an environment's class."""
    return (type(env).__doc__ or "").strip().split("\n")[0].replace("``", "")


def limit(env: Any, level: int) -> int:
    """The turn limit of an episode of a level: some environments choose it by the task."""
    known = env.turns_at(level)
    if known is None:
        env.reset(seed=0, options={"level": level})
    return int(known or env.max_turns)


def span(numbers: tuple[int, ...]) -> str:
    """``1–5``, or ``3`` where all are the same."""
    return "–".join(map(str, sorted({numbers[0], numbers[-1]}))) if numbers else ""
