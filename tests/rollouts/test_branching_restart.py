"""Restarts: groups that continue a stored episode from one state, whose prefix is context and never trained."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import EnvironmentFailedError, UsageError
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_restart import PrefixRestarts, variation
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.costs import RolloutCost
from turnwise.rollouts.episode import Episode, Fork, Lookahead, Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.runner import run_episodes
from turnwise.rollouts.stats import RunStats
from turnwise.rollouts.store import EpisodeStore
from turnwise.trainers.learning.rows import pack

from .walkers import Road, Walker, evenly, road, tasks


def write(folder: Path, episodes: Sequence[Episode]) -> str:
    with EpisodeStore(folder) as store:
        for episode in episodes:
            store.append(episode)
    return str(folder)


async def walked(env: Any, agent: Any, count: int = 4) -> list[Episode]:
    async with EnvPool.of(env) as pool, aclosing(run_episodes(pool, agent, tasks(count))) as episodes:
        return [episode async for episode in episodes]


async def played(env: Any, strategy: Any, *, count: int = 6, size: int = 3, **more: Any) -> list[Episode]:
    stats, agent = more.pop("stats", None), more.pop("agent", None) or Walker(evenly)
    options = RunOptions(**{"group_size": size, "backoff": 0, "seed": 5, **more})
    async with EnvPool.of(env) as pool:
        episodes = branch_episodes(pool, agent, tasks(count), strategy=strategy, options=options, stats=stats)
        async with aclosing(episodes):
            return [episode async for episode in episodes]


@pytest.fixture
async def store(tmp_path: Path) -> str:
    return write(tmp_path / "store", await walked(road(), Walker(evenly)))


@pytest.mark.parametrize("concurrency", [1, 3, 64])
async def test_a_group_continues_one_state_of_a_stored_episode(store: str, concurrency: int) -> None:
    strategy, env = PrefixRestarts(store=store, share=1.0), road()
    stored = {prefix.episode.episode_id: prefix.episode for prefix in strategy.prefixes}
    episodes = await played(env, strategy, concurrency=concurrency)
    assert len(episodes) == 18
    for group in {episode.group_id for episode in episodes}:
        members = [episode for episode in episodes if episode.group_id == group]
        (fork,) = {episode.fork for episode in members}
        assert fork is not None
        source = stored[fork.parent]
        assert fork.owners == (source.episode_id,) * fork.turn
        assert 1 <= fork.turn < len(source.turns)
        for member in members:
            assert member.task == source.task
            assert len(member.turns) == 4
            for mine, theirs in zip(member.turns[: fork.turn], source.turns, strict=False):
                assert (mine.action, mine.observation, mine.reward) == (
                    theirs.action,
                    theirs.observation,
                    theirs.reward,
                )
                assert not mine.action_ids
            first = member.turns[fork.turn]
            assert first.observation == source.turns[fork.turn].observation
            assert first.prompt_ids == source.turns[fork.turn].prompt_ids, "the session read what the stored one read"
        assert len({tuple(turn.action.text for turn in member.turns) for member in members}) >= 1
    assert {id(made) for made in env.made} <= {id(each) for each in env.closed}, "no fork is left open"
    assert RolloutCost.of(episodes).steps == sum(len(episode.own_turns) for episode in episodes)


async def test_only_the_continuation_is_trained(store: str) -> None:
    episodes = await played(road(), PrefixRestarts(store=store, share=1.0))
    rows = pack(episodes)
    assert rows.tokens == sum(len(turn.action_ids) for episode in episodes for turn in episode.own_turns)
    for number, episode in enumerate(episodes):
        ids = rows.ids[rows.episode == number].tolist()
        first = episode.own_turns[0]
        assert tuple(ids[: len(first.prompt_ids)]) == first.prompt_ids, "the prefix is there, as context"
        assert not rows.mask[rows.episode == number][: len(first.prompt_ids)].any()


async def test_the_same_seed_restarts_the_same_share_from_the_same_states(store: str) -> None:
    strategy = PrefixRestarts(store=store, share=0.5)
    one, other = [await played(road(), strategy, count=40, size=1, concurrency=n) for n in (1, 64)]
    forks = {episode.group_id: episode.fork for episode in one}
    assert forks == {episode.group_id: episode.fork for episode in other}
    restarted = sum(fork is not None for fork in forks.values())
    assert 8 <= restarted <= 32, "seeded: a half of 40, within four deviations"


async def test_states_vary_as_their_stored_returns_do() -> None:
    (origin,) = await walked(road(), Walker(evenly), count=1)
    ahead = tuple(Lookahead(1, (paid, 0.0), Outcome.COMPLETED) for paid in (1.0, 3.0))
    lost = Lookahead(1, (99.0,), Outcome.INFRA_FAILED)
    origin = replace(origin, lookaheads=(*ahead, lost))
    mine = origin.episode_id
    assert variation(replace(origin, lookaheads=()), 1, []) == 0
    assert variation(origin, 1, []) == 1.0, "the variance of 1 and 3"
    branch = replace(origin, episode_id="b", fork=Fork(mine, (mine, mine)), lookaheads=())
    paid = [sum(turn.reward for turn in each.turns[2:]) for each in (origin, branch)]
    assert variation(origin, 2, [origin, branch]) == pytest.approx(((paid[0] - paid[1]) / 2) ** 2)
    stranger = replace(branch, fork=Fork("x", ("x",)), turns=origin.turns)
    assert variation(replace(origin, lookaheads=()), 2, [stranger]) == 0, "another path does not pass through the state"


async def test_states_with_stored_rollouts_are_taken_by_their_variance(tmp_path: Path) -> None:
    forked = await played(road(), StateValues(rollouts=4), count=3, size=1)
    folder = write(tmp_path / "vine", forked)
    strategy = PrefixRestarts(store=folder, choice="varied", share=1.0)
    for prefix in strategy.prefixes:
        assert prefix.weight == variation(prefix.episode, prefix.turn, forked) > 0
    assert all(episode.fork is not None for episode in await played(road(), strategy, count=4))


async def test_what_does_not_fit_is_refused_in_words(tmp_path: Path, store: str) -> None:
    with pytest.raises(UsageError, match="varied needs stored forks"):
        await played(road(), PrefixRestarts(store=store, choice="varied", share=1.0))
    episodes = await walked(road(), Walker(evenly), count=1)
    altered = [replace(each, turns=(replace(each.turns[0], reward=9.0), *each.turns[1:])) for each in episodes]
    with pytest.raises(UsageError, match=r"does not answer the first . actions of the stored episode"):
        await played(road(), PrefixRestarts(store=write(tmp_path / "altered", altered), share=1.0))
    foreign = [replace(each, env_id="else/Where-v0") for each in episodes]
    with pytest.raises(UsageError, match="an episode of else/Where-v0"):
        await played(road(), PrefixRestarts(store=write(tmp_path / "foreign", foreign), share=1.0))
    held_out = [replace(each, task=replace(each.task, split=tw.Split.TEST_IID)) for each in episodes]
    with pytest.raises(UsageError, match="split test_iid"):
        await played(road(), PrefixRestarts(store=write(tmp_path / "test", held_out), share=1.0))


@pytest.mark.parametrize("failures", [2, 10_000])
async def test_a_failing_environment_is_replaced_and_in_the_end_nothing_is_scored(store: str, failures: int) -> None:
    left = [failures]

    def trouble(env: Road) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise EnvironmentFailedError("gone")

    stats = RunStats()
    episodes = await played(
        road(trouble), PrefixRestarts(store=store, share=1.0), count=1, concurrency=1, retries=2, stats=stats
    )
    outcomes = {episode.outcome for episode in episodes}
    assert outcomes == ({Outcome.COMPLETED} if failures == 2 else {Outcome.INFRA_FAILED})
    assert len(episodes) == 3
    assert stats.retries == 2


async def test_an_agent_without_a_memory_of_others_is_refused(store: str) -> None:
    class Fresh:
        def start(self, context: Any) -> Any:
            return object()

    with pytest.raises(
        UsageError, match=r"agent Fresh cannot continue recorded turns: its sessions have no recall\(\)"
    ):
        await played(road(), PrefixRestarts(store=store, share=1.0), agent=Fresh())
