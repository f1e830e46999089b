"""Hosts of environments: in the event loop, on a thread, or both, or (``host_process``) in another process.

A ``Host`` is the one seam between the runner and an environment, all of it async. An environment server is a further
host behind the same verbs (``host_socket``).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar, cast

from ..envs.asked import asked
from ..envs.author_line import at, author_line, author_traceback, noted
from ..envs.base import Reset, Stepped, TurnEnv
from ..envs.messages import Action
from ..envs.remote.description import describe, instance
from ..envs.tools import Tool
from ..errors import ContractError, EnvironmentFailedError, EnvironmentTimeoutError, InfrastructureError, UsageError
from ..tasks.rng import Rng
from ..tasks.spec import TaskSpec

Build = Callable[[], TurnEnv]
"""Creates one environment."""
CLOSING_GRACE = 5.0
"""Seconds that an environment gets to close itself before it is abandoned."""
AWAITED = ("reset", "step")
"""Verbs that an environment may have as coroutines."""

H = TypeVar("H", bound="Host")
T = TypeVar("T")


class Host(ABC):
    """One environment, wherever it runs, as async verbs.

    Every verb raises ``UsageError`` for input that the environment refuses (a task it cannot generate), and an
    ``InfrastructureError`` for any other failure in it. After such an error, or after a cancelled call (``busy`` stays
    true), do not use the host again: ``abandon`` it.
    """

    tools: Sequence[Tool] = ()
    """Tools that the agent may call in the current episode."""
    busy: bool = False
    """Whether a call is running, or was cancelled before it returned."""

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        return False

    async def reset(self, task: TaskSpec) -> Reset:
        """Start an episode of ``task``."""
        observation, info, self.tools = await self._do("reset", task)
        return observation, info

    async def step(self, action: Action) -> Stepped:
        """Take one action."""
        return cast(Stepped, await self._do("step", action))

    async def oracle(self) -> Action:
        """Return the environment's own best next action.

        Raises:
            ContractError: the environment has no oracle.
        """
        return cast(Action, await self._do("oracle"))

    async def random(self, seed: int) -> Action:
        """Return an action of an agent that knows only the rules."""
        return cast(Action, await self._do("random", seed))

    async def describe(self) -> dict[str, Any]:
        """Return what a remote client needs to know of the environment; see ``envs.remote.description.describe``."""
        return cast("dict[str, Any]", await self._do("describe"))

    async def instance(self, task: TaskSpec) -> str:
        """Return a digest of the task that a specification generates."""
        return cast(str, await self._do("instance", task))

    @abstractmethod
    async def fork(self) -> Host:
        """Return another host whose environment is in the same state and independent of this one."""

    @abstractmethod
    async def close(self) -> None:
        """Close the environment, giving it ``CLOSING_GRACE`` seconds."""

    @abstractmethod
    def abandon(self) -> None:
        """Give up the environment without waiting for it, whatever it is doing."""

    @abstractmethod
    async def _call(self, verb: str, argument: Any) -> Any:
        """Call one verb; see ``perform``."""

    def _alike(self, fork: H) -> H:
        """Return a fork, with the tools of its origin."""
        fork.tools = self.tools
        return fork

    async def _do(self, verb: str, argument: Any = None) -> Any:
        self.busy = True
        try:
            result = await self._call(verb, argument)
        except Exception:
            self.busy = False
            raise
        self.busy = False
        return result


class InlineHost(Host):
    """An environment called in the event loop: for pure Python that answers at once, or that awaits."""

    def __init__(self, env: TurnEnv) -> None:
        self._env = env
        self._async = hasattr(env, "astep")

    @classmethod
    async def open(cls, build: Build) -> Self:
        """Create the environment in the event loop."""
        try:
            return cls(build())
        except (Exception, SystemExit) as error:
            raise translated(error, "open") from error

    async def _call(self, verb: str, argument: Any) -> Any:
        if self._async and verb in AWAITED:
            return await awaited(self._env, verb, argument)
        try:
            return perform(self._env, verb, argument)
        except (Exception, SystemExit) as error:
            raise translated(error, verb) from error

    async def fork(self) -> InlineHost:
        return self._alike(InlineHost(await self._do("fork")))

    async def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):
            self._env.close()


class ThreadHost(Host):
    """An environment on its own daemon thread: for environments that block.

    A call that never returns costs only its thread. The thread is abandoned, closes the environment if it ever returns,
    and does not keep the process from exiting.
    """

    def __init__(self, worker: Worker, env: TurnEnv) -> None:
        self._worker = worker
        self._env = env

    @classmethod
    async def open(cls, build: Build) -> Self:
        """Create the environment on its thread, so that thread-bound resources work."""
        worker, made = Worker(), list[TurnEnv]()
        try:
            await worker.call(lambda: made.append(build()), "open")
        except BaseException:
            worker.post(lambda: made[0].close())
            worker.stop()
            raise
        return cls(worker, made[0])

    async def _call(self, verb: str, argument: Any) -> Any:
        made = list[Any]()
        try:
            await self._worker.call(lambda: made.append(perform(self._env, verb, argument)), verb)
        except asyncio.CancelledError:  # nothing else knows a fork, and the thread may still be making it
            self._worker.post(lambda: made[0].close() if verb == "fork" else None)
            raise
        return made[0]

    async def fork(self) -> ThreadHost:
        return self._alike(type(self)(env=await self._do("fork"), worker=Worker()))  # the thread last: it may fail

    async def close(self) -> None:
        done = self._worker.call(self._env.close, "close")
        self._worker.stop()
        with contextlib.suppress(Exception):
            await in_time(done, "close", CLOSING_GRACE)

    def abandon(self) -> None:
        self._worker.post(self._env.close)
        self._worker.stop()


class AwaitingHost(ThreadHost):
    """An environment that awaits its server: resets and steps run in the event loop, and all else on a thread.

    Creating, forking and closing it wait for the server synchronously, and would stop all other episodes.
    """

    async def _call(self, verb: str, argument: Any) -> Any:
        if verb in AWAITED and hasattr(self._env, "astep"):
            return await awaited(self._env, verb, argument)
        return await super()._call(verb, argument)


class Worker:
    """A daemon thread that executes calls in order and returns results to the calling event loop."""

    def __init__(self) -> None:
        self.late = False
        """Whether the last call was not finished in time."""
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="turnwise-env", daemon=True).start()

    def call(self, function: Callable[[], Any], verb: str) -> asyncio.Future[Any]:
        """Return a future of ``function()``, executed on the thread; its exceptions are translated."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            try:
                answer: tuple[Callable[[Any], None], Any] = future.set_result, function()
            except BaseException as error:
                problem = translated(error, verb)
                problem.__cause__ = None if problem is error else error
                answer = future.set_exception, problem
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(lambda: None if future.done() else answer[0](answer[1]))

        self._calls.put(work)
        return future

    def wait(self, function: Callable[[], T], verb: str, seconds: float | None) -> T:
        """Return ``function()``, executed on the thread, for code without an event loop; its exceptions are unchanged.

        Raises:
            EnvironmentTimeoutError: the call did not return in time; the thread still executes it.
        """
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def work() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:
                answer.set_exception(error)

        self._calls.put(work)
        self.late = not concurrent.futures.wait([answer], seconds).done
        if self.late:
            raise late(verb, seconds)
        return answer.result()

    def post(self, function: Callable[[], Any]) -> None:
        """Execute ``function`` after the current calls, and ignore its result."""

        def work() -> None:
            with contextlib.suppress(BaseException):
                function()

        self._calls.put(work)

    def stop(self) -> None:
        """End the thread after the current calls."""
        self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()
            del work  # otherwise the call would keep the environment alive until the next one


def late(verb: str, seconds: float | None) -> EnvironmentTimeoutError:
    """Return the error for an environment that did not answer in time."""
    return EnvironmentTimeoutError(f"no answer to {verb} after {seconds:g} s (env_timeout)")


async def in_time(call: Awaitable[T], verb: str, seconds: float | None) -> T:
    """Return what a call of an environment returns in time.

    Raises:
        EnvironmentTimeoutError: it does not return in time; abandon the host.
    """
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await call
    except TimeoutError:
        if not deadline.expired():
            raise
        raise late(verb, seconds) from None


async def awaited(env: TurnEnv, verb: str, argument: Any) -> Any:
    """Call one verb of ``AWAITED`` on an environment, in the event loop."""
    try:
        if verb == "step":
            return await env.astep(argument)
        observation, info = await env.areset(options={"task": argument})
        return observation, info, env.get_wrapper_attr("tools")
    except (Exception, SystemExit) as error:
        raise translated(error, verb) from error


def perform(env: TurnEnv, verb: str, argument: Any) -> Any:
    """Call one verb on an environment, synchronously; threads and child processes run this."""
    if verb == "step":
        return env.step(argument)
    if verb == "reset":
        observation, info = env.reset(options={"task": argument})
        return observation, info, env.get_wrapper_attr("tools")
    if verb == "oracle":
        return asked(env, "oracle")
    if verb == "random":
        return asked(env, "random_action", Rng("random_action", argument))
    if verb == "fork":
        if not callable(fork := getattr(env, "fork", None)):
            raise ContractError(f"{type(env).__name__} has no fork(), so it cannot branch in the middle of an episode")
        return fork()
    if verb == "describe":
        return describe(env)
    if verb == "instance":
        return instance(env, argument)
    raise ValueError(f"unknown verb {verb!r} for an environment host")


def translated(error: BaseException, verb: str) -> Exception:
    """Return the error that the runner raises for an exception of an environment.

    Usage errors and infrastructure errors pass unchanged, and so does a missing oracle. Anything else becomes an
    ``EnvironmentFailedError`` that names the exception and the author's line.
    """
    if isinstance(error, (UsageError, InfrastructureError)):
        return error
    if isinstance(error, ContractError) and verb in ("oracle", "random", "fork"):
        return error
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # Python wraps a StopIteration that leaves a coroutine
    where = author_line(error)
    if not where and not isinstance(error, (ContractError, TypeError)):  # their messages name the author's method
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = "".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in last)
    failed = EnvironmentFailedError(
        f"environment raised in {verb}: {type(error).__name__}: {error}{at(where)}{noted(error)}"
    )
    failed.traceback = author_traceback(error)
    return failed
