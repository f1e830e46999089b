"""Play an environment by hand: a human acts in the browser, and the episode is recorded as that of any policy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from ..agents.agent import Decision, EpisodeContext, Session
from ..envs.base import TurnEnv
from ..envs.messages import Action, Observation
from ..envs.registry import create
from ..envs.source import source_digest
from ..envs.tools import Tool
from ..errors import UsageError
from ..evals.sampling import sample_tasks
from ..rollouts.episode import Episode, Outcome, Turn
from ..rollouts.options import RunOptions
from ..rollouts.runner import IndexedTask, run_episodes
from ..rollouts.store import EpisodeStore
from ..tasks.spec import Split, TaskSpec

POLICY = "human"
OFFERED = 1000
"""Most different tasks of a split and level that are offered, one after the other."""
PATIENCE = 60.0
"""Seconds that a request waits for the environment; the browser then asks again."""


class Human:
    """An agent whose decisions come from a browser; one episode at a time."""

    def __init__(self) -> None:
        self.observation: Observation | None = None
        self.turns: list[Turn] = []
        self.tools: tuple[Tool, ...] = ()
        """Tools that the present task offers."""
        self.asked = asyncio.Event()
        """Set while an observation waits for an action."""
        self._decided: asyncio.Future[Decision] | None = None

    def start(self, context: EpisodeContext) -> Session:
        """Begin an episode; a retried one begins again."""
        self.observation, self.turns, self._decided, self.tools = None, [], None, tuple(context.tools)
        self.asked.clear()
        return self

    async def act(self, observation: Observation) -> Decision:
        """Show an observation, and wait for the human."""
        self.observation = observation
        self._decided = asyncio.get_running_loop().create_future()
        self.asked.set()
        decision = await self._decided
        self.turns.append(Turn(observation, decision.action, 0.0))
        self.observation = self._decided = None
        return decision

    def decide(self, action: Action) -> None:
        """Answer the observation."""
        assert self._decided is not None, "decide() answers act()"
        self.asked.clear()
        self._decided.set_result(Decision(action))


class Play:
    """A human's episodes of one environment, appended to a store; the only writer of its folder while it is open.

    Args:
        env: id of the environment.
        folder: folder of the episode store, new or of the same environment played by a human.
        env_kwargs: constructor arguments of the environment.

    Raises:
        UsageError: There is no such environment.
        StoreError: The folder has other episodes, or another process writes to it.
    """

    def __init__(self, env: str, folder: Path, env_kwargs: dict[str, Any] | None = None) -> None:
        self.env, self.folder, self._kwargs = env, folder, dict(env_kwargs or {})
        probe = create(env, **self._kwargs)
        try:
            inner = cast(TurnEnv, probe.unwrapped)
            self._family, source = inner.tasks(), source_digest(probe)
        finally:
            probe.close()
        self.splits, self.levels = [str(split) for split in self._family.splits], list(self._family.levels)
        run = {"env": env, "policy": POLICY, "env_kwargs": self._kwargs} | ({"env_source": source} if source else {})
        self._store = EpisodeStore(folder, run=run, flush_every=1)
        self._human = Human()
        self._playing: asyncio.Task[None] | None = None
        self._task: TaskSpec | None = None
        self.last: Episode | None = None
        self.problem = ""

    @property
    def playing(self) -> bool:
        """Whether an episode is going on."""
        return self._playing is not None and not self._playing.done()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools of the present episode, which may depend on its task."""
        return self._human.tools if self.playing else ()

    @property
    def now(self) -> Episode | None:
        """The present episode so far, in the form of a record; ``None`` if none goes on."""
        if not self.playing or self._task is None:
            return None
        turns = tuple(self._human.turns)
        seen = self._human.observation
        return Episode("now", self.env, self._task, "", turns, Outcome.CANCELLED, final_observation=seen)

    async def start(self, split: str, level: int) -> None:
        """Begin an episode of the first task of a split and level that is not in the store.

        Raises:
            UsageError: An episode is going on, or there is no such task.
        """
        if self.playing:
            raise UsageError("an episode is going on; finish it, or give it up")
        if split not in self.splits:
            raise UsageError(f"unknown split {split!r}; choose from {', '.join(self.splits)}")
        count = len(self._store.ids())
        tasks = sample_tasks(self._family, min(OFFERED, count + 1), splits=(Split(split),), levels=(level,)).tasks
        self._task, self.last, self.problem = tasks[count % len(tasks)], None, ""
        self._playing = asyncio.get_running_loop().create_task(self._play(IndexedTask(count, self._task)))
        await self.settled()

    async def act(self, turn: int, action: Action) -> None:
        """Take the action of a turn, and wait for the environment.

        Args:
            turn: number of the turn that the human saw, from 0, so that nothing is acted on twice.
            action: the action.

        Raises:
            UsageError: The episode has ended, or this turn has its action.
        """
        if not self.playing or not self.asked or turn != len(self._human.turns):
            raise UsageError("this turn has its action already; load the page again to see the present one")
        self._human.decide(action)
        await self.settled()

    async def stop(self) -> None:
        """Give up the present episode, which is then not recorded."""
        if self._playing is not None and not self._playing.done():
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)

    async def close(self) -> None:
        """Give up the present episode, and close the store."""
        await self.stop()
        self._store.close()

    async def settled(self) -> None:
        """Wait until the environment needs the human or the episode ends, for at most ``PATIENCE``."""
        if self._playing is not None:
            waiter = asyncio.ensure_future(self._human.asked.wait())
            await asyncio.wait((waiter, self._playing), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()

    @property
    def asked(self) -> bool:
        """Whether the environment waits for the human."""
        return self.playing and self._human.asked.is_set()

    async def _play(self, task: IndexedTask) -> None:
        options = RunOptions(concurrency=1, turn_timeout=None, retries=0, seed=task.index, env_kwargs=self._kwargs)
        try:
            async with aclosing(run_episodes(self.env, self._human, [task], options=options)) as episodes:
                async for episode in episodes:
                    self._store.append(episode)
                    self._store.flush()
                    self.last = episode
        except Exception as error:  # shown in the browser: the viewer goes on
            self.problem = f"{type(error).__name__}: {error}"


def offered(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return tools with the JSON Schema of their arguments, from which the page makes forms."""
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
