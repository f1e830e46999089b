from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

import turnwise as tw
from turnwise import Action, Episode, Outcome
from turnwise.agents.agent import EpisodeContext
from turnwise.agents.scripted import FunctionAgent
from turnwise.errors import PolicyError, PromptTooLongError
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.stats import RunStats
from turnwise.trainers.collect.collect import Collected, collect
from turnwise.trainers.learning.groups import grouped

from ..fakes import Said, conversation, returning


class Fragile(tw.TurnEnv):
    """Pays the number in the action; "crash" makes it raise. It can be slow, so that episodes finish out of order."""

    blocking = False

    async def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return f"task {task.seed}"

    async def act(self, action: Action) -> tw.Step:
        if action.text == "crash":
            raise RuntimeError("the world is broken")
        wait, reward = action.text.split()
        await asyncio.sleep(float(wait))
        return tw.success("thanks", reward=float(reward))


def saying(choose: Callable[[int, int], str]) -> FunctionAgent:
    """An agent that says ``choose(task seed, member)``."""

    def factory(context: EpisodeContext) -> Callable[[str], str]:
        member = int(context.episode_id.rpartition("-")[2])
        return lambda observation: choose(context.task.seed, member)

    return FunctionAgent(factory=factory)


def tasks(count: int) -> list[tw.TaskSpec]:
    return [Fragile.tasks().spec(seed) for seed in range(count)]


OPTIONS = RunOptions(group_size=3, retries=0, backoff=0, concurrency=16)


async def test_groups_come_in_the_order_of_tasks_whoever_was_fast() -> None:
    agent = saying(lambda task, member: f"{0.02 * (2 - task) + 0.005 * (2 - member)} {task * 10 + member}")
    async with EnvPool.of(Fragile) as pool:
        found = await collect(pool, agent, tasks(3), options=OPTIONS)
    assert [group.returns for group in found.groups] == [(0, 1, 2), (10, 11, 12), (20, 21, 22)]
    assert found.metrics()["return"] == pytest.approx(11.0)


@pytest.mark.parametrize("fits", [0, 1])
async def test_a_round_in_which_no_prompt_fits_is_an_error_and_one_in_which_some_do_is_not(fits: int) -> None:
    def choose(task: int, member: int) -> str:
        if task >= fits:
            raise PromptTooLongError("the prompt has 99 tokens and the context holds 9")
        return "0 1"

    async with EnvPool.of(Fragile) as pool:
        if fits:
            found = await collect(pool, saying(choose), tasks(2), options=OPTIONS)
            assert found.metrics()["policy_failed"] == 3
        else:
            with pytest.raises(PromptTooLongError, match=r"none of 6 episodes could begin: .*99 tokens"):
                await collect(pool, saying(choose), tasks(2), options=OPTIONS)


@pytest.mark.parametrize("failing", [1, 2])
async def test_held_out_episodes_that_the_policy_fails_are_not_solved(failing: int) -> None:
    def choose(task: int, member: int) -> str:
        if task < failing:
            raise PolicyError("the conversation does not fit any more")
        return "0 1"

    async with EnvPool.of(Fragile) as pool:
        found = (await collect(pool, saying(choose), tasks(2), options=OPTIONS)).held_out_metrics()
    assert found["eval/episodes"] == 6
    assert found["eval/policy_failed"] == 3 * failing
    assert found["eval/success"] == (2 - failing) / 2
    assert found.get("eval/return") == (0.5 if failing == 1 else None), "an average of nothing is not a number"


async def test_a_held_out_episode_that_the_policy_fails_is_worth_no_more_than_the_worst() -> None:
    """Otherwise ``keep_best`` would prefer the policy that fails where episodes are long or hard."""

    def choose(task: int, member: int) -> str:
        if (task, member) == (0, 0):
            raise PolicyError("the conversation does not fit any more")
        return "0 -4" if task == 0 else "0 -1"

    async with EnvPool.of(Fragile) as pool:
        found = (await collect(pool, saying(choose), tasks(2), options=OPTIONS)).held_out_metrics()
    assert found["eval/return"] == pytest.approx((3 * -4 + 3 * -1) / 6), "without it, −2.2"


async def test_a_broken_environment_is_counted_and_enters_no_mean() -> None:
    agent = saying(lambda task, member: "crash" if (task, member) in {(0, 0), (1, 0), (1, 1)} else f"0 {member}")
    async with EnvPool.of(Fragile) as pool:
        found = await collect(pool, agent, tasks(2), options=OPTIONS)
    assert [(group.returns, group.excluded) for group in found.groups] == [((1.0, 2.0), 1), ((2.0,), 2)]
    metrics = found.metrics()
    assert metrics["unscored"] == 3
    assert metrics["groups_without_baseline"] == 1
    assert metrics["return"] == pytest.approx(5 / 3), "three episodes were scored; the lost ones are not zeros"


async def test_an_interrupted_round_is_continued_and_not_begun_again() -> None:
    played: list[tuple[int, int]] = []

    def choose(task: int, member: int) -> str:
        played.append((task, member))
        return f"0 {task * 10 + member}"

    keep: list[Episode] = []
    async with EnvPool.of(Fragile) as pool:
        whole = await collect(pool, saying(choose), tasks(3), options=OPTIONS, keep=keep)
        assert len(keep) == 9
        played.clear()
        rest = await collect(pool, saying(choose), tasks(3), options=OPTIONS, done=keep[:5])
    assert len(played) == 4, "what is there already is not played again"
    assert [g.returns for g in rest.groups] == [g.returns for g in whole.groups]
    assert {e.episode_id for e in rest.episodes} == {e.episode_id for e in whole.episodes}


async def test_the_same_task_twice_makes_two_groups() -> None:
    (task,) = tasks(1)
    async with EnvPool.of(Fragile) as pool:
        found = await collect(pool, saying(lambda _, member: f"0 {member}"), [task, task], options=OPTIONS)
    assert [group.returns for group in found.groups] == [(0, 1, 2), (0, 1, 2)]


def test_a_round_in_which_everything_failed_has_no_mean() -> None:
    lost = [returning(1.0, name=f"e-{member}", outcome=Outcome.INFRA_FAILED) for member in range(3)]
    metrics = Collected(tuple(grouped(lost)), RunStats()).metrics()
    assert "return" not in metrics
    assert (metrics["episodes"], metrics["unscored"]) == (0, 3)


@pytest.mark.parametrize(("seconds", "wanted"), [((1.0, 2.0, 3.0), 1.0), ((3.0, 2.0, 1.0), -1.0), ((2.0,) * 3, None)])
def test_trap_25_it_shows_where_long_episodes_earn_otherwise(seconds: tuple[float, ...], wanted: float | None) -> None:
    """Episodes dropped for being slow then bias the sample; if duration is uninformative, there is no number."""
    played = [
        replace(conversation([Said((1,), (2,), reward)], name=f"e-{reward}"), seconds=lasted)
        for reward, lasted in zip((0.0, 5.0, 10.0), seconds, strict=True)
    ]
    stats = RunStats()
    for episode in played:
        stats.add(episode)
    found = Collected(tuple(grouped(played)), stats).metrics().get("seconds_return_correlation")
    assert found == (wanted if wanted is None else pytest.approx(wanted))
