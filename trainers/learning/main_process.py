"""What process 0 alone does, and all of them hear of."""

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
    """What the leading process says: what it found out, or that it was stopped."""

    value: T | None = None
    stopped: str = ""
    interrupted: bool = False


class StoppedByMain(KeyboardInterrupt):
    """Process 0 was interrupted while it played, and this one stops with it: between two steps of learning."""


async def run_on_main(world: ProcessGroup, act: Callable[[], Awaitable[T]]) -> T:
    """What process 0 finds out, in every process.

    Whatever takes time and can be interrupted happens in here; between two calls, all processes do the same. So when
    process 0 is stopped, each of the others is waiting here to be told, and all stop at the same place.

    Args:
        world: the processes.
        act: is awaited in process 0 only.

    Raises:
        StoppedByMain: process 0 was interrupted (raised in the others, which pay no attention to signals).
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
        asyncio.CancelledError: It came (raised in process 0).
        StoppedByMain: It came (raised in the others).
    """
    await run_on_main(world, partial(asyncio.sleep, 0))
