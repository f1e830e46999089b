"""``CodeEnv``: work on files through tools, a Python session or plain answers, judged by the final files."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ...errors import ContractError, ToolError, UsageError
from ...sandboxes.snapshot import Snapshot
from ...sandboxes.spec import SandboxSpec
from ...tasks.code.databases import database
from ...tasks.code.task import Check, CodeTask
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ..background import resolve
from ..base import NearMiss
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, ObservationLike, message
from ..step import Step, running, termination
from ..tools import Tool, tool, tools_of
from .answers import attempt_of
from .attacks import attacks_on
from .backends import spec_for, with_libraries
from .episode_sandbox import EpisodeSandbox
from .formatting import report
from .grading import Bounds, Graded, collateral, graded
from .near_misses import near_misses
from .oracle import next_action
from .workbench import Workbench
from .workspace import workspace_of

How = Literal["tools", "python", "text"]
OFFERED: Mapping[How, tuple[str, ...]] = {
    "tools": ("read", "list", "search", "write", "patch", "run", "test", "submit"),
    "python": ("python", "test", "submit"),
    "text": (),
}
"""The tools of each way to act."""
RULES: Mapping[How, str] = {
    "tools": "You work on the files in a workspace through tools. You are judged by the state of the files when you "
    "call submit.",
    "python": "You work on the files in a workspace in a Python session that keeps its state. You are judged by the "
    "state of the files when you call submit.",
    "text": "Your answer is tested. If a visible test fails, you may answer again.",
}


@dataclass(frozen=True, slots=True)
class CodeSnapshot:
    """State of an episode, as stored by a fork: its files and their progress. It cannot hold a session's state."""

    work: CodeTask
    files: Snapshot
    first: Snapshot
    progress: Mapping[str, bool]
    turns: int
    has_session: bool


class CodeEnv(Workbench[CodeTask]):
    """A workspace of files that the agent may change; ``family`` generates ``CodeTask`` objects.

    Args:
        sandbox: name of the backend that runs code; omitted, the first confining backend that works here. Nothing runs
            unconfined unless you pass ``"unconfined"``.
        relaxed: limits that may go unenforced if the backend cannot enforce them here.
        actions: ``"tools"``; ``"python"``, a session that keeps its state; or ``"text"``: a plain answer is written to
            the task's file and tested, and judged once its visible tests pass (after RLEF, arXiv 2410.02089).
        partial: reward the weights of the passing checks instead of success alone; with ``"cases"``, a failed check of
            values counts by the share of its cases that hold, or 0 if one of them hangs or exhausts memory.
        progress: measure the task's points of progress after each action, as ``info["progress"]``.
        shaping: scale of a potential-based shaping reward (Ng, Harada and Russell 1999). The potential is this times
            the share of points of progress, and 0 at the end, so that every return of a task falls by its initial
            potential.
        seconds: time limit of one command, in seconds.
        trial_seconds: time limit of the visible tests of one action together, in seconds; its points of progress have
            the same limit again.
        grading_seconds: time limit of all checks together when the episode ends, in seconds. A check that has not
            finished by then fails.
        max_turns: limit of actions per episode; omitted, the task's own.
        render_mode: Gymnasium's render mode.
    """

    blocking = False
    forks = Forks.SNAPSHOT
    max_turns = 20
    max_calls: ClassVar[int] = 3
    contract = Contract(max_observation_chars=16_000, max_seconds=115.0)

    work: CodeTask
    first: Snapshot
    """The workspace at the start of the episode."""

    def __init__(
        self,
        *,
        sandbox: str | None = None,
        relaxed: Sequence[str] = (),
        actions: How = "tools",
        partial: bool | Literal["cases"] = False,
        progress: bool = False,
        shaping: float = 0.0,
        seconds: float = 10.0,
        trial_seconds: float = 20.0,
        grading_seconds: float = 45.0,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if actions not in OFFERED:
            raise UsageError(f"unknown actions {actions!r} for a code environment; choose one of {', '.join(OFFERED)}")
        for name, given, more in (("partial", partial, ("cases",)), ("progress", progress, ())):
            if not isinstance(given, bool) and given not in more:  # "no" would count as true
                raise UsageError(f"{name} is {given!r}; write {', '.join(['true', *more])} or false")
        self.sandbox, self.how, self.partial, self.seconds = sandbox, actions, partial, seconds
        self.limits = spec_for(sandbox, relaxed)
        self.trial_seconds, self.grading_seconds = trial_seconds, grading_seconds
        self.shaping, self.measures, self._limited = shaping, progress or shaping != 0, max_turns is not None
        self.progress: Mapping[str, bool] = {}
        self.troubles, self._trial_left, self._shares = [], trial_seconds, dict[str, float]()
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def offered(self) -> Sequence[Tool]:
        """Return the tools of the chosen way to act."""
        return tuple(tool for tool in tools_of(type(self)) if tool.name in OFFERED[self.how])

    # -- an episode ---------------------------------------------------------------------------------------------

    async def start(self, task: CodeTask, rng: Rng) -> ObservationLike:
        if hasattr(self, "episode_sandbox"):
            await self.episode_sandbox.close()
        self.work = task
        if self.work.turns and not self._limited:
            self.max_turns = self.work.turns
        files = {**self.work.files, **{path: database(script) for path, script in self.work.databases.items()}}
        self.episode_sandbox = EpisodeSandbox(self.sandbox, self._spec(), files)
        self.first = await self.episode_sandbox.look()
        self.progress = await self._points()
        prompt = f"{self.work.prompt} {self.work.ask}".strip() if self.how == "text" else self.work.prompt
        return [message("system", RULES[self.how]), message("user", prompt)]

    async def act(self, action: Action) -> Step:
        self.troubles, self._trial_left = [], self.trial_seconds
        acted = self._answered(action.text) if self.how == "text" else super().act(action)
        step = await acted if inspect.isawaitable(acted) else acted
        if not isinstance(step, Step):
            raise ContractError(f"an action returned a {type(step).__name__}, not a step")
        await self.episode_sandbox.look()
        before, self.progress = self._potential(), await self._points()
        if not step.done:
            step = replace(step, reward=step.reward + self._potential() - before)
        else:
            step = replace(step, reward=step.reward - before)
            await self.episode_sandbox.close()
        return replace(step, info={**step.info, **self._told()})

    def _judged(self, step: Step, score: Score) -> Step:
        step = super()._judged(step, score)
        self.episode_sandbox.abandon()
        # Take back the potential paid so far, also if a limit ends the episode.
        return replace(step, reward=step.reward - self._potential(), info={**step.info, **self._told()})

    async def judge(self) -> Score:
        """Grade the current files in a fresh sandbox."""
        results = await self._graded(self.work.checks, self.grading_seconds)
        self.troubles += [result.trouble for result in results if result.trouble is not None]
        extra = collateral(self.work, workspace_of(self.first), workspace_of(self.episode_sandbox.seen))
        checks = {result.name: result.passed for result in results}
        self._shares = {result.name: result.share for result in results}
        return Score(all(checks.values()) and not extra, checks, extra)

    def reward(self, score: Score) -> float:
        """Return 1 for success; with ``partial``, the weights of what holds, if nothing else was changed."""
        if score.success or not self.partial or score.collateral:
            return float(score.success)
        shares = self._shares if self.partial == "cases" else score.checks
        return sum(self.work.credit[name] * share for name, share in shares.items())

    def close(self) -> None:
        """Release the sandbox."""
        if hasattr(self, "episode_sandbox"):
            self.episode_sandbox.abandon()

    # -- tools beside those of the workbench --------------------------------------------------------------------

    @tool
    async def test(self) -> str:
        """Run the visible tests on the current files."""
        return report(await self._tried())

    @tool(ends=True)
    async def submit(self) -> str:
        """Submit the files. This ends the episode."""
        return "Submitted."

    async def _tried(self) -> tuple[Graded, ...]:
        """Return the results of the visible checks on the current files."""
        clock = asyncio.get_running_loop().time  # includes waiting, like every time limit
        began = clock()
        results = await self._graded(self.work.visible, self._trial_left)
        self._trial_left = max(0.0, self._trial_left - (clock() - began))
        self.troubles += [result.trouble for result in results if result.trouble is not None]
        return results

    def _spec(self) -> SandboxSpec:
        return with_libraries(self.limits, self.work.libraries, self.sandbox)

    async def _graded(self, checks: Sequence[Check], seconds: float) -> tuple[Graded, ...]:
        workspace = workspace_of(await self.episode_sandbox.look())
        return await graded(checks, self.work, workspace, self.episode_sandbox.backend, self._spec(), Bounds(seconds))

    async def _answered(self, text: str) -> Step:
        """Apply a plain answer, and end the episode unless a visible check fails."""
        if not text.strip():
            return running(f"Your answer is empty. {self.work.ask}".strip(), self.unparsed_reward, unparsed=True)
        attempt = attempt_of(self.work, text)
        try:
            await (await self.episode_sandbox.sandbox()).write_files(attempt.files)
            said = [await self.run(command) for command in attempt.commands]
        except ToolError as error:
            return running(f"Error: {error}")
        results = await self._tried()
        if not all(result.passed for result in results):
            return running("\n".join([*said, report(results)]))
        score = await self.judge()
        return termination("\n".join([*said, "Submitted."]), self.reward(score), score)

    # -- progress -----------------------------------------------------------------------------------------------

    async def _points(self) -> Mapping[str, bool]:
        """Return which points of progress are reached; empty if they are not measured."""
        if not self.measures:
            return {}
        return {result.name: result.passed for result in await self._graded(self.work.progress, self.trial_seconds)}

    def _potential(self) -> float:
        reached = self.progress.values()
        return self.shaping * sum(reached) / len(reached) if reached else 0.0

    def _told(self) -> dict[str, object]:
        """Return the entries that ``info`` has in addition to the turn and the score."""
        measured: dict[str, object] = {"progress": dict(self.progress)} if self.measures else {}
        return {**measured, **({"troubles": [str(trouble) for trouble in self.troubles]} if self.troubles else {})}

    # -- for certification, demonstrations and forks ------------------------------------------------------------

    def oracle(self) -> ActionLike:
        """Return the first action of the solution that is still open."""
        return next_action(self.work, self.how, self._actions, workspace_of(self.episode_sandbox.seen))

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random tool with random arguments; with text actions, one of the task's possible answers."""
        if self.how != "text":
            return super().random_action(rng)
        return rng.pick(self.work.guesses) if self.work.guesses else "pass"

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return the task's cheats, and the submission of the unchanged files."""
        return near_misses(self.work, self.how)

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return attacks on files, programs and grading; with text actions, only submissions."""
        return attacks_on(self.work, self.how)

    def best_return(self) -> float:
        """Return the best return: 1 for success."""
        return 1.0

    def state_key(self) -> str:
        """Return a key for the content of the workspace; with a session, also for all actions so far."""
        said = [repr(action) for action in self._actions] if self.episode_sandbox.has_session else []
        return stable_hash(self.episode_sandbox.seen.digest, *said).hex()[:32]

    def snapshot(self) -> CodeSnapshot:
        return CodeSnapshot(
            self.work,
            self.episode_sandbox.seen,
            self.first,
            self.progress,
            self.max_turns,
            self.episode_sandbox.has_session,
        )

    def restore(self, snapshot: CodeSnapshot) -> None:
        """Start with the files of a snapshot. It cannot hold a Python session: if there was one, replay the actions."""
        if snapshot.has_session:
            resolve(self._again(snapshot.work))
            return
        self.work, self.first, self.progress = snapshot.work, snapshot.first, snapshot.progress
        self.max_turns = snapshot.turns
        self.episode_sandbox = EpisodeSandbox(self.sandbox, self._spec(), start=snapshot.files)

    async def _again(self, task: CodeTask) -> None:
        await self.start(task, Rng("env", self.task.digest))
        for action in self._actions:
            if not action.problem:
                await self.act(action)
