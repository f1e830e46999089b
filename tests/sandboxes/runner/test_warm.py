"""Cells made ahead are handed out once each, of the requested kind, and none is left at the end."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from turnwise.errors import SandboxError
from turnwise.sandboxes.runner import warm
from turnwise.sandboxes.runner.behind import Behind
from turnwise.sandboxes.runner.cell import Cell
from turnwise.sandboxes.runner.warm import WarmCells


class PlayedCell:
    """A cell that only knows whether it was killed."""

    def __init__(self, kind: str) -> None:
        self.kind, self.killed = kind, False
        self.reader = asyncio.StreamReader()

    async def kill(self) -> None:
        self.killed = True


class Maker:
    """Makes cells of one kind, and remembers them."""

    def __init__(self, kind: str) -> None:
        self.kind, self.made = kind, list[PlayedCell]()

    async def __call__(self) -> Cell:
        await asyncio.sleep(0)
        self.made.append(PlayedCell(self.kind))
        return cast(Cell, self.made[-1])


def warm_cells(size: int, behind: Behind) -> WarmCells:
    cells = WarmCells(behind)
    cells.size = size
    return cells


async def taken(cells: WarmCells, make: Maker) -> PlayedCell:
    return cast(PlayedCell, cells.take(make.kind, make) or await make())


async def made(behind: Behind) -> None:
    """Wait until all that was to be made is there."""
    await behind.settle()


async def test_each_is_given_once_and_replaced() -> None:
    behind, make = Behind(), Maker("one")
    cells = warm_cells(2, behind)
    given = []
    for _ in range(4):
        given.append(await taken(cells, make))
        await made(behind)
    assert len(set(map(id, given))) == 4, "a used cell never comes back"
    assert len(make.made) == 4 + 2, "two are kept ready, no more"
    assert given[1] is make.made[0] or given[1] is make.made[1] or given[1] is make.made[2], "it was made before"
    await cells.close()
    assert [cell.killed for cell in make.made] == [cell not in given for cell in make.made]


async def test_another_kind_sends_the_old_ones_away() -> None:
    behind, first, second = Behind(), Maker("one"), Maker("two")
    cells = warm_cells(3, behind)
    mine = await taken(cells, first)
    await made(behind)
    assert (await taken(cells, second)).kind == "two"
    await made(behind)
    assert all(cell.killed for cell in first.made if cell is not mine)
    assert not mine.killed
    await cells.close()


async def test_a_cell_that_died_or_is_old_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    behind, make = Behind(), Maker("one")
    cells = warm_cells(1, behind)
    await taken(cells, make)
    await made(behind)
    make.made[-1].reader.feed_eof()
    dead = make.made[-1]
    assert await taken(cells, make) is not dead
    await made(behind)
    assert dead.killed
    old = make.made[-1]
    monkeypatch.setattr(warm, "AGE", -1.0)
    assert await taken(cells, make) is not old
    await cells.close()
    assert old.killed


async def test_what_cannot_be_made_ahead_is_passed_over() -> None:
    behind = Behind()
    cells = warm_cells(2, behind)

    async def fail() -> Cell:
        raise SandboxError("the engine is lost")

    for _ in range(2):
        assert cells.take("one", fail) is None, "whoever needs it makes it, and is told why it fails"
    await cells.close()


async def test_fewer_are_kept_when_fewer_are_wanted() -> None:
    behind, make = Behind(), Maker("one")
    cells = warm_cells(3, behind)
    await taken(cells, make)
    await made(behind)
    cells.size = 1
    await taken(cells, make)
    await made(behind)
    assert sum(not cell.killed for cell in make.made) == 1 + 1 + 1, "two were taken, one is ready"
    await cells.close()


async def test_without_warm_ones_each_is_made_when_it_is_asked_for() -> None:
    make = Maker("one")
    cells = warm_cells(0, Behind())
    await taken(cells, make)
    assert len(make.made) == 1
    await cells.close()
