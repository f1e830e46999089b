from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from turnwise.agents.chat import ChatAgent
from turnwise.errors import InfrastructureError
from turnwise.inference.nano import build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.tasks.rng import Rng
from turnwise.trainers.collect.resample import fresh_utterances


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
