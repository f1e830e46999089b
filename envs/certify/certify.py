"""Certification: every law, tried on one environment, each with a verdict in words.

>>> from turnwise.envs.certify.certify import certify
>>> certificate = certify("turnwise/Maze-v0", quick=True)   # doctest: +SKIP
>>> print(certificate)                                      # doctest: +SKIP
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import replace

from ...errors import UsageError
from ..base import TurnEnv
from .findings import Broken, NotApplicable
from .lab import QUICK, Effort, Lab
from .law import Law
from .laws_fork import FORK_LAWS
from .laws_isolation import ISOLATION_LAWS
from .laws_reset import RESET_LAWS
from .laws_resources import RESOURCE_LAWS
from .laws_reward import REWARD_LAWS
from .laws_tools import TOOL_LAWS
from .laws_turns import TURN_LAWS
from .other_process import subject_of
from .report import Certificate, Status, Verdict

Target = str | Callable[..., TurnEnv]
"""What can be certified: an id, a class, or a function without arguments that makes an environment."""

LAWS: tuple[Law, ...] = (
    *RESET_LAWS[:1],
    *TURN_LAWS,
    *RESET_LAWS[1:],
    *REWARD_LAWS,
    *FORK_LAWS,
    *ISOLATION_LAWS,
    *TOOL_LAWS,
    *RESOURCE_LAWS,
)
"""Every law, in the order in which they are tried: those without which no other can be tried come first."""


def certify(
    target: Target,
    *,
    samples: int | None = None,
    quick: bool = False,
    laws: Collection[str] = (),
    seed: int = 0,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Certificate:
    """Try every law on an environment.

    Args:
        target: an id, a class, or a function without arguments that makes an environment.
        samples: tasks per split and level; 3, or 1 with ``quick``.
        quick: fewer tasks, shorter episodes, 100 instead of 1,000 episodes for the leak law.
        laws: only these, by name.
        seed: where the sampled seeds begin; another seed tries other tasks.
        on_verdict: called after each law, for a progress display.

    Raises:
        UsageError: no such id, or no such law.
    """
    unknown = set(laws) - {law.name for law in LAWS}
    if unknown:
        raise UsageError(f"there is no law {min(unknown)!r}; there are: {', '.join(law.name for law in LAWS)}")
    lab = laboratory(target, samples=samples, quick=quick, seed=seed)
    verdicts: list[Verdict] = []
    barred = ""
    for law in LAWS:
        if laws and law.name not in laws:
            continue
        verdict = Verdict(law.name, law.about, Status.SKIP, barred) if barred else tried(law, lab)
        if law.gate and verdict.status is Status.FAIL:
            barred = f"{law.name} is broken, and without it nothing else can be tried"
        verdicts.append(verdict)
        if on_verdict is not None:
            on_verdict(verdict)
    return Certificate(lab.subject.name, tuple(verdicts))


def laboratory(target: Target, *, samples: int | None = None, quick: bool = False, seed: int = 0) -> Lab:
    """Where laws can be tried on ``target``; arguments as for ``certify``."""
    effort = QUICK if quick else Effort()
    return Lab(subject_of(target), replace(effort, samples=samples) if samples else effort, seed)


def tried(law: Law, lab: Lab) -> Verdict:
    """The verdict on one law. It is tried in a thread of its own, which is left behind if the environment hangs."""
    began = time.perf_counter()
    status, reason, reproduce = _outcome(law, lab)
    return Verdict(law.name, law.about, status, reason, reproduce, time.perf_counter() - began)


def _outcome(law: Law, lab: Lab) -> tuple[Status, str, str]:
    try:
        exempt, limit = dict(lab.sample.exempt), lab.sample.max_seconds
    except Exception as error:
        return Status.FAIL, f"it cannot be made: {type(error).__name__}: {error}", ""
    for name in (law.name, "all"):
        if name in exempt:
            return Status.SKIP, f"exempt: {exempt[name]}", ""
    caught: list[BaseException] = []

    def work() -> None:
        try:
            law.check(lab)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work, name=f"certify-{law.name}", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.02 if limit < 1 else 0.1)
        if lab.waited > limit and thread.is_alive():
            doing, lab.doing = lab.doing, ""
            return Status.FAIL, f"{doing} has not answered within max_seconds = {limit:g} s", ""
    return _read(caught[0]) if caught else (Status.PASS, "", "")


def _read(error: BaseException) -> tuple[Status, str, str]:
    if isinstance(error, Broken):
        return Status.FAIL, str(error), error.reproduce
    if isinstance(error, NotApplicable):
        return Status.SKIP, str(error), ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Status.FAIL, f"{type(error).__name__}: {error} (at {last.filename}:{last.lineno} in {last.name})", ""
