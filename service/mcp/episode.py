"""``McpEpisode``: one episode whose agent is a client of the Model Context Protocol, played like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ...agents.agent import Decision, EpisodeContext
from ...envs.messages import Action, Observation
from ...envs.tools import Tool
from ...errors import InfrastructureError, ProgramFailedError
from ...rollouts.episode import Episode, Outcome
from ...rollouts.options import RunOptions
from ...rollouts.pool import EnvPool
from ...rollouts.runner import IndexedTask, run_episodes
from ...tasks.score import Score
from ...tasks.spec import TaskSpec

LEFT = "the client left before the episode was over"
FAREWELL = 4.0
"""Seconds to finish the last call and the record of a client that has left; the SDK waits five."""


@dataclass(frozen=True, slots=True)
class Told:
    """Answer to an action of a client.

    Args:
        observation: new messages; ``None`` if the action had no result.
        over: whether the episode has ended.
        score: score of the episode, once it has ended.
        problem: description of an infrastructure failure, if there was one: the episode is void.
    """

    observation: Observation | None
    over: bool = False
    score: Score | None = None
    problem: str | None = None


class McpEpisode:
    """An episode, from ``begin`` until its environment ends it or its client leaves.

    ``run_episodes`` waits for actions, the client takes them, and waits for their results. A client that leaves before
    the end has failed the task: the episode is ``policy_failed``. One that never acted leaves no record. Failures of
    the environment are not retried, because the client cannot repeat its actions.

    Args:
        pool: pool of its environment.
        task: specification of the task.
        place: index in the run, which determines its id.
        run_seed: seed of the run.
        finished: callback with the record.
    """

    def __init__(
        self, pool: EnvPool, task: TaskSpec, place: int, run_seed: int, finished: Callable[[Episode], None]
    ) -> None:
        self._pool, self._task, self._place, self._finished = pool, task, place, finished
        self._options = RunOptions(
            concurrency=1, retries=0, turn_timeout=None, seed=run_seed, env_kwargs=dict(pool.env_kwargs)
        )
        self._player = _Player()
        self._turn = asyncio.Lock()
        self._record: Episode | None = None
        self._playing: asyncio.Task[None] | None = None

    @property
    def tools(self) -> Sequence[Tool]:
        """Tools that the client may call, once the episode has started."""
        return self._player.tools

    async def begin(self) -> Observation:
        """Start the episode and return the first observation.

        Raises:
            InfrastructureError: the environment could not be created or reset.
            UsageError: there is no such task.
        """
        self._playing = asyncio.create_task(self._play(), name="turnwise-mcp-episode")
        first = await self._next()
        if self._playing.done():
            await self._playing  # raises errors that the user has to fix
        if first.observation is None:
            raise InfrastructureError(first.problem or "the episode was over before it began")
        return first.observation

    async def take(self, action: Action) -> Told:
        """Take one action; simultaneous actions are taken one after another.

        The action counts even if the client does not wait for the answer.
        """
        return await asyncio.shield(asyncio.ensure_future(self._take(action)))

    async def leave(self) -> None:
        """End the episode, because the client has left."""
        playing = self._playing
        if playing is None:
            return
        self._player.actions.put_nowait(None)
        await asyncio.wait((playing,), timeout=FAREWELL)
        playing.cancel()
        await asyncio.wait((playing,))

    async def _take(self, action: Action) -> Told:
        async with self._turn:
            if self._playing is None or self._playing.done():
                return self._ended(None)
            self._player.actions.put_nowait(action)
            return await self._next()

    async def _next(self) -> Told:
        """Return the next observation, or the end; the score is in the record, which follows the last observation."""
        assert self._playing is not None
        showing = asyncio.ensure_future(self._player.shown.get())
        try:
            await asyncio.wait((showing, self._playing), return_when=asyncio.FIRST_COMPLETED)
            return Told(showing.result()) if showing.done() else self._ended(self._player.last)
        finally:
            showing.cancel()

    def _ended(self, observation: Observation | None) -> Told:
        record = self._record
        if record is not None and record.outcome.trainable:
            return Told(observation, over=True, score=record.score)
        problem = (record.error if record is not None else None) or "the server is being stopped"
        return Told(None, over=True, problem=problem)

    async def _play(self) -> None:
        tasks = [IndexedTask(self._place, self._task)]
        async with aclosing(run_episodes(self._pool, self._player, tasks, options=self._options)) as episodes:
            async for episode in episodes:
                self._record = episode
                if episode.turns or episode.outcome is not Outcome.POLICY_FAILED:
                    self._finished(episode)  # a client that only listed the tools did not fail the task


class _Player:
    """The runner's side: an agent that is its own single session."""

    def __init__(self) -> None:
        self.actions: asyncio.Queue[Action | None] = asyncio.Queue()
        self.shown: asyncio.Queue[Observation] = asyncio.Queue()
        self.last: Observation | None = None
        self.tools: Sequence[Tool] = ()

    def start(self, context: EpisodeContext) -> _Player:
        self.tools = context.tools
        return self

    async def act(self, observation: Observation) -> Decision:
        self.shown.put_nowait(observation)
        action = await self.actions.get()
        if action is None:
            raise ProgramFailedError(LEFT)
        return Decision(action)

    async def over(self, observation: Observation) -> tuple[int, ...]:
        self.last = observation
        return ()

    async def close(self) -> None:
        pass
