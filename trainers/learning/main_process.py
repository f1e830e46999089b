"""Run a function on rank 0 and broadcast its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from ...errors import InfrastructureError
from .parallel import ProcessGroup

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Found(Generic[T]):
    """Broadcast of the main process: a result, or that it was stopped."""

    value: T | None = None
    stopped: str = ""
    interrupted: bool = False


class StoppedByMain(KeyboardInterrupt):
    """Raised in the other processes when process 0 was interrupted outside a step of learning; all stop together."""


async def run_on_main(world: ProcessGroup, act: Callable[[], Awaitable[T]]) -> T:
    """Run a function on process 0 only, and return its result in every process.

    Everything slow or interruptible happens in here; between two calls, all processes do the same. When process 0 is
    stopped, each of the others is waiting here for its broadcast, so all stop at the same place.

    Args:
        world: processes of the run.
        act: coroutine function to await in process 0.

    Raises:
        StoppedByMain: process 0 was interrupted (raised in the others, which ignore signals).
        InfrastructureError: process 0 failed (raised in the others).
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
        raise InfrastructureError(f"process 0 stopped: {heard.stopped}")
    return heard.value  # type: ignore[return-value]


async def hear_interrupt(world: ProcessGroup) -> None:
    """Stop here, in all processes at once, if Ctrl-C came since the last wait.

    Raises:
        asyncio.CancelledError: Ctrl-C came (raised in process 0).
        StoppedByMain: Ctrl-C came (raised in the others).
    """
    await run_on_main(world, partial(asyncio.sleep, 0))
