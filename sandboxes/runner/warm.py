"""Cells made ahead of time, since a container takes a tenth of a second to start; each is used only once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable

from .behind import Behind
from .cell import Cell

Make = Callable[[], Awaitable[Cell]]
AGE = 600.0
"""Seconds after which an unused cell is replaced."""


class WarmCells:
    """Cells of one kind, that of the most recent sandbox.

    Args:
        behind: background tasks that make and remove them.
    """

    def __init__(self, behind: Behind) -> None:
        self.size, self._behind = 0, behind
        """``size``: number of cells to keep ready; with 0 each is made on demand."""
        self._kind = ""
        self._ready = deque[tuple[float, Cell]]()
        self._making = 0

    def take(self, kind: str, make: Make) -> Cell | None:
        """Return an unused cell, if one is ready, and make others in the background. It may have died meanwhile.

        Args:
            kind: name of the cell's properties; all cells of a kind are alike.
            make: function that makes one of this kind.
        """
        if kind != self._kind:
            self._kind = kind
            self._discard(len(self._ready))
        self._discard(len(self._ready) - self.size)
        found = None
        while found is None and self._ready:
            born, cell = self._ready[0]
            if time.monotonic() - born > AGE or cell.reader.at_eof():
                self._discard(1)
            else:
                found = cell
                self._ready.popleft()
        for _ in range(self.size - len(self._ready) - self._making):
            self._making += 1
            self._behind.do(self._refill(kind, make))
        return found

    async def close(self) -> None:
        """Remove unused cells."""
        self.size = 0
        self._discard(len(self._ready))
        await self._behind.settle()

    async def _refill(self, kind: str, make: Make) -> None:
        try:
            cell = await make()
        finally:
            self._making -= 1
        if kind == self._kind and self.size:
            self._ready.append((time.monotonic(), cell))
        else:
            await cell.kill()

    def _discard(self, n: int) -> None:
        """End the first ``n`` cells."""
        for _ in range(n):
            self._behind.do(self._ready.popleft()[1].kill())
