"""``turnwise envs``: which environments exist."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..envs.adapters.peers import PEERS
from ..envs.messages import clip
from ..envs.named import from_file, unregistered
from ..envs.registry import Entry, entries, make, nearest
from ..errors import UnknownEnvironmentError, UsageError
from ..logs import masked
from .terminal import screen

MANY = 10
"""If a class has more environments than this, they share one line in the short list."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the list of environments.

    Args:
        id: ``namespace/Name-vN``.
        source: the distribution that registers it.
        kind: ``turn`` or ``tool``.
        levels: the levels of its tasks.
        splits: the splits of its tasks.
        turns: turn limits of an episode on the lowest and the highest level.
        summary: the first line of its docstring.
        problem: the reason why it cannot be created here, e.g. a missing extra.
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
    pattern: Annotated[
        str, typer.Argument(help="Part of an id, a pattern such as '*Maze*', or a Python file that registers some.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List registered environments: Turnwise's own, those of installed packages, or those of a file.

    Without a pattern, each takes one line. With a pattern or a file, the list has levels, splits and turn limits, too.

    Examples:

        turnwise envs

        turnwise envs maze

        turnwise envs 'demo/*' --json

        turnwise envs my_env.py
    """
    found = _found(pattern)
    if not found:
        if peer := PEERS.get(name := pattern.partition("/")[0]):
            raise UnknownEnvironmentError(
                f"the environments of {name} are not listed, but have ids, such as {peer.example}: see "
                "docs/bring_an_environment.md"
            )
        near = nearest(pattern, [entry.id for entry in entries()])
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise UnknownEnvironmentError(f"no environment matches {pattern!r}.{hint}")
    if as_json:
        typer.echo(json.dumps([asdict(describe(entry)) for entry in found], indent=2))
    elif pattern:
        screen().print(listed([describe(entry) for entry in found]))
    else:
        _print_short(found)


def _found(pattern: str) -> list[Entry]:
    """Return the environments that match a pattern, or those that a Python file registers.

    Raises:
        UsageError: the file cannot be imported, or registers none.
    """
    place, _, wanted = pattern.partition(":")
    path = Path(place)
    if path.suffix != ".py":
        return [entry for entry in entries() if matches(entry.id, pattern)]
    ids = from_file(path)
    if not ids:
        raise UsageError(f"{path} has no environment: {unregistered(path)}")
    return [entry for entry in entries() if entry.id in ids and matches(entry.id, wanted)]


def _print_short(found: list[Entry]) -> None:
    """Print a line per environment, per large family, and per reason why several cannot be created."""
    rows, lines = folded([row for family in families(found) for row in briefly(family)])
    table = Table(box=None, header_style="bold")
    for name in ("id", "what it is"):
        table.add_column(name, no_wrap=True)
    for row in sorted(rows, key=lambda row: row.id):
        table.add_row(row.id, Text(row.problem, "yellow") if row.problem else Text(row.summary))
    screen().print(table)
    for line in lines:
        screen().print(Text(line, "yellow"), soft_wrap=True)
    screen().print("`turnwise envs maze` shows levels, splits and turn limits.", markup=False)
    others = ", ".join(f"{name}/…" for name in PEERS)
    screen().print(
        f"Not listed, but accepted: {others}, harbor:PATH, nemo://…, openenv://…, turnwise://…", markup=False
    )


def families(found: list[Entry]) -> list[list[Entry]]:
    """Group the entries by class, package and extra."""
    groups: dict[object, list[Entry]] = {}
    for entry in found:
        groups.setdefault((entry.entry_point, entry.source, entry.extra), []).append(entry)
    return list(groups.values())


def briefly(family: list[Entry]) -> list[Row]:
    """Return a row for each environment of a class, or a single one if there are many.

    Environments that lack an extra are not created. The others are, but no episode starts.
    """
    if any(entry.lacks for entry in family):
        return [Row(entry.id, entry.source, problem=entry.lacks) for entry in family]
    if len(family) <= MANY:
        return [_made(entry, _brief) for entry in family]
    first = _made(replace(family[0], kwargs={}), _brief)  # the line stands for all of them, whatever their arguments
    if first.problem:
        return [replace(first, id=entry.id) for entry in family]
    return [replace(first, id=f"{first.id} and {len(family) - 1} more")]


def folded(rows: list[Row]) -> tuple[list[Row], list[str]]:
    """Separate environments that cannot be created here for a shared reason, and return one line per reason."""
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
    """Return the rows as a table; environments that cannot be created are yellow."""
    table = Table(box=None, header_style="bold")
    for name in ("id", "levels", "splits", "turns", "what it is", "from"):
        table.add_column(name, no_wrap=name == "id")
    for row in rows:
        text = Text(row.problem, "yellow") if row.problem else Text(row.summary)
        table.add_row(row.id, span(row.levels), " ".join(row.splits), span(row.turns), text, row.source)
    return table


def matches(id: str, pattern: str) -> bool:
    """Whether a pattern matches an id: as a glob if it has a wildcard, otherwise as a substring; ignores case."""
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatch(id.lower(), pattern.lower())
    return pattern.lower() in id.lower()


def describe(entry: Entry) -> Row:
    """Return the row of one environment; if it cannot be created or started, the row has the reason."""
    return _made(entry, _described)


def _made(entry: Entry, row_of: Callable[[Entry, Any], Row]) -> Row:
    """Create an environment for its row. If that fails, the row has the reason."""
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
    return Row(entry.id, entry.source, summary=_summary(entry, env))


def _described(entry: Entry, env: Any) -> Row:
    family = env.tasks()
    return Row(
        id=entry.id,
        source=entry.source,
        kind="tool" if env.tools else "turn",
        levels=tuple(family.levels),
        splits=tuple(str(split) for split in family.splits),
        turns=tuple(limit(env, level) for level in (family.levels[0], family.levels[-1])),
        summary=_summary(entry, env),
        problem=entry.lacks,
    )


def _summary(entry: Entry, env: Any) -> str:
    """Return the first line of the docstring of an environment's class, and the arguments that the id gives to it."""
    line = (type(env).__doc__ or "").strip().split("\n")[0].replace("``", "")
    given = ", ".join(f"{name}={value}" for name, value in masked(entry.kwargs).items())
    return f"({clip(given)}) {line}" if given else line


def limit(env: Any, level: int) -> int:
    """Return the turn limit of episodes on a level; some environments choose it by task."""
    known = env.turns_at(level)
    if known is None:
        env.reset(seed=0, options={"level": level})
    return int(known or env.max_turns)


def span(numbers: tuple[int, ...]) -> str:
    """Return ``1–5``, or ``3`` if all numbers are equal."""
    return "–".join(map(str, sorted({numbers[0], numbers[-1]}))) if numbers else ""
