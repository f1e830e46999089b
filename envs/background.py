"""Run an author's coroutine from synchronous code: one event loop, on one daemon thread, for the process."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from ..errors import ContractError
from ..loop_thread import LoopThread

T = TypeVar("T")
LOOP = LoopThread("turnwise-sync", "environments with coroutines")


def resolve(value: Any) -> Any:
    """Return ``value``, awaited on the background loop if it is awaitable.

    Raises:
        ContractError: called from a coroutine that is itself running there, which would wait for itself for ever.
    """
    if not inspect.isawaitable(value):
        return value
    if LOOP.is_current:
        if inspect.iscoroutine(value):
            value.close()
        raise ContractError(
            "a coroutine of an environment called a synchronous method; await areset() or astep() instead"
        )

    async def wait() -> Any:
        return await value

    return LOOP.wait(wait())


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that is known to await nothing, without any event loop.

    Raises:
        ContractError: it did await something.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    coroutine.close()
    raise ContractError("a coroutine that was declared to need no event loop waited for one")
