"""Forked states: complete records, one state of each episode, every one equally likely, and costs that add up."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest

from turnwise.errors import UsageError
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_utterances import ForkedStates
from turnwise.rollouts.costs import RolloutCost
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.stats import RunStats

from .fakes import answering
from .walkers import Walker, evenly, perfect_cache, road, tasks

FORKED = ForkedStates(utterances=3, rollouts=2)


async def played(
    env: Any, agent: Any, strategy: ForkedStates = FORKED, *, count: int = 3, stats: RunStats | None = None, **more: Any
) -> list[Episode]:
    options = RunOptions(**{"group_size": strategy.size, "backoff": 0, **more})
    async with EnvPool.of(env) as pool:
        episodes = branch_episodes(pool, agent, tasks(count), strategy=strategy, options=options, stats=stats)
        async with aclosing(episodes):
            return [episode async for episode in episodes]


@pytest.mark.parametrize("concurrency", [1, 4, 64])
async def test_every_path_is_complete_and_knows_where_it_left(concurrency: int) -> None:
    env = road()
    episodes = await played(env, Walker(evenly), concurrency=concurrency)
    by_id = {episode.episode_id: episode for episode in episodes}
    assert len(by_id) == len(episodes)
    for group in {episode.group_id for episode in episodes}:
        members = [by_id[f"{group}-{number}"] for number in range(7) if f"{group}-{number}" in by_id]
        assert members[0].fork is None
        if len(members) == 4:  # each utterance in the last state ends the episode
            assert all(len(each.turns) == 4 and each.fork is not None and each.fork.turn == 3 for each in members[1:])
            continue
        assert len(members) == 7
        (turn,) = {each.fork.turn for each in members[1::2] if each.fork is not None}
        for first, second in zip(members[1::2], members[2::2], strict=True):
            assert first.fork is not None
            assert second.fork is not None
            assert first.fork.parent == members[0].episode_id
            assert second.fork.parent == first.episode_id
            assert first.turns[:turn] == members[0].turns[:turn]
            assert second.turns[: turn + 1] == first.turns[: turn + 1], "the same utterance, and the same answer"
            assert len(first.turns) == len(second.turns) == 4
    assert {id(fork) for fork in env.made} <= {id(each) for each in env.closed}


async def test_an_utterance_that_ends_the_episode_is_played_once() -> None:
    episodes = await played(road(turns=1), Walker(evenly), count=1)
    assert [episode.episode_id[-1] for episode in episodes] == ["0", "1", "3", "5"], "what is over has no second end"


@pytest.mark.slow
async def test_every_state_of_an_episode_is_equally_likely() -> None:
    episodes = await played(road(), Walker(evenly), ForkedStates(utterances=2, rollouts=1), count=400)
    turns = Counter(e.fork.turn for e in episodes if e.fork is not None and e.episode_id.endswith("-1"))
    assert sorted(turns) == [0, 1, 2, 3]
    assert all(70 <= count <= 130 for count in turns.values()), f"a hundred each, ± 3.5 deviations: {turns}"


async def test_the_cost_is_what_was_really_done() -> None:
    env, agent, stats = road(), Walker(evenly), RunStats()
    cost = RolloutCost.of(await played(env, agent, stats=stats))
    assert cost.steps == len(env.steps) == stats.turns
    assert cost.sampled == sum(len(action) for _, _, action in agent.requests)
    assert cost.prompted == sum(len(prompt) for _, prompt, _ in agent.requests)
    assert cost.reused == perfect_cache(agent.requests)


async def test_the_same_seed_plays_the_same() -> None:
    def said(episodes: list[Episode]) -> dict[str, list[str]]:
        return {e.episode_id: [turn.action.text for turn in e.turns] for e in episodes}

    one = said(await played(road(), Walker(evenly), concurrency=1))
    assert said(await played(road(), Walker(evenly), concurrency=64)) == one
    assert said(await played(road(), Walker(evenly), seed=1)) != one


async def test_what_fails_on_the_way_is_played_again() -> None:
    left = [True]

    def trouble(env: Any) -> None:
        if left and env in env.made and env.turn == 4:
            left.clear()
            raise RuntimeError("the machine is lost")

    episodes = await played(road(trouble), Walker(evenly))
    assert not left
    assert {episode.outcome for episode in episodes} == {Outcome.COMPLETED}
    assert any(episode.attempts > 1 for episode in episodes)

    def always(env: Any) -> None:
        raise RuntimeError("the machine is lost")

    env = road(always)
    lost = await played(env, Walker(evenly), retries=1)
    assert [episode.outcome for episode in lost] == [Outcome.INFRA_FAILED] * 3, "no state, no paths"
    assert {id(fork) for fork in env.made} <= {id(each) for each in env.closed}


async def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"3 × 2 paths and their origin are 7, not 5"):
        await played(road(), Walker(evenly), group_size=5)
    with pytest.raises(UsageError, match=r"only whose sessions have fork\(\)"):
        await played(road(), answering())
