"""The check suite: every case tried on one backend, each with a verdict and the evidence for it.

>>> import asyncio
>>> from turnwise.sandboxes.check.check import check
>>> from turnwise.sandboxes.named import backend_named
>>> print(asyncio.run(check(backend_named("bubblewrap"))))   # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from ...errors import SandboxUnavailableError
from ...verdicts import Failed, NotApplicable, Status, choose, describe
from ..backend import Backend, Enforcement
from .case import Case
from .contract.commands import COMMAND_CASES
from .contract.files import FILE_CASES
from .contract.life import LIFE_CASES
from .contract.outputs import OUTPUT_CASES
from .contract.sessions import SESSION_CASES
from .contract.snapshots import SNAPSHOT_CASES
from .harness import Harness, held_as, works
from .host import Host
from .hostile.asking import ASKING_CASES
from .hostile.files import HOSTILE_FILE_CASES
from .hostile.grading import GRADING_CASES
from .hostile.kernel import KERNEL_CASES
from .hostile.neighbors import NEIGHBOR_CASES
from .hostile.network import NETWORK_CASES
from .hostile.outputs import HOSTILE_OUTPUT_CASES
from .hostile.owners import OWNER_CASES
from .hostile.processes import PROCESS_CASES
from .hostile.resources import RESOURCE_CASES
from .hostile.secrets import SECRET_CASES
from .report import Report, Verdict

CASES: tuple[Case, ...] = tuple(
    sorted(
        (
            *RESOURCE_CASES,
            *PROCESS_CASES,
            *HOSTILE_OUTPUT_CASES,
            *HOSTILE_FILE_CASES,
            *SECRET_CASES,
            *NETWORK_CASES,
            *KERNEL_CASES,
            *GRADING_CASES,
            *NEIGHBOR_CASES,
            *OWNER_CASES,
            *ASKING_CASES,
            *COMMAND_CASES,
            *OUTPUT_CASES,
            *FILE_CASES,
            *SESSION_CASES,
            *SNAPSHOT_CASES,
            *LIFE_CASES,
        ),
        key=lambda case: case.number,
    )
)
"""Every case. Numbers up to 48 are hostile code; those from 101 on are the contract."""


async def check(
    backend: Backend,
    *,
    cases: Collection[int | str] = (),
    kills: int = 5,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Report:
    """Try every case on a backend. After each, the host must be as it was, and the next sandbox must work.

    The contract's cases come first, since nothing else can be measured where commands do not run properly. A backend
    that shares the host's processes or mounts fails the hostile cases without a try: some of them kill all processes
    that they can reach.

    Args:
        backend: backend to check; it is not closed.
        cases: the only cases to try, by number or name (default: all).
        kills: how many times to repeat the cases that kill the owner of sandboxes.
        on_verdict: called after each case, for a progress display.

    Raises:
        UsageError: there is no such case.
        SandboxUnavailableError: the backend does not work on this machine.
    """
    chosen = chosen_cases(cases)
    host = Host()
    try:
        found = await backend.probe()
        if not found.available:
            raise SandboxUnavailableError(f"cannot check {found.backend} here: {found.why}")
        harness = Harness(backend, found, host, kills)
        verdicts = []
        for case in sorted(chosen, key=lambda case: case.confines):
            verdicts.append(await tried(case, harness))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
        return Report(tuple(verdicts), found)
    finally:
        host.close()


def chosen_cases(wanted: Collection[int | str]) -> tuple[Case, ...]:
    """Return the cases of these numbers or names; all if none are given.

    Raises:
        UsageError: there is no such case.
    """
    by_word = {word: case for case in CASES for word in (str(case.number), case.name)}
    return choose(wanted, by_word, "case", "1 to 48 and from 101 on, or names")


async def tried(case: Case, harness: Harness) -> Verdict:
    """Try one case, and return the verdict."""
    began = time.perf_counter()
    status, evidence = await _status(case, harness)
    return Verdict(case.number, case.name, case.about, status, evidence, time.perf_counter() - began)


async def _status(case: Case, harness: Harness) -> tuple[Status, str]:
    if case.confines and not harness.found.confines:
        return Status.SKIP, f"not promised: {harness.found.backend} confines nothing"
    for limit in case.needs:
        if limit in harness.absent:
            return Status.SKIP, f"declared absent: {limit}: {harness.absent[limit]}"
    status, evidence = await _attempted(case, harness)
    found = [*await _cleared(harness), *harness.host.harmed()]
    try:
        await works(await harness.create())
    except Exception as error:
        found.append(f"the next sandbox does not work: {_words(error)}")
    found += await _cleared(harness)
    if not found:
        return status, evidence
    afterwards = f"afterwards {'; '.join(found[:4])}" + (f" and {len(found) - 4} more" if len(found) > 4 else "")
    return Status.FAIL, afterwards if status is Status.PASS else f"{evidence}; {afterwards}"


async def _attempted(case: Case, harness: Harness) -> tuple[Status, str]:
    try:
        if case.confines and (shared := await harness.outside()):
            return Status.FAIL, shared
        async with asyncio.timeout(case.seconds):
            return Status.PASS, await case.attempt(harness)
    except NotApplicable as error:
        return Status.SKIP, str(error)
    except TimeoutError:
        return Status.FAIL, f"it has not ended within {case.seconds:g} s"
    except Exception as error:
        best = [limit for limit in case.needs if held_as(harness.found, limit) is Enforcement.BEST_EFFORT]
        if best and isinstance(error, Failed):
            held = harness.found.limits[best[0]]
            return Status.SKIP, f"declared best effort: {best[0]}: {held.how}; here: {error}"
        return Status.FAIL, _words(error)


async def _cleared(harness: Harness) -> list[str]:
    try:
        async with asyncio.timeout(30.0):
            return [f"left over: {each}" for each in await harness.clear()]
    except Exception as error:
        harness.made.clear()
        return [f"sandboxes could not be destroyed: {_words(error)}"]


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Failed) else describe(error)
