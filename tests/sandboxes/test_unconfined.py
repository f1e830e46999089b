"""A mark identifies the processes of ``unconfined``, even if others have died meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from turnwise.sandboxes.loop import LOOP
from turnwise.sandboxes.spec import Limit, SandboxSpec
from turnwise.sandboxes.unconfined import MARK, UnconfinedBackend


async def test_every_command_carries_the_mark_whatever_it_is_given(tmp_path: Path) -> None:
    backend = UnconfinedBackend(tmp_path)
    spec = SandboxSpec(relaxed=frozenset(Limit), env={MARK: "mine"})
    async with await backend.create(spec) as sandbox:
        done = await sandbox.exec(["printenv", MARK], env={MARK: "still mine"})
        assert done.stdout.text.strip() == sandbox.id, "without it nobody would find it when its owner is gone"


async def test_reaping_ends_what_outlived_its_owner_and_its_folder(tmp_path: Path) -> None:
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    env = {MARK: f"turnwise-{gone.pid}-1-unconfined-000001"}
    left = await asyncio.create_subprocess_exec("sleep", "600", env=env)
    reaped = await UnconfinedBackend(tmp_path).reap()
    assert await asyncio.wait_for(left.wait(), 60) == -9
    assert (reaped.sandboxes, reaped.processes) == (0, 1)


async def test_reaping_leaves_what_has_an_owner(tmp_path: Path) -> None:
    backend = UnconfinedBackend(tmp_path)
    async with await backend.create(SandboxSpec(relaxed=frozenset(Limit))) as sandbox:
        await UnconfinedBackend(tmp_path).reap()
        assert (await sandbox.exec(["true"])).ok


class Watched(UnconfinedBackend):
    """Tells when a sandbox has its files."""

    def __init__(self, parent: Path) -> None:
        super().__init__(parent)
        self.furnished = threading.Semaphore(0)

    async def _furnished(self, *given: Any) -> Any:
        made = await super()._furnished(*given)
        asyncio.get_running_loop().call_soon(self.furnished.release)
        return made

    def alive(self) -> int:
        return sum(one.alive for one in self._made)


async def canceled_on_arrival(task: asyncio.Task[Any]) -> None:
    """Cancel a task for which something has been made, before its own loop has received it."""
    LOOP.wait(asyncio.sleep(0.05))  # and this loop waits here meanwhile
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_sandbox_that_nobody_receives_is_destroyed(tmp_path: Path) -> None:
    backend = Watched(tmp_path)
    task = asyncio.create_task(backend.create(SandboxSpec(relaxed=frozenset(Limit))))
    await asyncio.sleep(0)
    assert backend.furnished.acquire(timeout=60)
    await canceled_on_arrival(task)
    async with asyncio.timeout(20):
        while backend.alive():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_forks_that_nobody_receives_are_destroyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Watched(tmp_path)
    async with await backend.create(SandboxSpec(relaxed=frozenset(Limit))) as sandbox:
        forked, fork = threading.Event(), sandbox._fork  # type: ignore[attr-defined]

        async def forks(n: int) -> Any:
            made = await fork(n)
            forked.set()
            return made

        monkeypatch.setattr(sandbox, "_fork", forks)
        task = asyncio.create_task(sandbox.fork(2))
        await asyncio.sleep(0)
        assert forked.wait(60)
        await canceled_on_arrival(task)
        async with asyncio.timeout(20):
            while backend.alive() > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert sandbox.alive
