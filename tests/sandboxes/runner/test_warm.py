"""Runners started ahead are handed out once each, of the requested kind, and none is left at the end."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from turnwise.errors import SandboxError
from turnwise.sandboxes.runner import warm
from turnwise.sandboxes.runner.background import BackgroundTasks
from turnwise.sandboxes.runner.runner_process import RunnerProcess
from turnwise.sandboxes.runner.warm import WarmRunners


class PlayedProcess:
    """A process that only knows whether it was killed."""

    def __init__(self, kind: str) -> None:
        self.kind, self.killed = kind, False
        self.reader = asyncio.StreamReader()

    async def kill(self) -> None:
        self.killed = True


class Maker:
    """Makes runners of one kind, and remembers them."""

    def __init__(self, kind: str) -> None:
        self.kind, self.made = kind, list[PlayedProcess]()

    async def __call__(self) -> RunnerProcess:
        await asyncio.sleep(0)
        self.made.append(PlayedProcess(self.kind))
        return cast(RunnerProcess, self.made[-1])


def warm_runners(size: int, background: BackgroundTasks) -> WarmRunners:
    runners = WarmRunners(background)
    runners.size = size
    return runners


async def taken(runners: WarmRunners, make: Maker) -> PlayedProcess:
    return cast(PlayedProcess, runners.take(make.kind, make) or await make())


async def made(background: BackgroundTasks) -> None:
    """Wait until all that was to be made is there."""
    await background.drain()


async def test_each_is_given_once_and_replaced() -> None:
    background, make = BackgroundTasks(), Maker("one")
    runners = warm_runners(2, background)
    given = []
    for _ in range(4):
        given.append(await taken(runners, make))
        await made(background)
    assert len(set(map(id, given))) == 4, "a used process never comes back"
    assert len(make.made) == 4 + 2, "two are kept ready, no more"
    assert given[1] is make.made[0] or given[1] is make.made[1] or given[1] is make.made[2], "it was made before"
    await runners.close()
    assert [process.killed for process in make.made] == [process not in given for process in make.made]


async def test_another_kind_sends_the_old_ones_away() -> None:
    background, first, second = BackgroundTasks(), Maker("one"), Maker("two")
    runners = warm_runners(3, background)
    mine = await taken(runners, first)
    await made(background)
    assert (await taken(runners, second)).kind == "two"
    await made(background)
    assert all(process.killed for process in first.made if process is not mine)
    assert not mine.killed
    await runners.close()


async def test_a_cell_that_died_or_is_old_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    background, make = BackgroundTasks(), Maker("one")
    runners = warm_runners(1, background)
    await taken(runners, make)
    await made(background)
    make.made[-1].reader.feed_eof()
    dead = make.made[-1]
    assert await taken(runners, make) is not dead
    await made(background)
    assert dead.killed
    old = make.made[-1]
    monkeypatch.setattr(warm, "AGE", -1.0)
    assert await taken(runners, make) is not old
    await runners.close()
    assert old.killed


async def test_what_cannot_be_made_ahead_is_passed_over() -> None:
    background = BackgroundTasks()
    runners = warm_runners(2, background)

    async def fail() -> RunnerProcess:
        raise SandboxError("the engine is lost")

    for _ in range(2):
        assert runners.take("one", fail) is None, "whoever needs it makes it, and is told why it fails"
    await runners.close()


async def test_fewer_are_kept_when_fewer_are_wanted() -> None:
    background, make = BackgroundTasks(), Maker("one")
    runners = warm_runners(3, background)
    await taken(runners, make)
    await made(background)
    runners.size = 1
    await taken(runners, make)
    await made(background)
    assert sum(not process.killed for process in make.made) == 1 + 1 + 1, "two were taken, one is ready"
    await runners.close()


async def test_without_warm_ones_each_is_made_when_it_is_asked_for() -> None:
    make = Maker("one")
    runners = warm_runners(0, BackgroundTasks())
    await taken(runners, make)
    assert len(make.made) == 1
    await runners.close()
