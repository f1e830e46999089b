"""``turnwise certify``: check environments against every law of the contract."""

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
from ..envs.certify.report import Certificate, Verdict
from ..envs.named import environment
from ..envs.registry import entries, find
from ..errors import EnvironmentDiedError, UsageError
from ..verdicts import Status
from .completion import environment_ids
from .subprocess_map import subprocess_map
from .terminal import complain, remark, screen

LOG = logging.getLogger(__name__)
FEW, SLOW = 3, 5.0
"""With more than ``FEW`` environments, progress lists only the laws that took at least ``SLOW`` seconds."""

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
    everything: Annotated[bool, typer.Option("--all", help="Certify every registered environment.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer tasks and shorter episodes.")] = False,
    law: Annotated[list[str] | None, typer.Option(help="Check only this law; may be repeated.")] = None,
    laws: Annotated[bool, typer.Option("--laws", help="List the laws and exit.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="First of the sampled seeds.")] = 0,
    minutes: Annotated[
        float, typer.Option(min=0, help="Time limit for each environment; skips laws that do not fit. 0: no limit.")
    ] = 10.0,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes (default: all cores).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check environments against the contract, and report each violation with its line, its cure and a seed.

    Laws that would only repeat a violation are skipped, so causes come first. Progress goes to standard error, one line
    per law. The exit code is 1 if an environment violates a law. Each environment runs in its own process.

    Examples:

        turnwise certify turnwise/Maze-v0 --quick

        turnwise certify my_env.py

        turnwise certify turnwise://gpu-7.example:8765/turnwise/Maze-v0

        turnwise certify --all -j 2
    """
    if laws:
        for known in LAWS:
            typer.echo(f"{known.name}: {known.about}")
        return
    if bool(ids) == everything:
        raise UsageError("name at least one environment to certify, or use --all (not both)")
    names = list(dict.fromkeys(ids or [entry.id for entry in entries()]))
    skipped = {name: why for name in names if everything and (why := find(name).lacks)}
    for name, why in skipped.items():
        complain(f"{name} is NOT certified: it {why}")
    for name in ids or []:
        environment(name)  # report a wrong name before the first check
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
    """Yield certificates as they are finished, each from its own process, and report each law on the way.

    Args:
        names: ids of the environments.
        quick: whether to use fewer tasks and shorter episodes.
        laws: names of the laws to check; empty for all.
        seed: first of the sampled seeds.
        jobs: number of processes at a time.
        minutes: time for each environment; 0 for no limit.
    """
    least = 0.0 if len(names) <= FEW else SLOW
    for (name, *_), found in subprocess_map(
        one, [(name, quick, tuple(laws), seed, minutes, least) for name in names], jobs
    ):
        if isinstance(found, EnvironmentDiedError):
            died = Verdict("survives", "an environment does not end its process", Status.FAIL, str(found))
            yield Certificate((died,), name)
        elif isinstance(found, Exception):
            raise found
        else:
            yield found


def one(name: str, quick: bool, laws: tuple[str, ...], seed: int, minutes: float, least: float) -> Certificate:
    """Make one certificate in a child process, which imports the environment's file itself."""
    os.dup2(2, 1)  # standard output carries certificates, and an environment may print
    numbers, total = itertools.count(1), len(laws) or len(LAWS)

    def report(verdict: Verdict) -> None:
        number = next(numbers)
        if verdict.seconds >= least:
            remark().print(f"{name} {number}/{total} {verdict.status} {verdict.law} {verdict.seconds:.1f} s")

    return try_laws(
        environment(name), quick=quick, laws=laws, seed=seed, on_verdict=report, seconds=60 * minutes or None
    )
