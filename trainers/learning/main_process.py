"""Run a function on rank 0 and broadcast its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from ...errors import InfrastructureError
from .parallel import ProcessGroup
from .uninterrupted import uninterrupted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Found(Generic[T]):
    """Broadcast of the main process: a result, or that it was stopped."""

    value: T | None = None
    stopped: str = ""
    interrupted: bool = False


class StoppedByMain(KeyboardInterrupt):
    """Raised in the other processes when process 0 was interrupted outside a step of learning; all stop together."""


class MainStopped(InfrastructureError):
    """Raised in the other processes when process 0 failed in a function that it runs alone."""


async def run_on_main(world: ProcessGroup, act: Callable[[], Awaitable[T]]) -> T:
    """Run a function on process 0 only, and return its result in every process.

    Everything slow or interruptible happens in here; between two calls, all processes do the same. When process 0 is
    stopped, each of the others is waiting here for its broadcast, so all stop at the same place.

    Args:
        world: processes of the run.
        act: coroutine function to await in process 0.

    Raises:
        StoppedByMain: process 0 was interrupted (raised in the others, which ignore signals).
        MainStopped: process 0 failed (raised in the others).
    """
    if world.is_main:
        try:
            value = await act()
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            world.broadcast(_Found(stopped=f"{type(error).__name__}: {error}", interrupted=cancelled))
            raise
        world.broadcast(_Found(value))
        return value
    heard: _Found[T] = world.broadcast()
    if heard.interrupted:
        raise StoppedByMain
    if heard.stopped:
        raise MainStopped(f"process 0 stopped: {heard.stopped}")
    return heard.value  # type: ignore[return-value]


async def beside_loop(world: ProcessGroup, act: Callable[[], T]) -> T:
    """Make a joint computation in a thread of process 0, so that episodes can be played meanwhile.

    An interruption is put off until the next wait, since the other processes compute to the end.

    Args:
        world: processes of the run; a single one computes in the event loop.
        act: function that all processes call together.
    """

    def claimed() -> T:
        world.claim_thread()
        return act()

    return await uninterrupted(asyncio.to_thread(claimed)) if world.size > 1 and world.is_main else act()


async def hear_interrupt(world: ProcessGroup) -> None:
    """Stop here, in all processes at once, if Ctrl-C came since the last wait.

    Raises:
        asyncio.CancelledError: Ctrl-C came (raised in process 0).
        StoppedByMain: Ctrl-C came (raised in the others).
    """
    await run_on_main(world, partial(asyncio.sleep, 0))
