"""``Slot``: the right of a path of a tree to be played, which it returns while it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from .episode_state import HostProvider
from .hosts import Host

T = TypeVar("T")


class Slot:
    """Right to be played, one of ``concurrency``; a path that waits for others returns it meanwhile."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots, self._held = slots, False

    async def __aenter__(self) -> Self:
        await self._slots.acquire()
        self._held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held:
            self._held = False
            self._slots.release()

    async def lent(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Return the slot while waiting for other paths."""
        await self.__aexit__()
        result = await waiting
        await self.__aenter__()
        return result

    def without(self, provider: HostProvider) -> HostProvider:
        """Return a source of environments on which the path waits without its slot, if it has to queue there.

        Otherwise, paths that have environments could wait for the slots of paths that wait for environments.
        """
        return _Queue(provider, self) if provider.queues else provider


class _Queue:
    queues = True

    def __init__(self, provider: HostProvider, slot: Slot) -> None:
        self._provider, self._slot = provider, slot

    async def take(self) -> Host:
        taken = list[Host]()

        async def take() -> None:
            taken.append(await self._provider.take())

        try:
            await self._slot.lent(take())
        except BaseException:  # it was canceled while it waited for a slot again
            for host in taken:
                self._provider.give(host, reusable=True)
            raise
        return taken[0]

    def give(self, host: Host, *, reusable: bool) -> None:
        self._provider.give(host, reusable=reusable)
