"""``McpEpisode``: one episode whose agent is a client of the Model Context Protocol, played as every other is."""

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
from ...rollouts.runner import Placed, run_episodes
from ...tasks.score import Score
from ...tasks.spec import TaskSpec

LEFT = "the client left before the episode was over"
FAREWELL = 4.0
"""Seconds for what a client that has left was waiting for, and for the record; the SDK waits five."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a client is told when it has acted.

    Args:
        observation: the new messages; ``None`` where nothing came of the action.
        over: whether the episode is over.
        score: how it was judged, once it is.
        problem: what is wrong with the machinery, if something is: the episode is void.
    """

    observation: Observation | None
    over: bool = False
    score: Score | None = None
    problem: str | None = None


class McpEpisode:
    """An episode, from ``begin`` until its environment ends it or its client leaves.

    ``run_episodes`` asks for actions, the client takes them, and each waits for the other. A client that leaves before
    the end has failed the task: the episode is ``policy_failed``. One that never acted only looked, and leaves no
    record. What goes wrong in the environment is not tried again, since the client cannot be.

    Args:
        pool: where its environment comes from.
        task: what is asked.
        place: its place in the run, from which its id follows.
        run_seed: names the run.
        finished: gets the record.
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
        """What may be called, once it has begun."""
        return self._player.tools

    async def begin(self) -> Observation:
        """The first observation.

        Raises:
            InfrastructureError: the environment could not be made, or not reset.
            UsageError: there is no such task.
        """
        self._playing = asyncio.create_task(self._play(), name="turnwise-mcp-episode")
        told = await self._next()
        if self._playing.done():
            await self._playing  # raises what is the person's to mend
        if told.observation is None:
            raise InfrastructureError(told.problem or "the episode was over before it began")
        return told.observation

    async def take(self, action: Action) -> Told:
        """Take one action; those that come at once are taken one after another.

        A client that does not wait for the answer has acted all the same.
        """
        return await asyncio.shield(asyncio.ensure_future(self._take(action)))

    async def leave(self) -> None:
        """The client is gone."""
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
        """What is shown next, or how it ended: the score is in the record, which comes after the last observation."""
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
        tasks = [Placed(self._place, self._task)]
        async with aclosing(run_episodes(self._pool, self._player, tasks, options=self._options)) as episodes:
            async for episode in episodes:
                self._record = episode
                if episode.turns or episode.outcome is not Outcome.POLICY_FAILED:
                    self._finished(episode)  # who only asked what there is did not fail at it


class _Player:
    """The runner's side: an agent with one session, which is itself."""

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
