from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from turnwise.agents.chat import ChatAgent
from turnwise.errors import InfrastructureError
from turnwise.inference.nano import build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.tasks.rng import Rng
from turnwise.trainers.collect.resample import fresh_utterances, shared_utterances


class Echo:
    """A policy that samples its request's seed, with scripted endings."""

    def __init__(self, finish: Finish = Finish.STOP) -> None:
        self.finish = finish
        self.asked: list[Sampling] = []

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        self.asked.append(sampling)
        assert sampling.seed is not None
        return Completion((sampling.seed % 1000, 7), (-1.0, -2.0), (3, 3), self.finish)


def agent(policy: Any) -> ChatAgent:
    return ChatAgent(policy, build_tokenizer("word", ["a b"]), sampling=Sampling(temperature=0.7, max_tokens=5))


async def test_fresh_utterances_follow_from_the_generators_key() -> None:
    policy = Echo()
    states = [(1, 2), (3,), (1, 2)]
    one = await fresh_utterances(agent(policy), states, Rng("x", 1))
    assert one == await fresh_utterances(agent(policy), states, Rng("x", 1))
    assert one != await fresh_utterances(agent(policy), states, Rng("x", 2))
    assert [said.prompt_ids for said in one.utterances] == states
    assert one.actions[0] != one.actions[2], "each request draws for itself"
    assert (one.utterances[0].logprobs, one.utterances[0].version) == ((-1.0, -2.0), 3)
    assert {(s.temperature, s.max_tokens) for s in policy.asked} == {(0.7, 5)}, "as the agent acts"
    assert all(sampling.stop_ids for sampling in policy.asked)


async def test_trap_7_what_ran_into_a_limit_is_counted() -> None:
    assert (await fresh_utterances(agent(Echo()), [(1,)], Rng(0))).metrics() == {"fresh/cut": 0.0}
    cut = await fresh_utterances(agent(Echo(Finish.LENGTH)), [(1,), (2,)], Rng(0))
    assert (cut.cut, cut.metrics()) == (2, {"fresh/cut": 1.0})


async def test_an_aborted_utterance_is_no_utterance() -> None:
    with pytest.raises(InfrastructureError, match="1 of 1 fresh utterances"):
        await fresh_utterances(agent(Echo(Finish.ABORT)), [(1,)], Rng(0))


async def test_batches_share_the_utterances_of_a_state() -> None:
    policy, often, once = Echo(), (1, 2), (3,)
    batches: list[list[tuple[int, ...]]] = [[often, once, often], [often], [often, often]]
    found = await shared_utterances(agent(policy), batches, Rng("x"), most=2)
    assert len(policy.asked) == 2 + 1, "five times the one state, at most two samples; once the other, one"
    said = [[(each.prompt_ids, each.action_ids) for each in one.utterances] for one in found]
    assert [[state for state, _ in each] for each in said] == batches, "each has an utterance of its own state"
    taken = [action for each in said for state, action in each if state == often]
    assert taken == [taken[0], taken[1]] * 2 + [taken[0]], "in turn"
    assert taken[0] != taken[1]
    assert found == await shared_utterances(agent(policy), batches, Rng("x"), most=2)


async def test_with_room_for_all_no_two_turns_share_an_utterance() -> None:
    policy = Echo(Finish.LENGTH)
    batches: list[list[tuple[int, ...]]] = [[(1,), (1,)], [(1,)]]
    found = await shared_utterances(agent(policy), batches, Rng("x"), most=9)
    assert len({action for each in found for action in each.actions}) == len(policy.asked) == 3
    assert [each.cut for each in found] == [2, 1]
