"""Sessions with a process learn how their episode ended; their drafts are recorded and never sent."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.envs.messages import Observation
from turnwise.errors import InfrastructureError, PolicyError
from turnwise.rollouts.episode import UNSENT
from turnwise.rollouts.episode_request import EpisodeRequest
from turnwise.rollouts.episode_run import EpisodeRun
from turnwise.rollouts.episode_state import EpisodeState
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.replay import replay
from turnwise.rollouts.runner import run_episodes

from .fakes import Count, HoldingAgent, answer, tasks

OPTIONS = RunOptions(retries=1, backoff=0.0, isolation="inline")


async def play(agent: HoldingAgent, **kwargs: object) -> tw.Episode:
    options = OPTIONS.model_copy(update={"env_kwargs": kwargs})
    (episode,) = [e async for e in run_episodes(Count, agent, tasks(1), options=options)]
    return episode


async def test_a_session_is_told_of_the_end_and_closed_once_more() -> None:
    agent = HoldingAgent(answer)
    episode = await play(agent, length=2)
    assert episode.outcome is tw.Outcome.COMPLETED
    assert agent.ends == ["over: done", "closed"]


async def test_what_would_have_been_read_next_comes_from_the_session() -> None:
    agent = HoldingAgent(answer, next_ids=(4, 4))
    assert (await play(agent, length=9, turn_limit=2)).final_prompt_ids == (4, 4)
    assert (await play(agent, length=9, max_turns=2)).final_prompt_ids == (), "the task's own limit is its end"
    assert (await play(agent, length=2)).final_prompt_ids == (), "a task that is over has no next state"


async def test_drafts_are_turns_that_the_environment_never_saw() -> None:
    episode = await play(HoldingAgent(answer), length=2)
    assert [turn.sent for turn in episode.turns] == [False, True, False, True]
    draft = episode.turns[0]
    assert (draft.action.text, draft.action_ids, draft.logprobs, draft.reward) == ("draft", (5,), (-0.1,), 0.0)
    assert draft.info == {UNSENT: True}
    assert draft.observation.text == "think first"
    assert episode.total_reward == sum(turn.reward for turn in episode.turns if turn.sent)
    assert replay(episode, Count).ok, "a replay sends only what was sent"


async def test_a_session_is_closed_when_the_policy_fails() -> None:
    async def fails(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        raise PolicyError("nothing to say")

    agent = HoldingAgent(fails)
    episode = await play(agent)
    assert episode.outcome is tw.Outcome.POLICY_FAILED
    assert set(agent.ends) == {"closed"}
    assert [turn.sent for turn in episode.turns] == [False], "what was sampled before the failure is kept"


async def test_a_session_is_closed_before_another_attempt_begins() -> None:
    async def fails(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        agent.ends.append("fails")
        raise InfrastructureError("the server is lost")

    agent = HoldingAgent(fails)
    assert (await play(agent)).outcome is tw.Outcome.INFRA_FAILED
    assert agent.ends == ["fails", "closed", "fails", "closed"]


async def test_a_session_is_closed_when_the_run_is_stopped() -> None:
    started = asyncio.Event()

    async def hangs(context: EpisodeContext, turn: int, observation: Observation) -> Decision:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    agent = HoldingAgent(hangs)
    async with aclosing(run_episodes(Count, agent, tasks(1), options=OPTIONS)) as episodes:
        waiting = asyncio.ensure_future(anext(episodes))
        await started.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert agent.ends == ["closed"]


class HangsInClosing:
    """An agent and its session, whose process does not let go."""

    def start(self, context: EpisodeContext) -> HangsInClosing:
        return self

    async def act(self, observation: Observation) -> Decision:
        return Decision(tw.Action("on"))

    async def over(self, observation: Observation) -> tuple[int, ...]:
        return ()

    async def close(self) -> None:
        await asyncio.Event().wait()


class Refuses:
    """An observer that fails at the first place."""

    async def reached(self, state: EpisodeState) -> None:
        raise InfrastructureError("no fork is possible")

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        raise AssertionError("this line must not be reached")


async def test_the_clock_runs_again_for_closing_after_an_observer_failed() -> None:
    (task,) = tasks(1)
    options = OPTIONS.model_copy(update={"episode_timeout": 0.05})
    attempt = EpisodeRun(
        EpisodeRequest(task, 0, 0, "e", "g", "Count", {}), 1, HangsInClosing(), options, observer=Refuses()
    )
    async with EnvPool.of(Count) as pool:
        episode = await asyncio.wait_for(attempt.play(pool), 60)
    assert episode.outcome is tw.Outcome.CANCELLED
    assert "episode_timeout" in str(episode.error)
