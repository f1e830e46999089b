"""Grading: the tests run in a fresh sandbox, and the reward file that they leave is read as data.

1. The agent's sandbox is destroyed, and with it every process. Only the files of its working directory remain, as a
   value; for a task with a separate verifier, only the artifacts that it names.
2. A new sandbox of the pristine image gets these files, without links that lead to the tests or the reward. The tests
   are in its image, which no agent has seen, and cannot be changed.
3. ``inside/witness.py`` runs ``test.sh``, kills whatever remains, and reports the reward files.
4. This process reads the report. No reward file, or one that is not a number from 0 to 1, is no score, and never 0.
   A reward above 0 also needs tests that end with exit code 0, since a failure to write the reward, which the agent's
   program can cause, shows only there. If an orphan lived when it was written, the reward is 0.

What remains is the trust in the tests themselves. If they run or import programs of the agent, these run as the same
user: they can read ``/tests``, and code in the tests' own process can decide what that process reports.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ...errors import EnvironmentFailedError, ToolError
from ...sandboxes.backend import Backend
from ...sandboxes.result import ExecResult, Status
from ...sandboxes.snapshot import Snapshot
from .images import Place
from .limits import spec_of
from .submission import collected, submitted
from .task import HarborTask

WITNESS = (Path(__file__).parent / "inside" / "witness.py").read_text(encoding="utf-8")
HOME = "/tmp"
"""Home folder of the tests. It is not the working directory, where an agent could plant modules of a user's Python."""
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NAME = "reward"
"""Name of the reward that counts, where a file has several."""
LATE = "a process that the tests did not wait for was alive when the reward was written"
LARGE = "the submitted files do not fit into the verifier's sandbox"
SHOWN = 300
"""Most characters of the tests' output in an error."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verifier.

    Args:
        reward: the reward, from 0 to 1.
        rewards: all numbers in the reward file, by name.
        violation: why the reward was set to 0; empty if it was not.
    """

    reward: float
    rewards: Mapping[str, float]
    violation: str = ""


async def graded(task: HarborTask, place: Place, work: Snapshot, backend: Backend) -> Verdict:
    """Run a task's tests on the files that an agent left.

    Args:
        task: the task.
        place: the verifier's image.
        work: the agent's working directory.
        backend: creates the sandbox.

    Raises:
        EnvironmentFailedError: the tests gave no score: they took too long, or wrote no valid reward file.
        SandboxError: the sandbox could not be created or died.
    """
    table, config = task.config.verifier.environment or task.config.environment, task.config
    env = {"HOME": HOME, **table.env, **config.verifier.env}
    spec = spec_of(place, table, env, config.verifier.timeout_sec)
    if config.separate:
        files = collected(work, place.workdir, config.artifacts, place.files)
    else:
        files = submitted(work, place.workdir)
    try:
        sandbox = await backend.create(spec, start=files)
    except ToolError:
        return Verdict(0.0, {}, LARGE)
    async with sandbox:
        done = await sandbox.exec(["python3", "-I", "-S", "-c", WITNESS], timeout=config.verifier.timeout_sec)
    return verdict(task, done)


def verdict(task: HarborTask, done: ExecResult) -> Verdict:
    """Return the verdict in a report of ``inside/witness.py``.

    Args:
        task: the task.
        done: how the witness ended, and what it printed.

    Raises:
        EnvironmentFailedError: there is no score.
    """
    if done.status is Status.TIMEOUT:
        _none(task, f"its tests did not end within verifier.timeout_sec = {task.config.verifier.timeout_sec:g} s")
    if done.exit_code:  # a program that the kernel killed for memory is for the tests to judge
        _none(task, f"its verifier was killed ({done.status}, exit code {done.exit_code})", done.stderr.text)
    try:
        report: dict[str, Any] = json.loads(done.stdout.text)
        files = {name: one for name, one in report["files"].items() if one is not None}
        if any(report["orphan"] >= one.get("changed", math.inf) for one in files.values()):
            return Verdict(0.0, {}, LATE)
        found = {name: rewards_in(name, one) for name, one in files.items()}
    except NoReward as error:
        _none(task, str(error))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        _none(task, f"its verifier reported something else ({type(error).__name__})")
    code = report["code"]
    if code < 0:
        _none(task, f"signal {-code} killed its tests", str(report["log"]))
    if not found:
        _none(task, f"its tests wrote no reward file (exit code {code})", str(report["log"]))
    # The lowest counts: a second file, which Harbor would prefer, may be the agent's.
    reward, rewards = min(found.values(), key=lambda one: one[0])
    if reward and code:
        _none(task, f"its tests ended with exit code {code}, although the reward is {reward:g}", str(report["log"]))
    return Verdict(reward, rewards)


class NoReward(ValueError):
    """A reward file has no valid reward."""


def rewards_in(name: str, found: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    """Return the reward in a reward file, and all its numbers by name.

    Args:
        name: ``reward.json`` or ``reward.txt``.
        found: its text, or why it could not be read.

    Raises:
        NoReward: it could not be read, or is not a number from 0 to 1, or a table of numbers without a ``reward``.
    """
    if "error" in found:
        raise NoReward(f"{name} cannot be used: {found['error']}")
    text = str(found["text"]).strip()
    if name.endswith(".txt"):
        if not NUMBER.fullmatch(text):
            raise NoReward(f"{name} is not a number: {text[:40]!r}")
        rewards: Any = {NAME: float(text)}
    else:
        try:
            read = json.loads(text, parse_constant=lambda constant: constant)
        except (ValueError, RecursionError):
            raise NoReward(f"{name} is not JSON: {text[:40]!r}") from None
        rewards = read if isinstance(read, dict) else {NAME: read}
    for key, value in rewards.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise NoReward(f"{key!r} in {name} is not a number: {value!r:.40}")
    if NAME not in rewards and len(rewards) != 1:
        raise NoReward(f"{name} has {len(rewards)} numbers, and none of them is called {NAME!r}")
    reward = rewards[NAME] if NAME in rewards else next(iter(rewards.values()))
    if not 0 <= reward <= 1:
        raise NoReward(f"the reward in {name} is {reward!r:.40}, which is not from 0 to 1")
    return float(reward), {str(key): float(value) for key, value in rewards.items()}


def _none(task: HarborTask, why: str, said: str = "") -> NoReturn:
    words = " ".join(said.split())[-SHOWN:]
    raise EnvironmentFailedError(f"no score for {task.name}: {why}{f'; its last output: {words}' if words else ''}")
