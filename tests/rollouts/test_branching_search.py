"""Search over forks: the action of the best rollouts is taken, as if the agent had chosen it, and costs add up."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise import Action, Episode
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.errors import StoreError, UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig
from turnwise.evals.summary import Summary
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_search import RolloutSearch, _first, _Searcher, best
from turnwise.rollouts.costs import RolloutCost
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.stats import RunStats
from turnwise.rollouts.step_values import state_values

from .fakes import answering
from .walkers import Road, Walk, Walker, evenly, perfect_cache, road, tasks


async def played(
    env: Any, agent: Any, rollouts: int = 4, *, count: int = 2, stats: RunStats | None = None, **more: Any
) -> list[Episode]:
    options = RunOptions(**{"group_size": 1, "backoff": 0, **more})
    strategy = RolloutSearch(rollouts=rollouts)
    async with EnvPool.of(env) as pool:
        episodes = branch_episodes(pool, agent, tasks(count), strategy=strategy, options=options, stats=stats)
        async with aclosing(episodes):
            return [episode async for episode in episodes]


def actions(episode: Episode) -> list[str]:
    return [turn.action.text for turn in episode.turns]


class Gamble(Road):
    """Left ends the episode and pays 0.5; right continues, and only a second right pays, 1."""

    def act(self, action: Action) -> tw.Step:
        self.steps.append(action.text)
        if self.turn == 1:
            return tw.running("on") if action.text == "right" else tw.success("safe", reward=0.5)
        return tw.success("over", reward=float(action.text == "right"))


def gamble() -> type[Gamble]:
    class Mine(Gamble):
        pass

    Mine.steps, Mine.made, Mine.closed = [], [], []
    Mine.trouble = Mine.fork_trouble = None
    Mine.__qualname__ = "Road"
    return Mine


@pytest.mark.parametrize(("again", "wise"), [(0.2, ["left"]), (0.8, ["right", "right"])])
async def test_the_action_with_the_higher_value_under_the_policy_is_taken(again: float, wise: list[str]) -> None:
    """By enumeration: Q(left) = .5, Q(right) = P(right again); after it the search finds the paid action itself."""

    def table(observation: str) -> dict[str, float]:
        return {"left": 0.5, "right": 0.5} if observation.startswith("road") else {"left": 1 - again, "right": again}

    episodes = await played(gamble(), Walker(table), rollouts=64, count=4)
    assert [actions(episode) for episode in episodes] == [wise] * 4, "values decide, not the luckiest rollout"
    for episode in episodes:
        first = state_values(episode)[0]
        assert first == pytest.approx(0.5 * 0.5 + 0.5 * again, abs=0.2), "V of the policy, not of the search"


def test_equal_means_are_decided_by_the_number_of_rollouts_and_then_by_order() -> None:
    left, right = Action("left"), Action("right")
    assert best([left, right, right], [1.0, 0.0, 2.0]) == 1, "both 1.0 in the mean, and two rollouts say so"
    assert best([right, left], [1.0, 1.0]) == 0
    assert best([None, left, right], [9.0, -1.0, -2.0]) == 1, "a lost rollout says nothing"
    assert best([None, None], [0.0, 0.0]) is None


async def test_a_searched_path_earns_more_than_the_policy() -> None:
    returns = [episode.total_reward for episode in await played(road(), Walker(evenly), rollouts=16)]
    assert min(returns) == 1.0 + 3 / 8, "right is better in every state, whatever follows"


async def test_the_record_is_one_path_whose_prompts_continue_one_another() -> None:
    env = road()
    for episode in await played(env, Walker(evenly)):
        assert episode.fork is None
        assert episode.outcome is Outcome.COMPLETED
        assert len(episode.turns) == 4
        for before, after in pairwise(episode.turns):
            known = before.prompt_ids + before.action_ids
            assert after.prompt_ids[: len(known)] == known, "the session remembers what was chosen for it"
        assert sorted(ahead.turn for ahead in episode.lookaheads) == [n for n in range(4) for _ in range(4)]
    assert {id(fork) for fork in env.made} <= {id(each) for each in env.closed}


@pytest.mark.parametrize("rollouts", [2, 5])
async def test_every_token_counts_once(rollouts: int) -> None:
    env, agent, stats = road(), Walker(evenly), RunStats()
    cost = RolloutCost.of(await played(env, agent, rollouts, stats=stats))
    assert cost.steps == len(env.steps), "a chosen action is taken twice: in its rollout and in the episode"
    assert cost.sampled == sum(len(action) for _, _, action in agent.requests), "and sampled once"
    assert cost.prompted == sum(len(prompt) for _, prompt, _ in agent.requests)
    assert cost.reused == perfect_cache(agent.requests)


async def test_the_same_seed_searches_the_same_at_any_concurrency() -> None:
    one = [actions(each) for each in await played(road(), Walker(evenly), 2, count=4, concurrency=1)]
    assert [actions(each) for each in await played(road(), Walker(evenly), 2, count=4, concurrency=64)] == one
    assert [actions(each) for each in await played(road(), Walker(evenly), 2, count=4, seed=1)] != one


async def test_lost_rollouts_are_left_out_and_the_agent_acts_when_all_are_lost() -> None:
    def trouble(env: Road) -> None:
        if env in env.made:
            raise RuntimeError("no fork works")

    env, agent = road(trouble), Walker(evenly)
    episodes = await played(env, agent, retries=0)
    assert {episode.outcome for episode in episodes} == {Outcome.COMPLETED}
    assert all(ahead.outcome is Outcome.INFRA_FAILED for episode in episodes for ahead in episode.lookaheads)
    cost = RolloutCost.of(episodes)
    assert cost.lookaheads == cost.lookaheads_lost == 2 * 4 * 4


async def test_an_attempt_that_fails_after_searched_actions_counts_as_sampled_again() -> None:
    failed: list[Road] = []

    def trouble(here: Road) -> None:
        if not failed and here.turn == 3 and all(here is not fork for fork in here.made):
            failed.append(here)
            raise RuntimeError("once")

    (episode,) = await played(road(trouble), Walker(evenly), count=1, retries=1)
    assert episode.outcome is Outcome.COMPLETED
    assert episode.redrawn == 1, "an evaluation counts it among the episodes that luck may have improved"


class Thinking(Walk):
    async def act(self, observation: tw.Observation) -> Decision:
        return replace(await super().act(observation), thoughts="hm", seconds=0.5)


class Thinker(Walker):
    def start(self, context: EpisodeContext) -> Thinking:
        return Thinking(self, context, ())


async def test_thoughts_and_seconds_of_the_chosen_action_stay_in_the_record() -> None:
    (episode,) = await played(road(), Thinker(evenly), count=1)
    assert {(turn.thoughts, turn.seconds_policy) for turn in episode.turns} == {("hm", 0.5)}


async def test_rollouts_that_the_policy_fails_count_as_the_worst() -> None:
    (episode,) = await played(road(), Walker(evenly), count=1)
    failed = replace(episode, outcome=Outcome.POLICY_FAILED)
    worst = replace(episode, turns=tuple(replace(turn, reward=-1.0) for turn in episode.turns))
    searcher = _Searcher(cast(Any, None), RolloutSearch(), cast(Any, None), cast(Any, None))
    good, bad = (sum(turn.reward for turn in one.own_turns) for one in (episode, worst))
    assert searcher._returns([episode, failed, worst]) == [good, bad, bad]
    assert _first(failed) == failed.own_turns[0], "its action is one of those compared"
    assert _first(replace(episode, outcome=Outcome.INFRA_FAILED)) is None


async def test_an_agent_that_cannot_continue_is_refused() -> None:
    with pytest.raises(UsageError, match=r"sessions that have recall\(\)"):
        await played(road(), answering())


def test_an_evaluation_searches_resumes_and_counts_the_tokens_of_rollouts(tmp_path: Path) -> None:
    spent: list[tuple[int, int]] = []

    def evaluated(count: int, **settings: Any) -> Summary:
        env, agent = road(), Walker(evenly)
        config = EvalConfig(**{"env": "Road", "n": count, "isolation": "inline", **settings})
        store = tmp_path / f"episodes-{config.group_size}"
        summary = run_evaluation(config, agent, store=store, env=env, resume=True)
        spent.append((len(env.steps), sum(len(action) for _, _, action in agent.requests)))
        return summary

    first = evaluated(2, search={"rollouts": 16})
    assert first.mean_return.value == 1.0 + 3 / 8
    assert first.action_tokens.value == spent[0][1] / 2, "all sampled tokens of an episode"
    assert any("128 rollouts on forks of the environment (320 actions)" in note for note in first.notes)
    assert evaluated(3, search={"rollouts": 16}).mean_return.value == 1.0 + 3 / 8
    assert spent[0][0] == 2 * spent[1][0], "two episodes were searched before, and one now"
    with pytest.raises(StoreError, match="another"):
        evaluated(3)
