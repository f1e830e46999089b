"""Step values: means over the rollouts that ended, and their place in exported conversations."""

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


def test_a_state_is_worth_the_mean_of_the_rollouts_that_ended() -> None:
    assert state_returns(valued(), 0.5) == [[2.0, 3.0], [], [4.0]]
    assert state_values(valued(), 0.5) == [pytest.approx(2.5), None, 4.0]
    assert state_values(valued()) == [3.0, None, 4.0], "undiscounted"


def test_an_exported_conversation_has_one_value_per_assistant_message() -> None:
    episode = valued()
    line = json.loads(json.dumps(to_chat(episode)))
    assert line["step_values"] == [3.0, None, 4.0]
    assert len(line["step_values"]) == sum(message["role"] == "assistant" for message in line["messages"])
    plan = replace(episode.turns[0], info={UNSENT: True})
    unsent = replace(episode, turns=(plan, *episode.turns[1:]))
    assert to_chat(unsent)["step_values"] == [None, 4.0], "a plan is no message"
    assert "step_values" not in to_chat(replace(episode, lookaheads=()))
