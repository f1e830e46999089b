"""``turnwise sandbox``: list the sandboxes that work here, check them, and remove what dead ones left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from ..errors import UsageError
from ..sandboxes.backend import Backend, Capabilities, Enforcement, Reaped
from ..sandboxes.check.check import CASES, check, chosen_cases
from ..sandboxes.check.harness import held_as
from ..sandboxes.check.report import Report, Verdict
from ..sandboxes.named import BY_ITSELF, backend_named, backend_names
from ..sandboxes.spec import Limit
from ..verdicts import Status
from .terminal import complain, remark, resumable, screen

T = TypeVar("T")
ACTIONS = ("check", "list", "reap")
COLORS: dict[StrEnum, str] = {
    Status.PASS: "green",
    Status.FAIL: "red",
    Status.SKIP: "yellow",
    Enforcement.ENFORCED: "green",
    Enforcement.BEST_EFFORT: "yellow",
    Enforcement.ABSENT: "red",
}


def sandbox(
    action: Annotated[str, typer.Argument(metavar="check|list|reap", help="Action to take.")],
    backend: Annotated[
        str | None, typer.Argument(metavar="[BACKEND]", help="bubblewrap, docker, podman, …", show_default=False)
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="check: run only this case, by number or name; may be repeated.")
    ] = None,
    cases: Annotated[bool, typer.Option("--cases", help="check: list the cases and exit.")] = False,
    kills: Annotated[int, typer.Option(min=1, help="check: number of times to kill a sandbox's owner.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the sandboxes that work here (list), test one (check), or remove what dead processes left behind (reap).

    check runs hostile code on this machine, inside the sandbox. The exit code is 1 if a case fails.

    Examples:

        turnwise sandbox list

        turnwise sandbox check bubblewrap

        turnwise sandbox check docker --case 12 --case 'fork bomb'

        turnwise sandbox reap
    """
    if action not in ACTIONS:
        raise UsageError(f"unknown action: turnwise sandbox {action}; choose from {', '.join(ACTIONS)}")
    if backend is not None and backend not in backend_names():
        backend_named(backend)
    if action == "check" and cases:
        for known in CASES:
            typer.echo(f"{known.number:>3}  {known.name}: {known.about}")
    elif action == "check":
        checked(backend, case or [], kills, as_json)
    elif action == "list":
        probed([backend] if backend else backend_names(), as_json)
    else:
        reaped([backend] if backend else backend_names(), as_json)


def checked(name: str | None, cases: list[str], kills: int, as_json: bool) -> None:
    """Check a backend, or by default all that work here; exit with code 1 if a case fails."""
    chosen_cases(cases)
    reports = []
    for each in [name] if name else asyncio.run(available(BY_ITSELF)):
        with resumable("An interrupted check keeps nothing; turnwise sandbox reap removes what is left."):
            reports.append(asyncio.run(_checked(each, cases, kills, as_json)))
    if as_json:
        typer.echo(json.dumps([report.to_json() for report in reports], indent=2))
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


async def _checked(name: str, cases: list[str], kills: int, quiet: bool) -> Report:
    def announce(verdict: Verdict) -> None:
        remark().print(f"{verdict.number:>3} {verdict.name}: {verdict.status}", style=COLORS[verdict.status])

    made = backend_named(name)
    try:
        report = await check(made, cases=cases, kills=kills, on_verdict=None if quiet else announce)
    finally:
        await made.close()
    if not quiet:
        screen().print(verdicts(report))
        screen().print(str(report), markup=False, style="green" if report.passed else "red")
    return report


async def available(names: Sequence[str]) -> list[str]:
    """Return the names of the backends that work here.

    Raises:
        UsageError: none works; the message says what each lacks.
    """
    found = await _each(names, lambda backend: backend.probe())
    usable = [name for name, each in found.items() if each.available]
    if not usable:
        lacks = "; ".join(f"{name}: {each.why}" for name, each in found.items())
        raise UsageError(f"no sandbox works here: {lacks}")
    return usable


def verdicts(report: Report) -> Table:
    """Return the report as a table of cases, verdicts and evidence."""
    table = Table(title=Text(f"{report.capabilities.backend}: {report.capabilities.why}"), header_style="bold")
    table.add_column("case", justify="right")
    table.add_column("what is tried", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("evidence", ratio=4)
    table.add_column("s", justify="right")
    for verdict in report.verdicts:
        said = Text(verdict.status, COLORS[verdict.status])
        row = (str(verdict.number), Text(verdict.about), said, Text(verdict.evidence), f"{verdict.seconds:.1f}")
        table.add_row(*row)
    return table


def probed(names: Sequence[str], as_json: bool) -> None:
    """Print what each backend can do here, and how well it enforces each limit."""
    found = asyncio.run(_each(names, lambda backend: backend.probe()))
    if as_json:
        typer.echo(json.dumps([_plain(each) for each in found.values()], indent=2))
        return
    for each in found.values():
        state = "works here" if each.available else "does not work here"
        absent = [str(limit) for limit in Limit if each.available and held_as(each, limit) is Enforcement.ABSENT]
        without = f", without limits on {', '.join(absent)}" if absent else ""
        kind = "" if each.confines else ", confines nothing: for trusted code only"
        screen().print(Text(f"{each.backend}: {state}{without}{kind}", "bold"), soft_wrap=True)
        for line in (each.why, *each.notes):
            screen().print(Text(f"  {line}"), soft_wrap=True)
        if each.available:
            screen().print(limits(each))


def limits(found: Capabilities) -> Table:
    """Return a table of the limits that a backend enforces here, and how."""
    table = Table(header_style="bold")
    for name in ("limit", "holds", "how"):
        table.add_column(name)
    for limit in Limit:
        held = held_as(found, limit)
        how = found.limits[limit].how if limit in found.limits else "not declared"
        table.add_row(str(limit), Text(held, COLORS[held]), Text(how))
    return table


def reaped(names: Sequence[str], as_json: bool) -> None:
    """Remove what dead owners left behind, for every backend that works here."""

    async def sweep(backend: Backend) -> Reaped | None:
        return await backend.reap() if (await backend.probe()).available else None

    found = asyncio.run(_each(names, sweep))
    if as_json:
        typer.echo(json.dumps({name: asdict(each) for name, each in found.items() if each}, indent=2))
        return
    for name, each in found.items():
        if each is None:
            complain(f"{name} does not work here; nothing was searched")
        else:
            counted = ", ".join(f"{number} {what}" for what, number in asdict(each).items())
            screen().print(f"{name}: removed {counted}")


async def _each(names: Iterable[str], work: Callable[[Backend], Awaitable[T]]) -> dict[str, T]:
    """Call ``work`` with each backend, close the backend, and return the results by name."""
    found = dict[str, T]()
    for name in names:
        backend = backend_named(name)
        try:
            found[name] = await work(backend)
        finally:
            await backend.close()
    return found


def _plain(found: Capabilities) -> dict[str, object]:
    held = {str(limit): {"holds": str(each.enforcement), "how": each.how} for limit, each in found.limits.items()}
    return {**asdict(found), "limits": held}
