"""Episodes of a server: each belongs to one client, acts once per turn, and outlives a broken socket for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...envs.base import Stepped
from ...envs.messages import Action, bounded
from ...envs.remote.frames import action_to_json, reset_to_json, stepped_to_json
from ...errors import RequestError, UsageError
from ...logs import event
from ...rollouts.hosts import Host, in_time
from ...tasks.spec import TaskSpec
from .calls import CallersStep, digest_of, ended, log_failure, now, shared
from .catalog import Served
from .episode_table import EpisodeTable
from .places import Places
from .process_limits import ProcessLimits
from .served_episode import ServedEpisode
from .settings import ServeConfig

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Episodes(EpisodeTable):
    """All episodes of a server.

    Args:
        config: settings of the server.
    """

    def __init__(self, config: ServeConfig) -> None:
        super().__init__()
        self._config = config
        self.places = Places(config.capacity, config.per_client or config.capacity, config.waiting)
        self.limits = ProcessLimits(config)
        self._running: set[asyncio.Task[Any]] = set()

    async def reset(
        self,
        client: str,
        id: Any,
        served: Served,
        task: TaskSpec,
        wait: float,
        connection: object,
        waits: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Start an episode; the same request again gets the same answer.

        Args:
            client: digest of the client's token.
            id: id of the episode, as the client sent it.
            served: environment to play.
            task: task to reset to.
            wait: maximum seconds to wait for a place.
            connection: connection on which the request arrived.
            waits: called if the request has to wait for a place; an exception from it refuses the request.
        """
        known = self._open.get(id) if isinstance(id, str) else None
        if known is None:
            known = self._added(id, client, served, task, connection)
            known.opening = self._call(known, self._begin(known, wait, waits))
        elif known.client != client or known.served is not served or known.task != task:
            raise RequestError("this episode was started with another task", code="conflict")
        elif known.waiting:
            waits()
        known.touch(connection)
        assert known.opening is not None
        return await shared(known.opening)

    async def step(self, episode: ServedEpisode, turn: int, action: Action) -> dict[str, Any]:
        """Take the action of a turn, once: the last turn again gets the same answer."""
        return await shared(self.start_step(episode, turn, action))

    def start_step(self, episode: ServedEpisode, turn: int, action: Action) -> asyncio.Task[dict[str, Any]]:
        """Start what ``step`` waits for."""
        read = bounded(action)
        digest, size = digest_of(read)
        size = size if read is action else self._config.frame  # the request waits, too, however short its problem is
        if episode.last is not None and episode.last[0] == turn:
            if episode.last[1] != digest:
                raise RequestError(f"turn {turn} already has another action", code="conflict")
            return episode.last[2]
        if turn != episode.turn:
            raise RequestError(f"the episode is at turn {episode.turn}; got an action for {turn}", code="conflict")
        if episode.over:
            raise ended()
        self._queue(episode, size)
        episode.turn += 1
        task = self._call(episode, self._act(episode, read))
        task.add_done_callback(lambda _: episode.unqueue(size))
        episode.last = turn, digest, task
        return task

    async def step_once(self, episode: ServedEpisode, key: Any, action: Action) -> dict[str, Any]:
        """Take the next turn, or return its answer again if the last request had this key; see ``repeats``."""
        step = self.start_step(episode, episode.turn - episode.repeats(key), action)
        episode.named(key)
        return await shared(step)

    async def next_step(self, episode: ServedEpisode, action: Action) -> dict[str, Any]:
        """Take the next action in the caller's task: cheaper than ``step``, for clients that repeat no request."""
        if episode.over:
            raise ended()
        read, size = bounded(action), 0
        if read is not action:
            size = self._config.frame
        elif episode.calls:  # without another call, nothing waits
            size = digest_of(read)[1]
        self._queue(episode, size)
        episode.turn += 1
        step = CallersStep()
        episode.calls.add(step)
        try:
            return await self._act(episode, read)
        except asyncio.CancelledError:
            if episode.id in self._open or step.caller.uncancel():
                raise
            raise RequestError("the episode was closed meanwhile", code="lost") from None
        finally:
            step.set_result(None)
            episode.unqueue(size)
            episode.touch()
            episode.calls.discard(step)

    async def choose(self, episode: ServedEpisode, verb: str, seed: int = 0) -> dict[str, Any]:
        """Return the action of the oracle, or of an agent that knows only the rules."""

        def ask(host: Host) -> Coroutine[Any, Any, Action]:
            return host.oracle() if verb == "oracle" else host.random(seed)

        return {"action": action_to_json(await shared(self._call(episode, self._ask(episode, ask, verb))))}

    async def fork(self, episode: ServedEpisode, id: Any, connection: object) -> dict[str, Any]:
        """Start another episode in the same state; the same request again does nothing."""
        known = self._open.get(id) if isinstance(id, str) else None
        if known is None:
            child = self._added(id, episode.client, episode.served, episode.task, connection)
            child.parent = episode.id
            child.opening = episode.forks[id] = self._call(child, self._fork(episode, child))
        elif id not in episode.forks:
            raise RequestError("this id belongs to another episode", code="conflict")
        return await shared(episode.forks[id])

    async def finish(self, episode: ServedEpisode) -> None:
        """Let an episode play no further, and free its place. Its answers are kept as those of other ended ones."""
        async with episode.acting:
            episode.over, episode.awaited = True, False
        await self._retire(episode)

    async def close(self, client: str, id: Any) -> None:
        """End an episode, if it is open."""
        episode = self._open.get(id) if isinstance(id, str) else None
        if episode is not None and episode.client == client:
            await asyncio.shield(self._run(self._end(episode)))  # even if the connection breaks now

    def expect(self, connection: object) -> None:
        """Let ``reattach`` be the limit of a connection's episodes until its next request, if there is such a limit."""
        if self._config.reattach > 0:
            self.detach(connection)

    async def end_of(self, connection: object) -> None:
        """End the episodes of a connection whose client cannot come back."""
        await asyncio.gather(*(self._end(e) for e in list(self._open.values()) if e.connection is connection))

    async def sweep(self) -> None:
        """End episodes whose client is disconnected, or silent, for too long."""
        at = now()
        for episode in list(self._open.values()):
            limit = self._config.reattach if episode.connection is None else self._config.idle
            if at - episode.touched > limit and not any(not call.done() for call in episode.calls):
                try:
                    await self._end(episode)
                except Exception as error:  # the next episodes, and the next sweeps, must still end
                    event(LOG, "episode not closed", f"{type(error).__name__}: {error}", level=logging.WARNING)

    async def end(self) -> None:
        """End all episodes."""
        await asyncio.gather(*(self._end(episode) for episode in list(self._open.values())))
        await asyncio.gather(*self._running, return_exceptions=True)

    # -- internals ------------------------------------------------------------------------------------------------

    def _call(self, episode: ServedEpisode, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that survives a broken socket."""
        task = asyncio.create_task(work)
        episode.calls.add(task)
        task.add_done_callback(episode.calls.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved even without a waiter
        task.add_done_callback(lambda _: episode.touch())  # the client's time runs from the answer
        return task

    def _queue(self, episode: ServedEpisode, size: int) -> None:
        """Count the bytes of another action of an episode, which its calls in progress may make wait.

        Raises:
            RequestError: too many calls, or calls of too many bytes, have no answer yet.
        """
        if len(episode.calls) >= self._config.pending:
            raise RequestError("too many calls of this session have no answer yet", code="busy")
        if episode.queued + size > 4 * self._config.frame:
            raise RequestError("the calls of this session that have no answer yet have too many bytes", code="busy")
        episode.queued += size

    async def _begin(self, episode: ServedEpisode, wait: float, waits: Callable[[], None]) -> dict[str, Any]:
        def queued() -> None:
            waits()
            episode.waiting = True

        try:
            await self.places.acquire(episode.client, wait, queued)
            episode.waiting = False
        except BaseException:
            self._open.pop(episode.id, None)  # nothing has started, so the same id may try again
            raise
        try:
            pool = episode.served.pool
            async with asyncio.timeout(self._config.env_timeout):
                episode.host = await pool.take()
            host = episode.host
            observation, info = await in_time(host.reset(episode.task), "reset", self._config.env_timeout)
            return reset_to_json(observation, info, host.tools)
        except BaseException as error:
            log_failure("reset", error)
            self._fail(episode, "reset", error)
            raise

    async def _act(self, episode: ServedEpisode, action: Action) -> dict[str, Any]:
        async def step(host: Host) -> Stepped:
            stepped = await host.step(action)
            episode.played, episode.over = episode.played + 1, stepped[2] or stepped[3]
            episode.earned += stepped[1]
            return stepped

        stepped = await self._ask(episode, step, "step")
        if episode.over:
            await self._retire(episode)
        return stepped_to_json(stepped)

    async def _retire(self, episode: ServedEpisode) -> None:
        async with episode.acting:  # a fork that the client requested before comes first
            await self._vacate(episode)
        self._keep_ended(episode)

    async def _fork(self, episode: ServedEpisode, child: ServedEpisode) -> dict[str, Any]:
        try:
            await self.places.acquire(child.client, 0.0)
        except BaseException:
            self._open.pop(child.id, None)
            episode.forks.pop(child.id, None)
            raise
        episode.related = child.related = True

        async def branch(host: Host) -> tuple[Host, int, bool]:
            return await host.fork(), episode.played, episode.over  # before the next step of the parent

        forking = self._call(episode, self._ask(episode, branch, "fork"))
        try:
            child.host, child.played, child.over = await shared(forking)
        except asyncio.CancelledError:  # the fork was closed; its parent's call must go on
            self._run(self._unwanted(child, forking))
            raise
        except Exception as error:
            self._fail(child, "fork", error)
            raise
        child.turn = child.played
        return {}

    async def _unwanted(self, child: ServedEpisode, forking: asyncio.Task[tuple[Host, int, bool]]) -> None:
        """Close the host of a fork that its client closed while it was being created."""
        try:
            await asyncio.wait([forking])
            if not forking.cancelled() and forking.exception() is None:
                await child.served.pool.discard(forking.result()[0])
        finally:
            self.places.release(child.client)

    def _run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of the server itself; ``end`` waits for it."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _ask(self, episode: ServedEpisode, call: Callable[[Host], Coroutine[Any, Any, Any]], verb: str) -> Any:
        async with episode.acting:
            if episode.opening is not None and not episode.opening.done():
                await shared(episode.opening)
            if episode.over and (verb == "step" or episode.host is None):
                raise ended()  # a step before this one may have ended the episode meanwhile
            host = episode.host
            if host is None:
                raise RequestError(f"the episode has failed: {episode.failed or 'it did not start'}", code="lost")
            try:
                return await in_time(call(host), verb, self._config.env_timeout)
            except UsageError as error:
                log_failure(verb, error)
                raise
            except BaseException as error:
                log_failure(verb, error)
                if verb == "step" or host.busy:
                    self._fail(episode, verb, error)
                raise

    def _fail(self, episode: ServedEpisode, verb: str, error: BaseException) -> None:
        """Release a failed environment, and keep its episode, so that the client learns the reason."""
        host, episode.host = episode.host, None
        episode.failed = f"{type(error).__name__} in {verb}"
        if host is not None:
            episode.served.pool.give(host, reusable=isinstance(error, UsageError))
        self.places.release(episode.client)
        self._keep_failed(episode.id)

    async def _end(self, episode: ServedEpisode) -> None:
        if episode.id not in self._open:
            return
        self._forget(episode.id)
        me = asyncio.current_task()
        calls = [call for call in episode.calls if not call.done() and me not in (call, getattr(call, "caller", None))]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._vacate(episode)

    async def _vacate(self, episode: ServedEpisode) -> None:
        """Return the environment of an episode to the pool, and free its place."""
        host, episode.host = episode.host, None
        if host is None:
            return
        worn = not host.busy and self.limits.is_worn(host)
        leaving = self._leave(episode, host, discard=worn or (episode.related and not host.busy))
        if worn:
            self._run(leaving)  # no client waits for the end of a process
        else:
            await leaving

    async def _leave(self, episode: ServedEpisode, host: Host, *, discard: bool) -> None:
        try:
            if discard:
                await episode.served.pool.discard(host)
            else:
                episode.served.pool.give(host, reusable=True)
        finally:
            self.places.release(episode.client)
