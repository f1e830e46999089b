"""``turnwise certify``: check environments against every law of the contract."""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
import typer
from gymnasium.envs.registration import load_env_creator

from ..config import Config, load_config
from ..envs.certify.certify import LAWS
from ..envs.certify.certify import certify as try_laws
from ..envs.certify.report import Certificate, Verdict
from ..envs.contract import Contract
from ..envs.named import environment
from ..envs.registry import entries, find, make
from ..errors import EnvironmentDiedError, EnvironmentFailedError, UsageError
from ..verdicts import Status, choose
from .certificates import CertificateFile
from .completion import environment_ids
from .subprocess_map import subprocess_map
from .terminal import complain, remark, resumable, screen

LOG = logging.getLogger(__name__)
FEW, SLOW = 3, 5.0
"""With more than ``FEW`` environments, progress lists only the laws that took at least ``SLOW`` seconds."""


class CertifyConfig(Config):
    """Settings of ``turnwise certify``, as ``key=value`` on its command line."""

    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Arguments of the environments."""


@dataclass(frozen=True)
class _How:
    """The options of a certification.

    Args:
        quick: whether to use fewer tasks and shorter episodes.
        seed: first of the sampled seeds.
        minutes: time for each environment; 0 for no limit.
        env_kwargs: arguments of the environments.
    """

    quick: bool
    seed: int
    minutes: float
    env_kwargs: Mapping[str, Any]


Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...",
        help="Ids, or Python files that register one, and arguments of the environments: env_kwargs.KEY=VALUE.",
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
    out: Annotated[
        Path | None, typer.Option(help="Also write certificates to this file, as JSON lines, as they are finished.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Try only laws that the file of --out has not settled: new or broken ones.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check environments against the contract, and report each violation with its line, its cure and a seed.

    Laws that would only repeat a violation are skipped, so causes come first. Progress goes to standard error, one line
    per law. The exit code is 1 if an environment violates a law. Each environment runs in its own process.

    An environment takes between seconds and the limit of --minutes. --all --quick took 2.5 hours of calls on a busy
    machine: do it in parts, with --out and --resume. Laws that did not fit into the time are tried in the next part.

    Examples:

        turnwise certify turnwise/Maze-v0 --quick

        turnwise certify my_env.py

        turnwise certify turnwise://gpu-7.example:8765/turnwise/Maze-v0

        turnwise certify harbor:my-tasks env_kwargs.offline=true

        turnwise certify --all --quick --minutes 20 -j 2 --out certificates.jsonl --resume
    """
    if laws:
        for known in LAWS:
            typer.echo(f"{known.name}: {known.about}")
        return
    names, env_kwargs = _with_arguments(ids or [])
    chosen = _chosen(names, everything, env_kwargs)
    kept = _kept(out, quick, seed, resume, env_kwargs)
    wanted = [known.name for known in choose(law or [], {known.name: known for known in LAWS}, "law")]
    untried = {name: kept.unsettled(name, wanted) if kept else wanted for name in chosen}
    found = _certified(untried, kept, _How(quick, seed, minutes, env_kwargs), jobs)
    hint = f"Settled laws are in {out}: add --resume to the same command." if out else "Only --out keeps verdicts."
    with resumable(hint):
        certificates = _shown(found, len(chosen), as_json)
    _conclude(certificates, as_json)


def _shown(found: Iterable[tuple[str, Certificate]], chosen: int, as_json: bool) -> list[Certificate]:
    """Print each certificate as it comes, unless JSON is wanted, and return all of them."""
    certificates = []
    for name, certificate in found:
        certificates.append(certificate)
        for verdict in filter(lambda verdict: verdict.traceback, certificate.verdicts):
            LOG.debug("%s", verdict.traceback)
        if not as_json:
            screen().print(str(certificate), markup=False, style=None if certificate.passed else "red")
        if chosen > FEW:
            remark().print(f"{len(certificates)} of {chosen} environments: {name}", markup=False)
    return certificates


def _with_arguments(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names of environments among the words of a command line, and the arguments of these environments."""
    settings = [word for word in words if word.startswith("env_kwargs.")]
    for word in words:
        if "=" in word and word not in settings and not Path(word).exists():
            raise UsageError(f"{word!r} is not the id of an environment; write its arguments as env_kwargs.KEY=VALUE")
    return [word for word in words if word not in settings], load_config(CertifyConfig, overrides=settings).env_kwargs


def _chosen(ids: list[str], everything: bool, env_kwargs: Mapping[str, Any] | None = None) -> list[str]:
    """Return what to certify; report ids of ``--all`` whose packages are missing, or that are exempt from every law."""
    if bool(ids) == everything:
        raise UsageError("name at least one environment to certify, or use --all (not both)")
    if everything and env_kwargs:
        raise UsageError("env_kwargs are arguments of environments that you name; --all takes none")
    for name in ids:
        id = environment(name)  # report a wrong name, or a wrong argument, before the first check
        if env_kwargs:
            try:
                make(id, **env_kwargs).close()
            except EnvironmentFailedError as error:
                raise UsageError(f"{id} cannot be made with {dict(env_kwargs)}: {error.__cause__ or error}") from None
    names = list(dict.fromkeys(ids or [entry.id for entry in entries()]))
    skipped = {name: why for name in names if everything and (why := find(name).lacks)}
    for name, why in skipped.items():
        complain(f"{name} is NOT certified: it {why}")
    exempt = {name: why for name in names if everything and name not in skipped and (why := _exempt(name))}
    for why, count in Counter(exempt.values()).items():
        remark().print(f"{count} environments are exempt from every law: {why}", markup=False)
    return [name for name in names if name not in skipped and name not in exempt]


def _exempt(name: str) -> str:
    """Return why one of Turnwise's own ids is exempt from every law; others are imported in their own process alone."""
    entry = find(name)
    if entry.source != "turnwise" or not isinstance(entry.entry_point, str):
        return ""
    try:
        contract: Contract = getattr(load_env_creator(entry.entry_point), "contract", Contract())
    except ImportError:  # the law ``begins`` reports it
        return ""
    return contract.exempt.get("all", "")


def _kept(
    out: Path | None, quick: bool, seed: int, resume: bool, env_kwargs: Mapping[str, Any]
) -> CertificateFile | None:
    if out is not None:
        laws = [known.name for known in LAWS]
        return CertificateFile(out, laws, quick=quick, seed=seed, resume=resume, env_kwargs=env_kwargs)
    if resume:
        raise UsageError("--resume needs the file of an earlier certification: name it with --out")
    return None


def _conclude(certificates: Sequence[Certificate], as_json: bool) -> None:
    """Print the end of a certification; exit with code 1 if a law is broken."""
    passed = sum(certificate.passed for certificate in certificates)
    unsettled = sum(bool(certificate.unsettled) for certificate in certificates)
    if as_json:
        typer.echo(json.dumps([certificate.to_json() for certificate in certificates], indent=2))
    elif len(certificates) > 1:
        rest = f"; {unsettled} of all have laws that were not tried to the end" if unsettled else ""
        screen().print(f"{passed} of {len(certificates)} environments are certified{rest}")
    if passed < len(certificates):
        raise typer.Exit(1)


def _certified(
    untried: Mapping[str, Sequence[str]], kept: CertificateFile | None, how: _How, jobs: int | None
) -> Iterator[tuple[str, Certificate]]:
    """Yield each name with its certificate: those that a file has settled first, the others as they are finished."""
    for name in (name for name, laws in untried.items() if kept is not None and not laws):
        assert kept is not None
        yield name, kept.certificate(name)
    left = {name: laws for name, laws in untried.items() if laws}
    for name, certificate in _tried(left, how, jobs or os.cpu_count() or 1):
        yield name, certificate if kept is None else kept.add(name, certificate)


def _tried(untried: Mapping[str, Sequence[str]], how: _How, jobs: int) -> Iterator[tuple[str, Certificate]]:
    """Yield names and certificates as they are finished, each from its own process, and report each law on the way.

    Args:
        untried: laws to check, by the id of the environment.
        how: the options of the certification.
        jobs: number of processes at a time.
    """
    least = 0.0 if len(untried) <= FEW else SLOW
    calls = [(name, tuple(laws), how, least) for name, laws in untried.items()]
    for (name, *_), found in subprocess_map(one, calls, jobs):
        if isinstance(found, EnvironmentDiedError):
            died = Verdict("survives", "an environment does not end its process", Status.FAIL, str(found))
            yield name, Certificate((died,), name)
        elif isinstance(found, Exception):
            raise found
        else:
            yield name, found


def one(name: str, laws: tuple[str, ...], how: _How, least: float) -> Certificate:
    """Make one certificate in a child process, which imports the environment's file itself."""
    os.dup2(2, 1)  # standard output carries certificates, and an environment may print
    numbers, total = itertools.count(1), len(laws)

    def report(verdict: Verdict) -> None:
        number = next(numbers)
        if verdict.seconds >= least:
            remark().print(f"{name} {number}/{total} {verdict.word} {verdict.law} {verdict.seconds:.1f} s")

    return try_laws(
        environment(name),
        quick=how.quick,
        laws=laws,
        seed=how.seed,
        on_verdict=report,
        seconds=60 * how.minutes or None,
        env_kwargs=how.env_kwargs,
    )
