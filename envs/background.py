"""Running an author's coroutine from synchronous code: one event loop, on one daemon thread, for the process."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar, cast

from ..errors import ContractError

T = TypeVar("T")
THREAD = "turnwise-sync"


def resolve(value: Any) -> Any:
    """``value``, awaited on the background loop if it needs awaiting.

    Raises:
        ContractError: called from a coroutine that is itself running there, which would wait for itself for ever.
    """
    if not inspect.isawaitable(value):
        return value
    if threading.current_thread().name == THREAD:
        if inspect.iscoroutine(value):
            value.close()
        raise ContractError(
            "a coroutine of an environment called a synchronous method; await areset() or astep() instead"
        )

    async def wait() -> Any:
        return await value

    return asyncio.run_coroutine_threadsafe(wait(), _loop()).result()


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


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=THREAD, daemon=True).start()
    return loop
