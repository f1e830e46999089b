"""Certification: every law, tried on one environment, each with a verdict in words.

>>> from turnwise.envs.certify.certify import certify
>>> certificate = certify("turnwise/Maze-v0", quick=True)   # doctest: +SKIP
>>> print(certificate)                                      # doctest: +SKIP
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from ...errors import InfrastructureError, SandboxUnavailableError, TurnwiseError
from ...verdicts import NotApplicable, Status, choose, describe
from ..author_line import at, author_line, author_traceback, line_of_frame, noted
from ..base import TurnEnv
from .effort import QUICK, Effort
from .findings import Broken, OutOfTime
from .harness import Harness
from .law import Law
from .laws_attacks import ATTACK_LAWS
from .laws_author import AUTHOR_LAWS
from .laws_fork import FORK_LAWS
from .laws_isolation import CAUSE_LAWS, ISOLATION_LAWS
from .laws_reset import RESET_LAWS
from .laws_resources import RESOURCE_LAWS
from .laws_reward import REWARD_LAWS
from .laws_tools import TOOL_LAWS
from .laws_turns import TURN_LAWS
from .other_process import subject_of
from .over_the_wire import unasked
from .report import Certificate, Verdict

Target = str | Callable[..., TurnEnv]
"""A target of certification: an id, a class, or a function without arguments that makes an environment."""

GROUPS: tuple[tuple[Law, ...], ...] = (
    *(AUTHOR_LAWS, RESET_LAWS[:1], TURN_LAWS[:1], CAUSE_LAWS, TOOL_LAWS, RESET_LAWS[1:], TURN_LAWS[1:], REWARD_LAWS),
    *(FORK_LAWS, ISOLATION_LAWS, RESOURCE_LAWS, ATTACK_LAWS),
)
LAWS = tuple(sorted((law for group in GROUPS for law in group), key=lambda law: not law.gate))
"""Every law, in the order in which they are tried: causes come first, and what follows from them after."""
SHARE, GATE_SHARE = 4.0, 0.25
"""How many equal shares of the time that is left a law may take; a gate may take this part of all of it."""


def certify(
    target: Target,
    *,
    samples: int | None = None,
    quick: bool = False,
    laws: Collection[str] = (),
    seed: int = 0,
    on_verdict: Callable[[Verdict], None] | None = None,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Certificate:
    """Try every law on an environment.

    Args:
        target: an id, a class, or a function without arguments that makes an environment.
        samples: tasks per split and level; 3, or 1 with ``quick``.
        quick: fewer tasks, shorter episodes, 100 instead of 1,000 episodes for the leak law.
        laws: only these, by name.
        seed: where the sampled seeds begin; another seed tries other tasks.
        on_verdict: called after each law, for a progress display.
        seconds: time for all laws; what does not fit is skipped, and its verdict says so. Omitted: no limit.
        clock: the time in seconds, by which ``seconds`` and ``max_seconds`` are judged.
        env_kwargs: the arguments with which each environment is made.

    Raises:
        UsageError: no such id, no such law, or an argument that the environment refuses.
        SandboxUnavailableError: this machine lacks the sandbox in which the environment runs, so no law can be tried.
    """
    named = choose(sorted(laws), {law.name: law for law in LAWS}, "law")
    harness = laboratory(target, samples=samples, quick=quick, seed=seed, env_kwargs=env_kwargs)
    harness.clock = clock
    ends = math.inf if seconds is None else clock() + seconds
    chosen = [law for law in LAWS if law in named]
    verdicts: list[Verdict] = []
    barred = ""
    for number, law in enumerate(chosen):
        if not barred and clock() >= ends:
            barred = f"the time of {(seconds or 0) / 60:g} minutes was used up; allow more --minutes"
        share = GATE_SHARE if law.gate else SHARE / (len(chosen) - number)
        harness.until = clock() + min(share, 1.0) * (ends - clock())
        skipped = Verdict(law.name, law.about, Status.SKIP, barred, unsettled=True)
        verdict = skipped if barred else tried(law, harness)
        if law.gate and verdict.status is Status.FAIL:
            barred = f"{law.name} is broken, and they would only repeat that; they are tried once it holds"
        verdicts.append(verdict)
        if on_verdict is not None:
            on_verdict(verdict)
    return Certificate(tuple(verdicts), harness.subject.name)


def laboratory(
    target: Target,
    *,
    samples: int | None = None,
    quick: bool = False,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Harness:
    """Return the harness in which laws are tried on ``target``; arguments as for ``certify``."""
    effort = QUICK if quick else Effort()
    return Harness(subject_of(target, env_kwargs), replace(effort, samples=samples) if samples else effort, seed)


def tried(law: Law, harness: Harness) -> Verdict:
    """The verdict on one law. It is tried in a thread of its own, which is left behind if the environment hangs.

    One cause is one finding: a law that meets an error which an earlier law has reported, of the same line, is skipped.
    """
    began = harness.clock()
    beside = harness.left_behind()
    status, reason, reproduce, error = _outcome(law, harness)
    if beside:
        harness.first.clear()  # what was recorded beside the call of another law, others must not be compared with
        if status is Status.FAIL and not harness.left_behind(law.name):
            status, reason, reproduce, error = _alone(law, harness, reason)
    if law.gate and isinstance(error, SandboxUnavailableError):  # of the machine, of which no law says anything
        raise error
    harness.release()
    unsettled = silent = isinstance(error, OutOfTime) or type(error) is InfrastructureError
    if status is Status.FAIL and error is not None and (where := author_line(error)):
        reported = harness.raised.setdefault(f"{type(error).__name__} at {where}", law.name)
        if reported != law.name:
            status, reason, reproduce = (
                Status.SKIP,
                f"it met the error that {reported} reports; try it without that",
                "",
            )
            unsettled = True
    shown = author_traceback(error) if error is not None and not silent else ""
    return Verdict(law.name, law.about, status, reason, reproduce, harness.clock() - began, shown, unsettled)


Outcome = tuple[Status, str, str, BaseException | None]


def _outcome(law: Law, harness: Harness) -> Outcome:
    try:
        exempt, shortest = dict(harness.sample.contract.exempt), harness.sample.contract.max_seconds
    except Exception as error:
        if type(error) is InfrastructureError:  # a server out of reach, of which no law says anything
            raise
        return Status.FAIL, f"it cannot be created: {_describe(error)}", "", error
    if reason := unasked(harness.wire, law.name):
        return Status.SKIP, reason, "", None
    for name in (law.name, "all"):
        if name in exempt:
            return Status.SKIP, f"exempt: {exempt[name]}", "", None
    caught: list[BaseException] = []
    remarks: list[str | None] = []

    def work() -> None:
        try:
            remarks.append(law.check(harness))
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work, name=f"certify-{law.name}", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.02 if shortest < 1 else 0.1)
        if harness.waited > (limit := harness.limit) and thread.is_alive():
            doing, harness.doing = harness.doing, ""
            harness.left.append((law.name, thread))
            frame = sys._current_frames().get(thread.ident or 0)
            cure = harness.too_slow(doing, at(line_of_frame(frame)))
            if (busy := harness.too_busy(f"{doing} has not answered within {limit:g} s")) is not None:
                return Status.SKIP, str(busy), "", busy
            return Status.FAIL, f"{doing} has not answered within max_seconds = {limit:g} s; {cure}", "", None
    return _read(caught[0]) if caught else (Status.PASS, remarks[0] or "", "", None)


def _alone(law: Law, harness: Harness, reason: str) -> Outcome:
    """Try a law again that failed beside the call of an earlier one; it stays undecided while such a call runs."""
    if left := harness.left_behind():
        late = OutOfTime(f"the call that {left} left behind still runs, and may be the cause of this: {reason}")
        return Status.SKIP, str(late), "", late
    harness.release()
    return _outcome(law, harness)


def _read(error: BaseException) -> Outcome:
    if isinstance(error, Broken):
        return Status.FAIL, str(error), error.reproduce, error.__cause__
    if isinstance(error, NotApplicable):
        return Status.SKIP, str(error), "", error if isinstance(error, OutOfTime) else None
    if type(error) is InfrastructureError:  # a server that is full or out of reach; what it plays raises a subclass
        return Status.SKIP, f"the server could not be asked: {error}", "", error
    return Status.FAIL, _describe(error), "", error


def _describe(error: BaseException) -> str:
    where = author_line(error)
    if where or not isinstance(error, TurnwiseError):
        return describe(error, where) + noted(error)
    return f"{type(error).__name__}: {error}{noted(error)}"  # its text names the author's method
