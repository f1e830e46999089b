"""Leaving a run keeps a state to resume from after a stop, and nothing of a step that failed midway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turnwise.rollouts.pool import EnvPool
from turnwise.trainers.run.opening import open_run

from .. import small


@pytest.mark.parametrize("failing", [True, False], ids=["learning failed", "stopped"])
async def test_a_ctrl_c_while_environments_close_does_not_make_a_failure_a_stop(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    async def interrupted(pool: EnvPool) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(EnvPool, "close", interrupted)
    with pytest.raises(asyncio.CancelledError):
        async with open_run(small.looping(tmp_path / "run", cloned / "model")):
            raise RuntimeError("half of a step was learned") if failing else asyncio.CancelledError
    kept = list((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert bool(kept) is not failing, "half of a step must not be resumed from"


async def test_a_ctrl_c_while_the_model_loads_leaves_nothing_to_save(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small.looping(tmp_path / "run", cloned / "model")
    task = asyncio.current_task()
    assert task is not None
    start = type(config).start

    async def slow(self: object, *arguments: object) -> object:
        task.cancel()
        return await start(config, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(config), "start", slow)
    with pytest.raises(asyncio.CancelledError):
        async with open_run(config):
            pytest.fail("a run that was stopped while it opened must not begin")
    task.uncancel()
    assert not list((tmp_path / "run" / "checkpoints").glob("step-*"))
