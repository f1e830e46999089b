"""``HarborEnv``: a task of Harbor or Terminal-Bench as an environment, in Docker sandboxes without a network."""

from __future__ import annotations

import base64
import gzip
import inspect
import io
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import ContractError, TaskError, UsageError
from ...sandboxes.snapshot import Snapshot
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ..base import NearMiss
from ..code.backends import shared_backend
from ..code.episode_sandbox import EpisodeSandbox
from ..code.workbench import Workbench
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, ObservationLike, ToolCall, message
from ..step import Step
from ..tools import Tool, tool, tools_of
from .address import folder_of
from .family import HarborFamily, family_of
from .grading import Verdict, graded
from .images import Places, engine, places_of
from .limits import spec_of
from .task import HarborTask

BACKEND = "docker"
OFFERED = ("read", "list", "search", "write", "patch", "run", "submit")
"""Tools of the agent."""
SUBMIT = ToolCall("submit", {})
EPISODE = 3600.0
"""Seconds for all commands of an episode, where a task has no ``agent.timeout_sec``."""
LARGEST = 96 * 1024
"""Size of the largest solution that a command can carry, in characters."""


@dataclass(frozen=True, slots=True)
class HarborSnapshot:
    """State of an episode, as stored by a fork."""

    work: HarborTask
    places: Places
    files: Snapshot
    seconds: float


class HarborEnv(Workbench[HarborTask]):
    """A container of a task's image, in which the agent works through tools; ``tests/test.sh`` decides.

    Commands run as an unprivileged user, and only the working directory and ``/tmp`` can be written. When the agent
    submits, its sandbox is destroyed, and the tests run on its working directory in a fresh one (``grading``).

    Args:
        path: folder of a task, or of tasks.
        offline: play tasks that expect a network without one; otherwise, they are refused.
        skip: leave out tasks that cannot be played; otherwise, one such task is an error.
        seconds: time limit of one command, in seconds.
        max_turns: limit of actions per episode.
        render_mode: Gymnasium's render mode.

    Raises:
        TaskError: there is no task, or some cannot be played.
        UsageError: a task expects a network.
    """

    blocking = False
    forks = Forks.SNAPSHOT
    max_turns = 50
    contract = Contract(max_observation_chars=40_000, max_seconds=700.0)

    work: HarborTask
    _places: Places

    def __init__(
        self,
        path: Path | str,
        *,
        offline: bool = False,
        skip: bool = False,
        seconds: float = 60.0,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.chosen = family_of(Path(path).resolve(), skip)
        online = [task for task in self.chosen.found if task.config.networks]
        if online and not offline:
            first = f"{online[0].folder} for {' and '.join(online[0].config.networks)}"
            raise UsageError(
                f"{len(online)} of {len(self.chosen.found)} tasks expect a network ({first}), and sandboxes have none: "
                "pass offline=True (env_kwargs.offline=true) to play them without one"
            )
        self.seconds, self.troubles, self._left_seconds = seconds, [], EPISODE
        self._verdict: Verdict | None = None
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def tasks(self) -> HarborFamily:  # type: ignore[override]
        """The family of the folder's tasks. It depends on the instance, so it is not an attribute of the class."""
        return self.chosen

    def offered(self) -> Sequence[Tool]:
        """Return the tools of the agent."""
        return tuple(tool for tool in tools_of(type(self)) if tool.name in OFFERED)

    async def start(self, task: HarborTask, rng: Rng) -> ObservationLike:
        self.close()
        self.work, self._verdict, self._left_seconds = task, None, task.config.agent.timeout_sec or EPISODE
        self._places = await engine().ask(places_of, task)
        self.episode_sandbox = self._opened(self._places.agent.files)
        await self.episode_sandbox.look()
        workdir = self._places.agent.workdir
        rules = (
            f"You work in {workdir} through tools, without a network. Only {workdir} and /tmp can be written, and you "
            f"are judged by the files in {workdir} when you call submit. No process outlives the call that started it."
        )
        return [message("system", rules), message("user", task.instruction)]

    async def act(self, action: Action) -> Step:
        self.troubles = []
        acted = super().act(action)
        step = await acted if inspect.isawaitable(acted) else acted
        if not isinstance(step, Step):
            raise ContractError(f"an action returned a {type(step).__name__}, not a step")
        if step.done:
            return replace(step, info={**step.info, **self._rewards()})
        await self.episode_sandbox.look()
        return replace(step, terminated=True) if self._left_seconds <= 0 else step

    def _judged(self, step: Step, score: Score) -> Step:
        step = super()._judged(step, score)
        return replace(step, info={**step.info, **self._rewards()})

    @tool
    async def run(self, command: str) -> str:
        """Run a shell command in the working directory.

        Args:
            command: command for /bin/sh; processes that it starts end with it.
        """
        limit, self.seconds = self.seconds, min(self.seconds, max(1.0, self._left_seconds))
        try:
            return await super().run(command)
        finally:
            self.seconds = limit

    @tool(ends=True)
    async def submit(self) -> str:
        """Submit the files in the working directory. This ends the episode."""
        return "Submitted."

    async def judge(self) -> Score:
        """Destroy the agent's sandbox, and run the tests on its files in a fresh one.

        An episode that is judged early goes on in another sandbox, with the same files and an empty ``/tmp``.
        """
        files = await self.episode_sandbox.look()
        await self.episode_sandbox.close()
        self.episode_sandbox = self._opened(files)
        self._verdict = await graded(self.work, self._places.verifier, files, shared_backend(BACKEND))
        violations = (self._verdict.violation,) if self._verdict.violation else ()
        return Score(self._verdict.reward == 1, violations=violations)

    def reward(self, score: Score) -> float:
        """Return the reward of the tests."""
        return self._verdict.reward if self._verdict is not None else float(score.success)

    def close(self) -> None:
        """Release the sandbox."""
        if hasattr(self, "episode_sandbox"):
            self.episode_sandbox.abandon()

    # -- for certification, demonstrations and forks ------------------------------------------------------------

    def oracle(self) -> ActionLike:
        """Return a command that runs the task's ``solution/solve.sh``, and then the submission."""
        solve = ToolCall("run", {"command": solution_command(self.work)})
        ran = any(
            call.name == "run" and call.arguments == solve.arguments for act in self._actions for call in act.tool_calls
        )
        return SUBMIT if ran else solve

    @property
    def has_oracle(self) -> bool:
        """Whether all tasks have a solution."""
        return all(task.has_solution for task in self.chosen.found)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return the submission of the unchanged files, and of a forged reward."""
        forged = (
            "mkdir -p logs/verifier; for f in /logs/verifier/reward.txt logs/verifier/reward.txt; do echo 1 > $f; done"
        )
        return {"submits at once": [SUBMIT], "writes a reward": [ToolCall("run", {"command": forged}), SUBMIT]}

    def best_return(self) -> float:
        """Return the best return: 1 for success."""
        return 1.0

    def state_key(self) -> str:
        """Return a key for the content of the working directory."""
        return stable_hash(self.work.digest, self.episode_sandbox.seen.digest).hex()[:32]

    def snapshot(self) -> HarborSnapshot:
        return HarborSnapshot(self.work, self._places, self.episode_sandbox.seen, self._left_seconds)

    def restore(self, snapshot: HarborSnapshot) -> None:
        self.work, self._places, self._verdict = snapshot.work, snapshot.places, None
        self._left_seconds = snapshot.seconds
        self.episode_sandbox = self._opened(snapshot.files)

    # -- the inside ---------------------------------------------------------------------------------------------

    def _opened(self, files: Snapshot) -> EpisodeSandbox:
        table = self.work.config.environment
        seconds = max(EPISODE, 2 * self._left_seconds)
        return EpisodeSandbox(BACKEND, spec_of(self._places.agent, table, table.env, seconds), start=files)

    def _came_of(self, done: Any) -> str:
        self._left_seconds -= done.seconds
        return super()._came_of(done)

    def _rewards(self) -> dict[str, object]:
        return {"rewards": dict(self._verdict.rewards)} if self._verdict is not None else {}


def solution_command(task: HarborTask) -> str:
    """Return a shell command that unpacks a task's solution into ``/solution`` and runs it in the working directory.

    Raises:
        TaskError: there is no solution, or it is too large for a command.
    """
    if not task.has_solution:
        raise TaskError(f"{task.folder}: there is no solution/solve.sh")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in sorted(task.solution.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    packed = base64.b64encode(gzip.compress(out.getvalue(), mtime=0)).decode()
    if len(packed) > LARGEST:
        raise TaskError(f"{task.folder}: the solution has {len(packed)} characters; a command can carry {LARGEST}")
    unpack = "import base64,io,sys,tarfile;tarfile.open(fileobj=io.BytesIO(base64.b64decode(sys.argv[1])))"
    env = " ".join(shlex.quote(f"{name}={value}") for name, value in sorted(task.config.solution.env.items()))
    return f"python3 -I -c '{unpack}.extractall(\"/solution\")' {packed} && env {env} bash /solution/solve.sh"


def harbor(id: str, **kwargs: Any) -> HarborEnv:
    """Create the environment that ``harbor:PATH`` names; the arguments are those of ``HarborEnv``.

    Raises:
        UsageError: there is no such folder, a task cannot be played or expects a network, or an argument is unknown.
    """
    known = inspect.signature(HarborEnv.__init__).parameters.keys() - {"self", "path"}
    for name in ("offline", "skip"):
        if not isinstance(kwargs.get(name, False), bool):
            raise UsageError(f"{id}: {name} is true or false; got {kwargs[name]!r}")
    for name in kwargs.keys() - known:
        raise UsageError(f"{id} does not take the argument {name!r}; it takes {', '.join(sorted(known))}")
    return HarborEnv(folder_of(id), **kwargs)
