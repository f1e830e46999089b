"""A thread that owns an engine and takes one step at a time; independent of vLLM."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ....errors import ContractError, InfrastructureError, TurnwiseError
from ...policy import Completion, Sampling
from ..answers import check_sampled, finish_of, shortened
from ..server import Pause, ServerResponse

T = TypeVar("T")
E = TypeVar("E", bound="Engine")
Command = Callable[[], None]


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Result of one step for one request.

    Args:
        name: name of the request.
        ids: new token ids.
        logprobs: log-probability of each new token.
        cached: number of prompt tokens that were in the prefix cache.
        reason: vLLM's reason why the request ended; ``None`` while it continues.
    """

    name: str
    ids: tuple[int, ...]
    logprobs: Sequence[float]
    cached: int = 0
    reason: str | None = None


class Engine(Protocol):
    """Interface of an engine, which only the thread that created it may use."""

    def add(self, name: str, prompt: Sequence[int], sampling: Sampling, adapter: str | None) -> None:
        """Start a request; raises ``ValueError`` for an invalid prompt."""
        ...

    def step(self) -> Sequence[StepOutput]:
        """Continue every request, usually by one token."""
        ...

    def abort(self, name: str) -> None:
        """Abort a request."""
        ...

    def close(self) -> None:
        """Free its memory."""
        ...


@dataclass(eq=False)
class Request:
    """One request; only the engine's thread may change it."""

    name: str
    prompt: tuple[int, ...]
    sampling: Sampling
    adapter: str | None
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[ServerResponse]
    started: float = field(default_factory=time.perf_counter)
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    cached: int = 0

    def finish(self, reason: str) -> None:
        """Set the answer, unless the caller no longer waits for it."""
        ids, logprobs = tuple(self.ids), tuple(self.logprobs)
        try:
            check_sampled(ids, ids, logprobs)
            completion = Completion(
                ids,
                logprobs,
                tuple(self.versions),
                finish_of(reason, ids, self.sampling),
                time.perf_counter() - self.started,
            )
        except TurnwiseError as error:
            self.fail(error)
            return
        _resolve_future(
            self.loop, self.answer, None, ServerResponse(completion, self.prompt, _spans(self.versions), self.cached)
        )

    def fail(self, error: Exception) -> None:
        """Fail the call with this error."""
        _resolve_future(self.loop, self.answer, error)


class EngineThread(Generic[E]):
    """Step an engine while there are requests, and run commands between two steps.

    Call its public methods from any event loop. Methods that begin with an underscore run in the thread.

    Args:
        create: function that creates the engine; called in the thread.
    """

    def __init__(self, create: Callable[[], E]) -> None:
        self._create = create
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stop_reason = "was not started"
        self._thread: threading.Thread | None = None
        self._running: dict[str, Request] = {}
        self._waiting: list[Request] = []
        self._paused = False
        self._drained: list[Command] = []  # called when the last request ends; pauses wait for this
        self._engine: E | None = None
        self.version = 0

    @property
    def engine(self) -> E:
        """The engine, for functions that run in the thread."""
        if self._engine is None:
            raise self._stopped_error()
        return self._engine

    @property
    def alive(self) -> bool:
        """Whether the engine accepts requests."""
        return not self._stop_reason

    def start(self) -> None:
        """Start the thread and create the engine.

        Raises:
            Exception: any error while creating the engine.
        """
        created: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(created,), name="turnwise-engine", daemon=True)
        self._thread.start()
        error = created.get()
        if error is not None:
            self._thread.join()
            raise error

    def stop(self) -> None:
        """Stop the engine; requests in flight fail. It can be started again."""
        if self._thread is not None:
            self._commands.put(lambda: self._mark_stopped("was stopped"))
            self._thread.join()
            self._thread = None

    async def generate(self, request: Request) -> ServerResponse:
        """Sample one continuation; cancelling the call aborts the request."""
        self._send(lambda: self._admit(request))
        try:
            return await request.answer
        finally:
            if request.answer.cancelled():
                self._commands.put(lambda: self._withdraw(request))

    async def pause(self, mode: Pause) -> None:
        """Stop between two tokens; requests that arrive during the pause wait."""
        loop = asyncio.get_running_loop()
        drained: asyncio.Future[None] = loop.create_future()

        def stop() -> None:
            self._paused = True
            if mode is Pause.ABORT:
                for request in list(self._running.values()):
                    self._withdraw(request)
                    request.finish("abort")
            self._drained.append(lambda: _resolve_future(loop, drained, None))
            if mode is not Pause.WAIT or not self._running:
                self._notify_drained()

        await self.call(stop)
        await drained

    async def resume(self) -> None:
        """Continue, and start the requests that arrived during the pause."""

        def start_waiting() -> None:
            self._paused = False
            self._notify_drained()
            waiting, self._waiting = self._waiting, []
            for request in waiting:
                self._admit(request)

        await self.call(start_waiting)

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function in the thread, between two steps.

        Raises:
            InfrastructureError: the function raised an error, or the engine has stopped.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                value = function()
            except Exception as error:
                _resolve_future(loop, done, self._wrap_error(error))
            else:
                _resolve_future(loop, done, None, value)

        self._send(run)
        return await done

    def _run(self, created: queue.SimpleQueue[Exception | None]) -> None:
        try:
            self._engine = self._create()
        except Exception as error:
            created.put(error)
            return
        self._stop_reason, self._paused = "", False
        created.put(None)
        while not self._stop_reason:
            with contextlib.suppress(queue.Empty):
                self._run_command(self._commands.get(block=not self._has_work()))
                continue
            self._step()
        with contextlib.suppress(queue.Empty):
            while True:  # answer the commands that arrived before the engine stopped
                self._run_command(self._commands.get(block=False))
        for request in (*self._running.values(), *self._waiting):
            request.fail(self._stopped_error())
        self._running, self._waiting = {}, []
        self._notify_drained()
        engine, self._engine = self._engine, None
        engine.close()

    def _run_command(self, command: Command) -> None:
        try:
            command()
        except Exception as error:
            self._mark_stopped(f"failed: {error or type(error).__name__}")

    def _has_work(self) -> bool:
        return bool(self._running) and (not self._paused or bool(self._drained))

    def _step(self) -> None:
        try:
            outputs = self.engine.step()
        except Exception as error:  # after any error the state of the engine is unknown
            self._mark_stopped(f"failed: {error or type(error).__name__}")
            return
        for output in outputs:
            request = self._running.get(output.name)
            if request is None:
                continue
            request.cached = request.cached or output.cached
            request.ids += output.ids
            request.logprobs += output.logprobs
            request.versions += [self.version] * len(output.ids)
            if output.reason is not None:
                del self._running[request.name]
                request.finish(output.reason)
        if not self._running:
            self._notify_drained()

    def _admit(self, request: Request) -> None:
        if request.answer.cancelled():
            return
        if self._paused:
            self._waiting.append(request)
            return
        try:
            self.engine.add(request.name, request.prompt, request.sampling, request.adapter)
        except ValueError as error:
            request.fail(ContractError(f"the engine refuses the prompt {shortened(request.prompt)}: {error}"))
        except Exception as error:
            request.fail(self._wrap_error(error))
        else:
            self._running[request.name] = request

    def _withdraw(self, request: Request) -> None:
        if self._running.pop(request.name, None) is not None:
            self.engine.abort(request.name)
        if not self._running:
            self._notify_drained()

    def _notify_drained(self) -> None:
        drained, self._drained = self._drained, []
        for notify in drained:
            notify()

    def _mark_stopped(self, why: str) -> None:
        with self._lock:
            self._stop_reason = why

    def _send(self, command: Command) -> None:
        with self._lock:
            if self._stop_reason:
                raise self._stopped_error()
            self._commands.put(command)

    def _stopped_error(self) -> InfrastructureError:
        return InfrastructureError(f"the engine in this process {self._stop_reason or 'is ending'}")

    def _wrap_error(self, error: Exception) -> Exception:
        if self._stop_reason:
            return self._stopped_error()
        return InfrastructureError(f"the engine in this process: {error}")


def _resolve_future(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], error: Exception | None, value: Any = None
) -> None:
    """Resolve a future of an event loop from another thread; does nothing if it was cancelled or the loop is closed."""

    def resolve() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(resolve)


def _spans(versions: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """Return spans of equal versions: ``(version, first token, token after the last)``."""
    edges = [0, *(i for i in range(1, len(versions)) if versions[i] != versions[i - 1]), len(versions)]
    return tuple((versions[first], first, end) for first, end in itertools.pairwise(edges) if end > first)
