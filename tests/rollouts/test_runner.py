"""The runner: every task is played, failures are never scores, no episode waits for another, no leftovers."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.agents.chat import ChatAgent
from turnwise.agents.scripted import OracleAgent, RandomAgent
from turnwise.envs.messages import Observation
from turnwise.envs.wrappers.turn_limit import TurnLimit
from turnwise.errors import (
    ContractError,
    InfrastructureError,
    PromptTooLongError,
    TaskError,
    UnknownEnvironmentError,
    UnscoredEpisodeError,
    UsageError,
)
from turnwise.evals.attribution import inconclusive
from turnwise.inference.nano import build_tokenizer
from turnwise.inference.policy import Completion, Finish
from turnwise.rollouts import episode_run
from turnwise.rollouts.episode import UNANSWERED
from turnwise.rollouts.options import RunOptions, run_options
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.replay import replay
from turnwise.rollouts.runner import IndexedTask, run, run_episodes
from turnwise.rollouts.stats import RunStats
from turnwise.rollouts.store import EpisodeStore, load_episodes

from .fakes import (
    BlockingCount,
    BlocksForever,
    Count,
    FakeAgent,
    answer,
    answering,
    cancels,
    deadly,
    faulty,
    hangs,
    raises,
    tasks,
)


async def played(env: Any, agent: Any, wanted: Any, stats: RunStats | None = None, **options: Any) -> list[tw.Episode]:
    chosen = run_options(**{"backoff": 0.0, **options})
    async with aclosing(run_episodes(env, agent, wanted, options=chosen, stats=stats)) as episodes:
        return [episode async for episode in episodes]


# -- what an episode says ------------------------------------------------------------------------------------------


async def test_an_episode_records_what_happened_turn_by_turn() -> None:
    (episode,) = await played(Count, answering(), tasks(1))
    assert episode.outcome is tw.Outcome.COMPLETED
    assert episode.score == tw.Score(success=True)
    assert episode.total_reward == pytest.approx(1.25)
    assert [turn.action.text for turn in episode.turns] == ["answer 1", "answer 2", "answer 3"]
    assert episode.turns[0].observation.text.startswith("begin"), "a turn's observation is what was seen before acting"
    assert episode.turns[1].observation.text.startswith("turn 1 of")
    assert [turn.obs_key for turn in episode.turns] == ["0", "1", "2"], "obs_key names the state that was acted in"
    assert [turn.terminated for turn in episode.turns] == [False, False, True]
    assert [turn.prompt_ids for turn in episode.turns] == [(1, 2, 1), (1, 2, 2), (1, 2, 3)]
    assert episode.turns[0].logprobs == (-0.5, -0.25)
    assert episode.turns[0].versions == (3, 3)
    assert episode.turns[0].info["heard"] == "answer 1"
    assert episode.turns[0].seconds_policy == 0.001, "the policy's time is what the agent says it was"
    assert episode.final_observation is not None
    assert episode.final_observation.text == "done"
    assert episode.fingerprints["task"] == episode.task.digest


async def test_the_task_s_own_turn_limit_terminates() -> None:
    (episode,) = await played(Count, answering(), tasks(1), env_kwargs={"length": 9, "max_turns": 2})
    assert episode.outcome is tw.Outcome.COMPLETED
    assert (episode.turns[-1].terminated, episode.turns[-1].truncated) == (True, False)
    assert episode.out_of_turns
    assert len(episode.turns) == 2
    assert not episode.success


@pytest.mark.parametrize("isolation", ["auto", "thread"])
async def test_a_turn_limit_of_the_run_truncates(isolation: Any) -> None:
    kwargs = {"length": 9, "turn_limit": 2}
    (episode,) = await played(Count, answering(), tasks(1), env_kwargs=kwargs, isolation=isolation)
    assert episode.outcome is tw.Outcome.TRUNCATED
    assert episode.out_of_turns
    assert len(episode.turns) == 2
    assert episode.turns[-1].truncated
    assert not episode.turns[-1].terminated, "a limit of the run is not an end of the task"
    assert replay(episode, Count).ok, "the record names the limit"
    assert not episode.success
    assert '"length": 9' in episode.fingerprints["env_kwargs"]


async def test_environment_time_is_measured_apart() -> None:
    class Slow(Count):
        async def act(self, action: tw.Action) -> Any:
            await asyncio.sleep(0.02)
            return super().act(action)

    stats = RunStats()
    (episode,) = await played(Slow, answering(), tasks(1), stats)
    assert all(turn.seconds_env >= 0.015 for turn in episode.turns)
    assert episode.seconds >= sum(turn.seconds_env for turn in episode.turns)
    assert stats.seconds_env >= 0.045
    assert stats.seconds_policy == pytest.approx(0.003)


async def test_time_spent_asking_the_oracle_is_the_environments() -> None:
    class Slow(BlockingCount):
        def oracle(self) -> tw.Action:
            threading.Event().wait(0.02)
            return super().oracle()

    (episode,) = await played(Slow, OracleAgent(), tasks(1))
    assert episode.turns[1].seconds_env >= 0.015
    assert episode.turns[1].action.text == "best 1"


# -- identity ------------------------------------------------------------------------------------------------------


async def test_ids_are_a_function_of_seed_and_task_not_of_scheduling() -> None:
    def ids(episodes: list[tw.Episode]) -> set[str]:
        return {episode.episode_id for episode in episodes}

    alone = await played(Count, answering(), tasks(12), concurrency=1, group_size=2)
    together = await played(Count, answering(), tasks(12), concurrency=24, group_size=2)
    failing = faulty({seed: [(1, raises)] for seed in range(12)})
    retried = await played(failing, answering(), tasks(12), group_size=2)
    again = await played(failing, answering(), tasks(12), group_size=2)
    other = await played(Count, answering(), tasks(12), group_size=2, seed=1)
    assert ids(alone) == ids(together)
    assert len(ids(alone)) == 24, "ids are unique within a run"
    assert ids(retried) == ids(again), "an id does not depend on how many attempts it took"
    assert not ids(alone) & ids(other), "another run seed names other episodes"


async def test_the_same_task_twice_in_a_run_is_two_groups() -> None:
    episodes = await played(Count, answering(), tasks(1) * 3)
    assert len({episode.group_id for episode in episodes}) == 3


async def test_a_group_shares_task_and_start_but_not_the_agents_luck() -> None:
    episodes = await played(Count, RandomAgent(), tasks(2), group_size=4)
    groups = {episode.group_id: [e for e in episodes if e.group_id == episode.group_id] for episode in episodes}
    assert [len(group) for group in groups.values()] == [4, 4]
    for group in groups.values():
        assert len({episode.task for episode in group}) == 1
        assert len({episode.turns[0].observation for episode in group}) == 1, "a group starts in one state"
        assert len({episode.turns[0].action for episode in group}) == 4, "and goes its own ways"


async def test_agents_luck_is_reproducible_whatever_the_concurrency() -> None:
    def said(episodes: list[tw.Episode]) -> dict[str, list[str]]:
        return {e.episode_id: [turn.action.text for turn in e.turns] for e in episodes}

    assert said(await played(Count, RandomAgent(), tasks(8), concurrency=1)) == said(
        await played(Count, RandomAgent(), tasks(8), concurrency=8)
    )


async def test_skipped_episodes_are_not_played() -> None:
    first = await played(Count, answering(), tasks(5), group_size=2)
    there = [episode.episode_id for episode in first[:7]]
    rest = run_episodes(Count, answering(), tasks(5), options=RunOptions(group_size=2), skip=there)
    missing = {episode.episode_id async for episode in rest}
    assert missing == {episode.episode_id for episode in first} - set(there)


# -- concurrency ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_thousand_episodes_are_alive_at_once() -> None:
    meeting = asyncio.Barrier(1000)

    async def meet(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        if turn == 1:
            await meeting.wait()  # none passes before all thousand have arrived
        return await answer(context, turn, observation)

    episodes = await played(Count, FakeAgent(meet), tasks(1000), concurrency=1000)
    assert len(episodes) == 1000
    assert all(episode.success for episode in episodes)


async def test_an_environment_that_waits_holds_nobody_up() -> None:
    others_done = asyncio.Event()

    async def waits(env: Count) -> None:
        await others_done.wait()

    env, order = faulty({0: [(1, waits)]}), []
    async with aclosing(run_episodes(env, answering(), tasks(20), options=RunOptions(concurrency=4))) as episodes:
        async for episode in episodes:
            order.append(episode.task.seed)
            if len(order) == 19:
                others_done.set()
    assert order[-1] == 0, "the slow one came last, and the other nineteen did not wait for it"


async def test_an_environment_that_blocks_its_thread_holds_nobody_up() -> None:
    others_done = threading.Event()

    class Blocks(BlockingCount):
        def act(self, action: tw.Action) -> Any:
            if self.task.seed == 0:
                assert others_done.wait(60)
            return super().act(action)

    order = []
    async with aclosing(run_episodes(Blocks, answering(), tasks(20), options=RunOptions(concurrency=4))) as episodes:
        async for episode in episodes:
            order.append(episode.task.seed)
            if len(order) == 19:
                others_done.set()
    assert order[-1] == 0


async def test_a_scripted_agent_that_never_waits_still_lets_the_loop_turn() -> None:
    (episode,) = await played(
        Count,
        OracleAgent(),
        tasks(1),
        env_kwargs={"length": 10**9, "max_turns": 10**9},
        episode_timeout=0.1,
        concurrency=1,
    )
    assert episode.outcome is tw.Outcome.POLICY_FAILED, "a deadline can strike only if the event loop gets its turn"


async def test_wrapped_environments_are_played_like_any_other() -> None:
    for kind in (Count, BlockingCount):
        (episode,) = await played(lambda kind=kind: TurnLimit(kind(length=9), 2), OracleAgent(), tasks(1))
        assert episode.outcome is tw.Outcome.TRUNCATED
        assert [turn.action.text for turn in episode.turns] == ["best 0", "best 1"]
        assert episode.score is not None


async def test_endless_tasks_are_drawn_only_as_far_as_somebody_takes_episodes() -> None:
    drawn = 0

    def endless() -> Any:
        nonlocal drawn
        for seed in itertools.count():
            drawn += 1
            yield tw.TaskSpec("Count", seed=seed)

    taken = 0
    async with aclosing(run_episodes(Count, answering(), endless(), options=RunOptions(concurrency=3))) as episodes:
        async for _ in episodes:
            taken += 1
            for _ in range(200):
                await asyncio.sleep(0)  # a slow consumer
            assert drawn <= taken + 2 * 3 + 1, "the runner ran ahead of its consumer"
            if taken == 10:
                break


async def test_environments_are_reused_between_episodes_and_replaced_after_a_failure() -> None:
    sound = EnvPool.of(Count)
    async with sound:
        await played(sound, answering(), tasks(30), concurrency=3)
    assert sound.made == 3
    broken = EnvPool.of(faulty({seed: [(2, raises)] for seed in range(5)}), isolation="inline")
    async with broken:
        await played(broken, answering(), tasks(30), concurrency=1)
    assert broken.made == 1 + 5, "each failure costs its environment, and nothing else does"


async def test_a_pool_of_ones_own_outlives_a_run() -> None:
    class Fresh(Count):
        opened: ClassVar[list[Count] | None] = []
        closed: ClassVar[list[Count] | None] = []

    async with EnvPool.of(Fresh) as pool:
        await played(pool, answering(), tasks(4), concurrency=2)
        await played(pool, answering(), tasks(4), concurrency=2)
        assert pool.made == 2
        assert not Fresh.closed
    assert Fresh.closed is not None
    assert len(Fresh.closed) == 2


# -- infrastructure failures ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(turn=st.integers(0, 3), failures=st.integers(1, 4), retries=st.integers(0, 3))
def test_an_environment_that_raises_is_retried_then_unscored(turn: int, failures: int, retries: int) -> None:
    env = faulty({1: [(turn, raises)] * failures})
    stats = RunStats()
    episodes = run(env, answering(), tasks(3), stats=stats, retries=retries, backoff=0.0, isolation="inline")
    assert [episode.task.seed for episode in episodes] == [0, 1, 2]
    struck = episodes[1]
    assert stats.failures == {"EnvironmentFailedError": min(failures, retries + 1)}
    assert stats.retries == min(failures, retries)
    assert struck.attempts == min(failures, retries) + 1
    if failures <= retries:
        assert struck.outcome is tw.Outcome.COMPLETED
        assert len(struck.turns) == 3, "nothing of the failed attempts is left in the record"
        return
    assert_never_scored(struck, episodes)
    assert len(struck.turns) == turn, "turns are kept for inspection, and the action that was not answered"
    assert struck.after_action == (struck.attempts if turn else 0), "failures after an action are counted"
    assert bool(turn) is any(UNANSWERED in each.info for each in struck.turns[-1:]), "and that action is marked"
    assert struck.error is not None
    assert "ZeroDivisionError: the world divided by zero" in struck.error
    assert "fakes.py" in struck.error, "the error says where"
    assert "\n" not in struck.error


def test_a_key_in_an_environments_error_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "k-9f8e7d6c5b")
    monkeypatch.setenv("SHOP_PASSWORD", "k-9f8e7d6c5b-and-more")

    class Leaks(Count):
        def act(self, action: tw.Action) -> Any:
            raise OSError("POST https://shop.test/buy?key=k-9f8e7d6c5b failed, as k-9f8e7d6c5b-and-more")

    (episode,) = run(Leaks, answering(), tasks(1), retries=0)
    assert episode.error is not None
    assert "shop.test" in episode.error
    assert "k-9f8e7d6c5b" not in episode.error
    assert "and-more" not in episode.error, "a value that contains another is masked whole"


def assert_never_scored(failed: tw.Episode, episodes: list[tw.Episode]) -> None:
    assert failed.outcome in (tw.Outcome.INFRA_FAILED, tw.Outcome.CANCELLED)
    assert failed.score is None
    assert failed not in tw.scored(episodes), "scored() drops it"
    with pytest.raises(UnscoredEpisodeError):
        _ = failed.total_reward
    with pytest.raises(UnscoredEpisodeError):
        _ = failed.success


async def test_a_group_in_which_all_but_one_fail_keeps_one() -> None:
    env = faulty({0: [(2, raises)] * 3})
    episodes = await played(env, answering(), tasks(1), group_size=4, retries=0, concurrency=1)
    assert [episode.outcome for episode in episodes] == [tw.Outcome.INFRA_FAILED] * 3 + [tw.Outcome.COMPLETED]
    assert len({episode.group_id for episode in episodes}) == 1
    assert tw.scored(episodes) == episodes[3:]


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, 2])
async def test_an_environment_that_hangs_is_given_up_at_the_deadline(turn: int) -> None:
    env, stats = faulty({1: [(turn, hangs)] * 9}), RunStats()
    episodes = await played(env, answering(), tasks(3), stats, env_timeout=0.5, retries=1, isolation="inline")
    (struck,) = [episode for episode in episodes if episode.task.seed == 1]
    assert_never_scored(struck, episodes)
    assert "EnvironmentTimeoutError" in str(struck.error)
    assert "env_timeout" in str(struck.error), "the error names the setting"
    assert stats.failures == {"EnvironmentTimeoutError": 2}
    assert len(tw.scored(episodes)) == 2


async def test_an_environment_that_blocks_its_thread_for_ever_is_abandoned() -> None:
    BlocksForever.let_go = threading.Event()
    stats = RunStats()
    episodes = await played(BlocksForever, answering(), tasks(6), stats, env_timeout=0.5, retries=1, concurrency=2)
    (struck,) = [episode for episode in episodes if episode.task.seed == 0]
    assert_never_scored(struck, episodes)
    assert len(tw.scored(episodes)) == 5
    BlocksForever.let_go.set()
    assert await settled(lambda: env_threads() == 0), "an abandoned thread ends when its call comes back"
    assert ended(BlocksForever), "and closes its environment"


@pytest.mark.slow
def test_a_hung_thread_does_not_keep_the_process() -> None:
    code = """
import threading, turnwise as tw
from turnwise.agents.scripted import NullAgent
from turnwise.rollouts.runner import run

class Hangs(tw.TurnEnv):
    def start(self, task, rng): threading.Event().wait()
    def act(self, action): ...

(episode,) = run(Hangs, NullAgent(), [tw.TaskSpec("Hangs")], env_timeout=0.1, retries=0)
print(episode.outcome)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert ended.stdout.strip() == "infra_failed", ended.stderr
    assert ended.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("how", "message"), [("exit", "exit code 7"), ("signal", "SIGKILL")])
async def test_a_process_that_dies_is_replaced(tmp_path: Path, how: str, message: str) -> None:
    stats, name = RunStats(), f"{how}"
    episodes = await played(
        deadly(tmp_path / name, how), answering(), tasks(2, "Deadly"), stats, isolation="process", concurrency=1
    )
    assert [episode.outcome for episode in episodes] == [tw.Outcome.COMPLETED] * 2
    assert stats.failures == {"EnvironmentDiedError": 1}
    assert episodes[0].attempts == 2
    (dead,) = await played(
        deadly(tmp_path / "never", "always" if how == "exit" else how),
        answering(),
        tasks(1, "Deadly"),
        isolation="process",
        retries=0,
    )
    assert_never_scored(dead, [dead])
    assert message in str(dead.error), "the error says how the process ended"


async def test_an_environment_that_cancels_itself_is_a_failure_not_an_end() -> None:
    episodes = await played(faulty({0: [(1, cancels)]}), answering(), tasks(2), isolation="inline")
    assert sorted(episode.attempts for episode in episodes) == [1, 2]


async def test_a_policy_server_that_is_gone_is_retried_in_a_new_session() -> None:
    failures = iter([True, True, False])

    async def flaky(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        if turn == 2 and next(failures, False):
            raise InfrastructureError("connection refused")
        return await answer(context, turn, observation)

    agent, stats = FakeAgent(flaky), RunStats()
    (episode,) = await played(Count, agent, tasks(1), stats)
    assert episode.outcome is tw.Outcome.COMPLETED
    assert episode.attempts == 3
    assert len(agent.contexts) == 3, "each attempt opens its own session"
    assert episode.redrawn == 2, "and sampling again is counted"
    assert len({context.rng.key for context in agent.contexts}) == 1, "with the same random numbers: nothing is redrawn"
    assert len({context.episode_id for context in agent.contexts}) == 1
    (lost,) = await played(Count, FakeAgent(gone), tasks(1), retries=1)
    assert_never_scored(lost, [lost])
    assert lost.error == "InfrastructureError: connection refused"


async def test_a_retry_repeats_the_recorded_actions_and_draws_nothing_again() -> None:
    """A policy that can cause infrastructure failures must not gain by it: no second sample, no other session."""
    drawn = itertools.count()

    async def draws(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        return Decision(tw.Action(f"draw {next(drawn)}"))

    agent, env = FakeAgent(draws), faulty({0: [(2, raises), (3, raises)]})
    (episode,) = await played(env, agent, tasks(1), isolation="inline")
    assert [turn.action.text for turn in episode.turns] == ["draw 0", "draw 1", "draw 2"]
    assert (episode.attempts, episode.after_action, episode.redrawn, len(agent.contexts)) == (3, 2, 0, 1)
    assert replay(episode, Count).ok, "the record is what one environment answers to these actions"


async def test_where_the_world_differs_an_episode_is_played_anew_and_counted() -> None:
    worlds = itertools.count()

    class Unlike(Count):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
            super().start(task, rng)
            return f"world {next(worlds)}"

    agent = FakeAgent(answer)
    (episode,) = await played(faulty({0: [(2, raises)]}, Unlike), agent, tasks(1), isolation="inline")
    assert (episode.attempts, episode.after_action, episode.redrawn, len(agent.contexts)) == (2, 1, 1, 2)
    assert len(episode.turns) == 3, "nothing of the failed attempt is left in the record"


async def test_time_is_counted_from_the_first_attempt_and_repeated_actions_are_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = itertools.accumulate([0.0, *[1.0] * 99])
    seconds = [next(now)]
    failing = iter([True])

    class Paced(Count):
        """A second passes in every action; the last one fails once."""

        def act(self, action: tw.Action) -> Any:
            seconds.append(next(now))
            if self.turn == self.length and next(failing, False):
                raise ZeroDivisionError
            return super().act(action)

    monkeypatch.setattr(episode_run, "perf_counter", lambda: seconds[-1])
    (episode,) = await played(Paced, answering(), tasks(1), isolation="inline")
    assert episode.attempts == 2
    assert episode.seconds == 6.0, "of both attempts"
    assert [turn.seconds_env for turn in episode.turns] == [1.0, 1.0, 1.0]


async def gone(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
    raise InfrastructureError("connection refused")


# -- the policy's own failures -------------------------------------------------------------------------------------


async def test_a_policy_that_times_out_is_scored_as_a_failure_and_not_retried() -> None:
    async def sleepy(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        if turn == 3:
            await asyncio.Event().wait()
        return await answer(context, turn, observation)

    stats = RunStats()
    (episode,) = await played(Count, FakeAgent(sleepy), tasks(1), stats, turn_timeout=0.5)
    assert episode.outcome is tw.Outcome.POLICY_FAILED
    assert episode.scored
    assert not episode.success
    assert episode.total_reward == 0.25, "what it earned until then stands"
    assert episode.attempts == 1
    assert stats.retries == 0
    assert "turn_timeout" in str(episode.error)
    assert episode.final_observation is not None
    assert episode.final_observation.text.startswith("turn 2"), "what it failed to answer is kept"


async def test_a_prompt_that_is_too_long_is_the_policys_failure() -> None:
    async def full(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        raise PromptTooLongError("prompt of 9 tokens, context of 8")

    (episode,) = await played(Count, FakeAgent(full), tasks(1))
    assert episode.outcome is tw.Outcome.POLICY_FAILED
    assert episode.turns == ()
    assert episode.error == "PromptTooLongError: prompt of 9 tokens, context of 8"


async def slow_at_task_0(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
    if context.task.seed == 0 and turn == 2:
        await asyncio.Event().wait()
    return await answer(context, turn, observation)


@pytest.mark.parametrize("where", ["turn", "action"])
async def test_an_episode_deadline_in_the_agents_own_time_is_its_failure(where: str) -> None:
    """To wait until the time is up is no way out of the count."""
    env, agent = (Count, FakeAgent(slow_at_task_0)) if where == "turn" else (faulty({0: [(2, hangs)]}), answering())
    late, _ = sorted(await played(env, agent, tasks(2), episode_timeout=0.5), key=lambda e: e.task.seed)
    assert (late.outcome, late.success, len(late.turns)) == (tw.Outcome.POLICY_FAILED, False, 1)
    assert "episode_timeout" in str(late.error)


async def test_an_episode_deadline_while_the_environment_is_reset_cancels() -> None:
    late, _ = sorted(
        await played(faulty({0: [(0, hangs)]}), answering(), tasks(2), episode_timeout=0.5), key=lambda e: e.task.seed
    )
    assert late.outcome is tw.Outcome.CANCELLED
    assert inconclusive([late] * 3).startswith("inconclusive"), "whose fault it was is not known, and that is said"


class Waiting(FakeAgent):
    """Waits for a server, whose delay is never its own."""

    def start(self, context: EpisodeContext) -> Any:
        session: Any = super().start(context)
        session.patience = 60.0
        return session


async def test_an_episode_deadline_cancels_without_a_score() -> None:
    stats = RunStats()
    episodes = await played(Count, Waiting(slow_at_task_0), tasks(2), stats, episode_timeout=0.5)
    (late,) = [episode for episode in episodes if episode.task.seed == 0]
    assert late.outcome is tw.Outcome.CANCELLED
    assert_never_scored(late, episodes)
    assert len(late.turns) == 1
    assert stats.dropped.count == 1, "trap 25: what was dropped is counted,"
    assert (stats.dropped.mean_seconds or 0) >= 0.5, "with how long it had lasted"
    assert stats.dropped.mean_reward == 0.125, "and what it had gathered"


# -- mistakes stop the run -----------------------------------------------------------------------------------------


async def buggy(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
    if context.task.seed == 3 and turn == 2:
        raise KeyError("no such thing")
    return await answer(context, turn, observation)


async def test_a_bug_in_the_agent_stops_the_run_and_names_the_episode() -> None:
    message = r"FakeAgent, in turn 1 of episode \w{16}-0, raised KeyError: .* \(at .*test_runner.py:\d+ in buggy\)"
    with pytest.raises(ContractError, match=message) as caught:
        await played(Count, FakeAgent(buggy), tasks(50), concurrency=4)
    assert isinstance(caught.value.__cause__, KeyError), "the traceback leads to the bug"


@pytest.mark.parametrize("wrong", [None, "text", Decision("text")])  # type: ignore[arg-type]
async def test_an_agent_must_decide(wrong: Any) -> None:
    async def odd(context: EpisodeContext, turn: int, observation: Observation) -> Any:
        return wrong

    with pytest.raises(
        ContractError, match=r"not a Decision with an Action; return turnwise.agents.Decision\(.* in _FakeSession.act"
    ):
        await played(Count, FakeAgent(odd), tasks(1))


class Given:
    """An agent whose sessions are what it is given."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def start(self, context: EpisodeContext) -> Any:
        return self.session


class Plain:
    """A session whose ``act`` is not async."""

    def act(self, observation: Observation) -> Any:
        return Decision(tw.Action("+1"))


async def test_an_act_that_is_not_async_is_one() -> None:
    assert (await played(Count, Given(Plain()), tasks(1)))[0].outcome is tw.Outcome.COMPLETED


async def test_a_session_is_something_that_acts() -> None:
    message = (
        r"Given, .* returned None from start\(\); return the episode's session, .*test_runner.py:\d+ in Given.start"
    )
    with pytest.raises(ContractError, match=message):
        await played(Count, Given(None), tasks(1))

    class Late(Given):
        async def start(self, context: EpisodeContext) -> Any:
            return self.session

    with pytest.raises(ContractError, match=r"has an async start\(\); write def start"):
        await played(Count, Late(Plain()), tasks(1))


@pytest.mark.parametrize("error", [TimeoutError("inner"), asyncio.CancelledError(), StopAsyncIteration(), OSError()])
async def test_whatever_an_agent_raises_the_run_ends(error: BaseException) -> None:
    async def odd(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        raise error

    with pytest.raises(ContractError, match=type(error).__name__):
        await played(Count, FakeAgent(odd), tasks(3))


@pytest.mark.parametrize("verb", ["over", "close"])
async def test_an_agent_that_is_canceled_from_within_after_its_last_turn_ends_the_run(verb: str) -> None:
    class Odd:
        def start(self, context: EpisodeContext) -> Any:
            return self

        async def act(self, observation: Observation) -> Decision:
            return Decision(tw.Action("x"))

        async def over(self, observation: Observation) -> tuple[int, ...]:
            await self.canceled("over")
            return ()

        async def close(self) -> None:
            await self.canceled("close")

        async def canceled(self, where: str) -> None:
            if where == verb:
                task = asyncio.create_task(asyncio.sleep(60))
                task.cancel()
                await task

    async with asyncio.timeout(10):
        with pytest.raises(ContractError, match="was canceled from within"):
            await played(Count, Odd(), tasks(3))


async def test_an_agent_that_cannot_start_is_named() -> None:
    class Broken:
        def start(self, context: EpisodeContext) -> Any:
            raise ValueError("no model")

    with pytest.raises(ContractError, match=r"agent Broken, in turn 0 of episode .* raised ValueError: no model"):
        await played(Count, Broken(), tasks(1))


async def test_a_missing_oracle_is_a_clear_error_not_a_failed_episode() -> None:
    class Dumb(Count):
        def oracle(self) -> tw.Action:
            raise ContractError("Dumb has no oracle")

    with pytest.raises(ContractError, match="Dumb has no oracle"):
        await played(Dumb, OracleAgent(), tasks(1))


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["inline", "thread", "process"])
async def test_a_wrong_task_is_a_usage_error_wherever_the_environment_lives(isolation: str) -> None:
    env = "turnwise/Maze-v0"
    with pytest.raises(TaskError, match="the task spec names family 'chess'"):
        await played(env, answering(), [tw.TaskSpec("chess")], isolation=isolation)


async def test_wrong_input_is_told_before_anything_is_played() -> None:
    with pytest.raises(UsageError, match="tasks must yield TaskSpec; item 1 is int"):
        await played(Count, answering(), [tw.TaskSpec("Count"), 3])
    with pytest.raises(UnknownEnvironmentError, match="Maze"):
        await played("turnwise/Mase-v0", answering(), tasks(1))
    with pytest.raises(UsageError, match="an id, a class or a factory"):
        await played(Count(), answering(), tasks(1))
    with pytest.raises(UsageError, match="does not take the argument 'colour'"):
        await played("turnwise/Maze-v0", answering(), tasks(1), env_kwargs={"colour": "red"})
    with pytest.raises(UsageError, match=r"run option concurrency: .*; got 0"):
        run_options(concurrency=0)
    with pytest.raises(UsageError, match="run option speed"):
        run_options(speed=3)


async def test_tasks_that_fail_to_come_pass_their_error_on() -> None:
    def failing() -> Any:
        yield from tasks(2)
        raise OSError("task file is missing")

    with pytest.raises(OSError, match="task file is missing"):
        await played(Count, answering(), failing())


async def test_no_tasks_is_no_episodes() -> None:
    assert await played(Count, answering(), []) == []


# -- leaving early -------------------------------------------------------------------------------------------------


def ended(kind: type[Count]) -> bool:
    """Every environment of a watched class is closed."""
    return kind.opened is not None and kind.closed is not None and len(kind.opened) == len(kind.closed) > 0


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """Threads that hanging environments of other tests have left to this process."""
    OTHERS.update(threading.enumerate())
    yield
    OTHERS.clear()


OTHERS = set[threading.Thread]()


def env_threads() -> int:
    return sum(thread.name == "turnwise-env" for thread in set(threading.enumerate()) - OTHERS)


async def settled(condition: Any) -> bool:
    for _ in range(500):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.mark.parametrize("base", [Count, BlockingCount])
@pytest.mark.parametrize("leave", ["aclose", "error", "cancel"])
async def test_leaving_early_closes_everything(base: type[Count], leave: str) -> None:
    class Own(base):  # type: ignore[misc, valid-type]
        opened: ClassVar[list[Count] | None] = []
        closed: ClassVar[list[Count] | None] = []

    async def forever(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        if context.task.seed >= 4:
            await asyncio.Event().wait()
        return await answer(context, turn, observation)

    before, stats, seen = len(asyncio.all_tasks()), RunStats(), []

    async def consume() -> None:
        options = RunOptions(concurrency=8)
        async with aclosing(run_episodes(Own, FakeAgent(forever), tasks(40), options=options, stats=stats)) as episodes:
            async for episode in episodes:
                seen.append(episode)
                if len(seen) == 4:
                    if leave == "error":
                        raise RuntimeError("the consumer failed")
                    if leave == "cancel":
                        await asyncio.Event().wait()
                    break

    consumer = asyncio.create_task(consume())
    if leave == "cancel":
        assert await settled(lambda: len(seen) == 4)
        consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    assert len(asyncio.all_tasks()) == before, "no task is left"
    assert await settled(lambda: env_threads() == 0), "no thread is left"
    assert await settled(lambda: ended(Own)), "every environment is closed"
    assert stats.outcomes[tw.Outcome.COMPLETED] == 4
    assert stats.outcomes[tw.Outcome.CANCELLED] >= 4, "what was under way is counted"


async def test_a_generator_that_is_never_started_leaves_nothing() -> None:
    generator = run_episodes(Count, answering(), tasks(3))
    await generator.aclose()
    assert env_threads() == 0


# -- where environments live ---------------------------------------------------------------------------------------


async def homes(env: Any, **options: Any) -> set[str]:
    episodes = await played(env, answering(), tasks(2), env_kwargs={"length": 2}, **options)
    return {str(episode.turns[0].info["thread"]) for episode in episodes}


class Tells(Count):
    def act(self, action: tw.Action) -> Any:
        if self.turn == self.length:
            return super().act(action)
        return tw.running("on", thread=threading.current_thread().name)


class TellsBlocking(Tells):
    blocking = True


class TellsAsync(Tells):
    blocking = True

    async def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        return super().start(task, rng)

    async def act(self, action: tw.Action) -> Any:
        return super().act(action)


class TellsAsyncJudgedSlowly(TellsAsync):
    def judge(self) -> tw.Score:
        return tw.Score(success=True)


class TellsAsyncAllThrough(TellsAsync):
    async def judge(self) -> tw.Score:
        return tw.Score(success=True)


async def test_auto_gives_threads_to_what_blocks_and_to_nothing_else() -> None:
    here = {threading.current_thread().name}
    assert await homes(Tells) == here
    assert await homes(TellsAsync) == here, "what is a coroutine throughout does not block"
    assert await homes(TellsAsyncAllThrough) == here
    assert await homes(TellsAsyncJudgedSlowly) == {"turnwise-sync"}, "its judge may block, so it has a thread to do so"
    assert await homes(TellsBlocking) == {"turnwise-env"}
    assert await homes(lambda **kwargs: Tells(**kwargs)) == here, "a factory is looked into"
    assert await homes(lambda **kwargs: TellsBlocking(**kwargs)) == {"turnwise-env"}
    assert await homes(TellsBlocking, isolation="inline") == here
    assert await homes(Tells, isolation="thread") == {"turnwise-env"}


def test_run_returns_tasks_in_order() -> None:
    episodes = run(Count, answering(), tasks(9), group_size=2, concurrency=5)
    assert [episode.task.seed for episode in episodes] == sorted(list(range(9)) * 2)
    assert [episode.episode_id[-1] for episode in episodes] == ["0", "1"] * 9


async def test_run_refuses_to_start_a_loop_within_a_loop() -> None:
    with pytest.raises(UsageError, match="use `async for episode in run_episodes"):
        run(Count, answering(), tasks(1))


# -- tasks from an asynchronous source -----------------------------------------------------------------------------


class Tap:
    """A source that hands out tasks on request."""

    def __init__(self, wanted: list[Any]) -> None:
        self.wanted = wanted
        self.asked = 0
        self.closed = False
        self.open = asyncio.Semaphore(0)

    async def __call__(self) -> Any:
        try:
            for task in self.wanted:
                self.asked += 1
                await self.open.acquire()
                yield task
        finally:
            self.closed = True


async def test_an_asynchronous_source_plays_the_same_run() -> None:
    async def source() -> Any:
        for task in tasks(5):
            await asyncio.sleep(0)
            yield task

    plain = await played(Count, answering(), tasks(5), group_size=2, concurrency=3)
    later = await played(Count, answering(), source(), group_size=2, concurrency=3)
    assert sorted(e.episode_id for e in later) == sorted(e.episode_id for e in plain)


async def test_a_source_holds_the_next_task_back_while_others_are_played() -> None:
    tap = Tap(tasks(3))
    found: list[tw.Episode] = []

    async def play() -> None:
        async with aclosing(run_episodes(Count, answering(), tap(), options=RunOptions(group_size=2))) as episodes:
            async for episode in episodes:
                found.append(episode)

    playing = asyncio.create_task(play())
    for count in (1, 2, 3):
        tap.open.release()
        while len(found) < 2 * count:  # noqa: ASYNC110 - the loop itself is what is waited for
            await asyncio.sleep(0)
        assert [episode.task.seed for episode in found[-2:]] == [count - 1] * 2
        assert tap.asked == min(count + 1, 3), "the next one is asked for by one worker, and not given"
    await playing
    assert tap.closed


async def test_leaving_a_run_closes_a_source_that_holds_back() -> None:
    tap = Tap(tasks(2))
    tap.open.release()
    async with aclosing(run_episodes(Count, answering(), tap())) as episodes:
        await anext(episodes)
        assert not tap.closed
    assert tap.closed


async def test_a_task_may_say_its_place() -> None:
    async def shuffled() -> Any:
        for index in (2, 0, 1):
            yield IndexedTask(index, tasks(3)[index])

    plain = await played(Count, answering(), tasks(3))
    placed = await played(Count, answering(), shuffled())
    assert {e.episode_id for e in placed} == {e.episode_id for e in plain}, "ids follow from the place, not the order"
    again = await played(Count, answering(), [IndexedTask(2, tasks(3)[2])])
    assert {e.episode_id for e in again} < {e.episode_id for e in plain}


async def test_what_a_source_raises_ends_the_run() -> None:
    async def broken() -> Any:
        yield tasks(1)[0]
        raise TaskError("no more of these")

    with pytest.raises(TaskError, match="no more of these"):
        await played(Count, answering(), broken())


# -- what would have been read next --------------------------------------------------------------------------------


class Parrot:
    """A policy that says one thing, and keeps what it read."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.ids = ids
        self.read: list[tuple[int, ...]] = []

    async def generate(self, prompt_ids: Any, sampling: Any, *, session: str = "") -> Completion:
        self.read.append(tuple(prompt_ids))
        return Completion(self.ids, (-0.5,) * len(self.ids), (0,) * len(self.ids), Finish.STOP)


async def test_a_conversation_goes_on_where_the_policy_server_failed() -> None:
    """Nothing is drawn again, and the policy reads what it would have read."""
    (smooth,) = await played(Count, chatting()[0], tasks(1))
    agent, parrot = chatting()
    generate, failing = parrot.generate, iter([False, True, True, False])

    async def flaky(*args: Any, **kwargs: Any) -> Completion:
        if next(failing, False):
            raise InfrastructureError("connection refused")
        return await generate(*args, **kwargs)

    parrot.generate = flaky  # type: ignore[method-assign]
    (episode,) = await played(Count, agent, tasks(1))
    assert (episode.attempts, episode.redrawn, episode.after_action) == (3, 0, 0)
    assert [(t.prompt_ids, t.action_ids) for t in episode.turns] == [(t.prompt_ids, t.action_ids) for t in smooth.turns]


def chatting(**settings: Any) -> tuple[ChatAgent, Parrot]:
    tokenizer = build_tokenizer("byte")
    agent = ChatAgent(Parrot(()), tokenizer, **settings)
    policy = Parrot(agent.template.written("hello"))
    agent.policy = policy
    return agent, policy


@pytest.mark.parametrize("context", ["full", "last:1"])
async def test_a_truncated_episode_says_what_would_have_been_read_next(context: str) -> None:
    agent, policy = chatting(context=context)
    (short,) = await played(Count, agent, tasks(1), env_kwargs={"length": 9, "turn_limit": 2})
    assert short.outcome is tw.Outcome.TRUNCATED
    agent, policy = chatting(context=context)
    (longer,) = await played(Count, agent, tasks(1), env_kwargs={"length": 9, "max_turns": 3})
    assert short.final_prompt_ids == longer.turns[2].prompt_ids == policy.read[2]
    assert short.final_prompt_ids


async def test_other_episodes_have_nothing_left_to_read() -> None:
    agent, _ = chatting()
    (completed,) = await played(Count, agent, tasks(1))
    assert completed.outcome is tw.Outcome.COMPLETED
    assert completed.final_prompt_ids == ()
    (scripted,) = await played(Count, answering(), tasks(1), env_kwargs={"length": 9, "turn_limit": 2})
    assert scripted.outcome is tw.Outcome.TRUNCATED
    assert scripted.final_prompt_ids == (), "an agent that reads no tokens has none to read"


async def test_what_would_have_been_read_is_stored(tmp_path: Path) -> None:
    agent, _ = chatting()
    (short,) = await played(Count, agent, tasks(1), env_kwargs={"length": 9, "max_turns": 2})
    with EpisodeStore(tmp_path / "store") as store:
        store.append(short)
    (loaded,) = load_episodes(tmp_path / "store")
    assert loaded.final_prompt_ids == short.final_prompt_ids
    assert loaded == short
