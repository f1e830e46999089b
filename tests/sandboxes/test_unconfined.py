"""A mark identifies the processes of ``unconfined``, even if others have died meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
