"""The training loop itself: what reaches an algorithm."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from turnwise import Outcome
from turnwise.trainers.collect.collect import Collected
from turnwise.trainers.learning.groups import Group
from turnwise.trainers.loop import LoopTrainer
from turnwise.trainers.run.metrics import Stopwatch, read_metrics
from turnwise.trainers.run.opening import open_run
from turnwise.trainers.run.training import train_steps

from .. import small


def test_an_attempt_that_grew_out_of_its_context_is_learned_from(cloned: Path, tmp_path: Path) -> None:
    learned: list[tuple[Group, ...]] = []

    class Growing(LoopTrainer):
        async def collect(self) -> Collected:
            found = await super().collect()
            first, *others = found.groups
            *played, last = first.members
            failed = replace(last, outcome=Outcome.POLICY_FAILED)
            return replace(found, groups=(replace(first, members=tuple(played), failed=(failed,)), *others))

        async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
            learned.append(tuple(groups))
            return await super().learn(groups, clock)

    async def steps() -> None:
        config = small.looping(tmp_path / "run", cloned / "model", steps=1, eval={"episodes": 0})
        async with open_run(config) as run:
            await train_steps(Growing(config, run))

    asyncio.run(steps())
    ((first, _),) = learned
    *played, failed = first.returns
    assert len(played) == 2
    assert failed <= min(played)
    (line,) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert (line["episodes"], line["policy_failed"]) == (5.0, 1.0), "reported as before"
