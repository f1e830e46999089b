"""Step values: means over rollouts, and their place in exported conversations."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from turnwise import Action, Episode, Outcome, Score, TaskSpec, Turn
from turnwise.envs.messages import Observation
from turnwise.rollouts.chat_jsonl import to_chat
from turnwise.rollouts.episode import UNSENT, Lookahead
from turnwise.rollouts.step_values import state_returns, state_values


def valued() -> Episode:
    turns = tuple(Turn(Observation.of(f"o{n}"), Action(f"a{n}"), 0.0) for n in range(3))
    ahead = (
        Lookahead(0, (1.0, 2.0), Outcome.COMPLETED),
        Lookahead(0, (3.0,), Outcome.TRUNCATED),
        Lookahead(2, (4.0,), Outcome.COMPLETED),
        Lookahead(2, (50.0,), Outcome.INFRA_FAILED),
        Lookahead(2, (60.0,), Outcome.POLICY_FAILED),
    )
    return Episode("e", "test/E-v0", TaskSpec("t"), "g", turns, Outcome.COMPLETED, score=Score(True), lookaheads=ahead)


def test_a_state_is_worth_the_mean_of_its_rollouts() -> None:
    assert state_returns(valued(), 0.5) == [[2.0, 3.0], [], [4.0, 4.0]]
    assert state_values(valued(), 0.5) == [pytest.approx(2.5), None, 4.0]
    assert state_values(valued()) == [3.0, None, 4.0], "undiscounted"


def test_a_rollout_that_its_policy_failed_returns_what_the_worst_one_did() -> None:
    """Left out, a state from which half of all rollouts outgrow the context was worth what the other half returned."""

    def failed(turn: int, *paid: float) -> Lookahead:
        return Lookahead(turn, paid, Outcome.POLICY_FAILED)

    ahead = valued().lookaheads
    episode = replace(valued(), lookaheads=(*ahead, failed(0), failed(0, -1.0, -8.0), failed(1, 0.0), failed(9)))
    assert state_returns(episode)[0] == [3.0, 3.0, 0.0, -9.0], "nothing paid yet is less than the worst"
    assert state_returns(episode)[1] == [0.0], "less than the worst of the episode, which returned 3"
    paid_early = replace(valued(), lookaheads=(*ahead, failed(0, 5.0), failed(1, 5.0)))
    assert state_returns(paid_early)[:2] == [[3.0, 3.0, 3.0], [3.0]]
    assert state_returns(replace(valued(), lookaheads=(failed(1, 5.0),)))[1] == [5.0], "no other to compare with"


def test_an_exported_conversation_has_one_value_per_assistant_message() -> None:
    episode = valued()
    line = json.loads(json.dumps(to_chat(episode)))
    assert line["step_values"] == [3.0, None, 4.0]
    assert len(line["step_values"]) == sum(message["role"] == "assistant" for message in line["messages"])
    plan = replace(episode.turns[0], info={UNSENT: True})
    unsent = replace(episode, turns=(plan, *episode.turns[1:]))
    assert to_chat(unsent)["step_values"] == [None, 4.0], "a plan is no message"
    assert "step_values" not in to_chat(replace(episode, lookaheads=()))
