"""The account of a run's episodes adds up, in both collectors, after failures and after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from turnwise import Episode
from turnwise.agents.scripted import FunctionAgent
from turnwise.errors import SandboxError
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.tasks.family import SeededFamily
from turnwise.trainers.collect.account import EpisodeAccount
from turnwise.trainers.collect.async_rollouts import AsyncRollouts, Source
from turnwise.trainers.collect.collector import Collector, StepCollector
from turnwise.trainers.collect.sampler import TaskSampler

from .test_async_rollouts import OneTurn


class Fragile(OneTurn):
    """Fails on every third task."""

    def act(self, action: Any) -> Any:
        if self.task.seed % 3 == 0:
            raise SandboxError("gone")
        return super().act(action)


def balance(numbers: dict[str, float]) -> float:
    """Drawn episodes that are in no other account."""
    failed = sum(value for name, value in numbers.items() if name.startswith("rollouts/failed_"))
    return numbers["rollouts/drawn"] - numbers["rollouts/trained"] - numbers["rollouts/open"] - failed


def collector(overlapped: bool, pool: EnvPool) -> Collector:
    sampler = TaskSampler(SeededFamily(pool.env_id))
    agent = FunctionAgent(lambda observation: "a")
    source = Source(pool, agent, sampler, RunOptions(retries=0, backoff=0.0), 100)
    if overlapped:
        return AsyncRollouts(source, max_staleness=1, pending=[])
    return StepCollector(source, [])


@pytest.mark.parametrize("overlapped", [False, True], ids=["in turn", "asynchronous"])
async def test_drawn_is_trained_failed_or_open_after_every_step(overlapped: bool) -> None:
    async with EnvPool.of(Fragile) as pool:
        run = collector(overlapped, pool)
        for step in range(3):
            await run.collect(step, 4, 2)
            run.trained(4)
            numbers = run.accounts()
            assert balance(numbers) == 0, f"every drawn episode must be in one account: {numbers}"
            assert numbers["rollouts/trained"] + numbers["rollouts/failed_infra_failed"] == 8 * (step + 1)
        assert numbers["rollouts/failed_infra_failed"] >= 6, "failures are counted by kind"
        assert overlapped or numbers["rollouts/open"] == 0
        await run.close()


async def test_an_episode_that_is_lost_shows_in_the_balance() -> None:
    async with EnvPool.of(OneTurn) as pool:
        run = collector(False, pool)
        await run.collect(0, 2, 2)
        run.pending.pop()

        run.trained(2)

        assert balance(run.accounts()) == 1, "the account must be able to see a lost episode"


async def test_an_episode_that_is_counted_twice_shows_in_the_balance() -> None:
    async with EnvPool.of(OneTurn) as pool:
        run = collector(False, pool)
        await run.collect(0, 2, 2)
        run.pending.append(run.pending[0])

        run.trained(2)

        assert balance(run.accounts()) == -1


async def test_a_resumed_run_goes_on_with_its_account() -> None:
    async with EnvPool.of(Fragile) as pool:
        first = collector(False, pool)
        await first.collect(0, 4, 2)
        first.trained(4)
        await first.collect(1, 4, 2)  # never learned: the process is killed here
        second = collector(False, pool)
        second.account.load_state_dict(first.account.state_dict())

        await second.collect(1, 4, 2)
        second.trained(4)

        numbers = second.accounts()
        assert balance(numbers) == 0
        assert numbers["rollouts/drawn"] == 16, "the open step of the killed process must not be counted twice"


def test_the_state_is_json_of_plain_counts(episode: Episode) -> None:
    account = EpisodeAccount()
    account.draw(3)
    account.close(
        [episode, replace(episode, outcome=Outcome.CANCELLED), replace(episode, outcome=Outcome.INFRA_FAILED)]
    )

    assert account.state_dict() == {"trained": 1, "failed": {"cancelled": 1, "infra_failed": 1}}
    assert account.metrics(0)["rollouts/failed_cancelled"] == 1.0


@pytest.fixture
def episode() -> Episode:
    async def played() -> Episode:
        async with EnvPool.of(OneTurn) as pool:
            run = collector(False, pool)
            (group,) = (await run.collect(0, 1, 1)).groups
            return group.members[0]

    return asyncio.run(played())
