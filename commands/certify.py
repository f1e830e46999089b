"""``turnwise certify``: try every law of the contract on environments."""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Iterator
from typing import Annotated

import typer

from ..envs.certify.certify import LAWS
from ..envs.certify.certify import certify as try_laws
from ..envs.certify.report import Certificate, Status, Verdict
from ..envs.named import environment
from ..envs.registry import entries, find
from ..errors import EnvironmentDiedError, UsageError
from .apart import apart
from .completion import environment_ids
from .terminal import complain, remark, screen

LOG = logging.getLogger(__name__)
FEW, SLOW = 3, 5.0
"""With more environments than a few, progress lists only the laws that took at least so many seconds."""

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...",
        help="Ids, or Python files that register one.",
        show_default=False,
        autocompletion=environment_ids,
    ),
]


def certify(
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--all", help="Every registered environment.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer tasks and shorter episodes.")] = False,
    law: Annotated[list[str] | None, typer.Option(help="Only this law; may be repeated.")] = None,
    laws: Annotated[bool, typer.Option("--laws", help="List the laws, and try none.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Where the sampled seeds begin.")] = 0,
    minutes: Annotated[
        float, typer.Option(min=0, help="Time for each environment; laws that do not fit are skipped. 0: no limit.")
    ] = 10.0,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes (all cores if not said).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Try every law of the contract, and report what breaks it: the author's line, the cure, and a seed that shows it.

    Causes come first: laws that would only repeat a broken one are skipped. Progress goes to standard error, a line
    per law. Exit code 1 if a law is broken. Environments run in processes of their own.

    Examples:

        turnwise certify turnwise/Maze-v0 --quick

        turnwise certify my_env.py

        turnwise certify --all -j 2
    """
    if laws:
        for known in LAWS:
            typer.echo(f"{known.name}: {known.about}")
        return
    if bool(ids) == everything:
        raise UsageError("which environments? name ids, or --all for every one")
    names = list(dict.fromkeys(ids or [entry.id for entry in entries()]))
    skipped = {name: why for name in names if everything and (why := find(name).lacks)}
    for name, why in skipped.items():
        complain(f"{name} is NOT certified: it {why}")
    for name in ids or []:
        environment(name)  # a wrong name is said before anything is tried
    certificates = []
    chosen = [name for name in names if name not in skipped]
    for certificate in tried(chosen, quick, law or [], seed, jobs or os.cpu_count() or 1, minutes=minutes):
        certificates.append(certificate)
        for verdict in certificate.verdicts:
            if verdict.traceback:
                LOG.debug("%s", verdict.traceback)
        if not as_json:
            screen().print(str(certificate), markup=False, style=None if certificate.passed else "red")
    if as_json:
        typer.echo(json.dumps([certificate.to_json() for certificate in certificates], indent=2))
    elif len(certificates) > 1:
        passed = sum(certificate.passed for certificate in certificates)
        screen().print(f"{passed} of {len(certificates)} environments are certified")
    if not all(certificate.passed for certificate in certificates):
        raise typer.Exit(1)


def tried(
    names: list[str], quick: bool, laws: list[str], seed: int, jobs: int, *, minutes: float = 0.0
) -> Iterator[Certificate]:
    """Yield certificates as they come, each made in a process that makes no other; report each law on the way.

    Args:
        names: of the environments.
        quick: as of ``certify``.
        laws: only these.
        seed: where the sampled seeds begin.
        jobs: how many processes at once.
        minutes: time for each environment; 0 for no limit.
    """
    least = 0.0 if len(names) <= FEW else SLOW
    for (name, *_), found in apart(one, [(name, quick, tuple(laws), seed, minutes, least) for name in names], jobs):
        if isinstance(found, EnvironmentDiedError):
            died = Verdict("survives", "an environment does not end its process", Status.FAIL, str(found))
            yield Certificate(name, (died,))
        elif isinstance(found, Exception):
            raise found
        else:
            yield found


def one(name: str, quick: bool, laws: tuple[str, ...], seed: int, minutes: float, least: float) -> Certificate:
    """Make one certificate, in a child, which imports the environment's file by itself."""
    os.dup2(2, 1)  # standard output carries certificates, and an environment may print
    numbers, total = itertools.count(1), len(laws) or len(LAWS)

    def report(verdict: Verdict) -> None:
        number = next(numbers)
        if verdict.seconds >= least:
            remark().print(f"{name} {number}/{total} {verdict.status} {verdict.law} {verdict.seconds:.1f} s")

    return try_laws(
        environment(name), quick=quick, laws=laws, seed=seed, on_verdict=report, seconds=60 * minutes or None
    )
