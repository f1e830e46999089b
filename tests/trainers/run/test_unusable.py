"""One bad episode is dropped, counted and named; many of them end the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnwise import Episode, Outcome
from turnwise.errors import ContractError
from turnwise.trainers.collect.collect import Collected
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.loop import LoopTrainer
from turnwise.trainers.on_policy import OnPolicyConfig, OnPolicyTrainer
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.opening import open_run
from turnwise.trainers.run.training import train_steps
from turnwise.trainers.run.unusable import UnusableEpisodes

from .. import small
from ..fakes import returning


def refuse_named(episode: Episode) -> None:
    if episode.episode_id.startswith("bad"):
        raise ContractError(f"episode {episode.episode_id} is broken")


def played(*names: str) -> list[Episode]:
    return [returning(1.0, name=name) for name in names]


def test_an_unusable_episode_is_dropped_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    (group,), metrics = UnusableEpisodes(refuse_named).without(grouped(played("a", "bad1", "b")))
    assert [episode.episode_id for episode in group.members] == ["a", "b"]
    assert (group.excluded, metrics) == (1, {"unusable": 1.0})
    assert "episode bad1 is broken" in caplog.text
    assert UnusableEpisodes(refuse_named).without(grouped(played("a", "b")))[1] == {}


def test_the_share_is_that_of_the_run() -> None:
    """Two are an accident in any run; from the third on, at most one in twenty may be unusable."""
    unusable = UnusableEpisodes(refuse_named)
    unusable.without(grouped(played("bad1", "bad2")))
    unusable.without(grouped(played(*map(str, range(60)))))
    unusable.without(grouped(played("bad3")))
    with pytest.raises(ContractError, match=r"4 of 64 episodes .*limit 5%.* episode bad4 is broken"):
        unusable.without(grouped(played("bad4")))


@pytest.mark.parametrize("first", [True, False])
def test_the_order_of_episodes_in_a_batch_does_not_matter(first: bool) -> None:
    good, bad = list(map(str, range(97))), ["bad1", "bad2", "bad3"]
    names = [*bad, *good] if first else [*good, *bad]
    _, metrics = UnusableEpisodes(refuse_named).without(grouped(played(*names)))
    assert metrics == {"unusable": 3.0}, "3 % of all are below the limit, wherever they stand"


def test_the_return_of_a_dropped_episode_is_no_attempts_floor() -> None:
    bad = returning(-100.0, name="bad1")
    failed = replace(returning(0.0, name="failed"), outcome=Outcome.POLICY_FAILED)
    ((group,), _) = UnusableEpisodes(refuse_named).without(grouped([bad, *played("a"), failed]))
    assert sorted(episode.total_reward for episode in group.members) == [0.0, 1.0]


def broken(episode: Episode) -> Episode:
    first, *others = episode.turns
    return replace(episode, turns=(replace(first, logprobs=first.logprobs[1:]), *others))


def cut_off(episode: Episode) -> Episode:
    *others, last = episode.turns
    ended = replace(last, terminated=False, truncated=True)
    return replace(episode, outcome=Outcome.TRUNCATED, turns=(*others, ended), final_prompt_ids=())


def breaking(trainer: type[Any], damage: Any, count: int) -> type[Any]:
    """The trainer, whose first episodes of each step are damaged."""

    class Breaking(trainer):  # type: ignore[misc]
        async def collect(self) -> Any:
            found = await super().collect()
            collected: Collected = getattr(found, "collected", found)
            first, *others = collected.groups
            members = tuple(damage(one) if i < count else one for i, one in enumerate(first.members))
            return replace(collected, groups=(replace(first, members=members), *others))

    return Breaking


async def steps(trainer: type[Any], config: Any) -> None:
    async with open_run(config) as run:
        await train_steps(trainer(config, run))


@pytest.mark.slow
def test_one_bad_episode_does_not_end_a_run(cloned: Path, tmp_path: Path) -> None:
    config = small.looping(tmp_path / "run", cloned / "model", steps=2, eval={"episodes": 0})
    asyncio.run(steps(breaking(LoopTrainer, broken, 1), config))
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [line["unusable"] for line in lines] == [1.0, 1.0]
    config = small.looping(tmp_path / "bad", cloned / "model", steps=2, eval={"episodes": 0})
    with pytest.raises(ContractError, match=r"3 of \d+ episodes cannot be learned from"):
        asyncio.run(steps(breaking(LoopTrainer, broken, 3), config))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "dropped"), [("ppo", [1.0]), ("grpo", [None])])
def test_a_truncated_episode_without_its_last_prompt_is_dropped_where_it_bootstraps(
    cloned: Path, tmp_path: Path, algorithm: str, dropped: Sequence[float | None]
) -> None:
    config = OnPolicyConfig.model_validate(
        {
            **small.SHARED, "out": str(tmp_path / "run"), "model": str(cloned / "model"), "steps": 1,
            "tasks_per_step": 2, "group_size": 3, "algorithm": {"name": algorithm},
            "eval": {"episodes": 0}, "values": {"warmup": 0},
        }
    )  # fmt: skip
    asyncio.run(steps(breaking(OnPolicyTrainer, cut_off, 1), config))
    assert [line.get("unusable") for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == dropped
