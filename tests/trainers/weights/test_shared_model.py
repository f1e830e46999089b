"""The canary (trap 18): weights that do not arrive stop the run."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from turnwise import Completion, Finish, Sampling
from turnwise.errors import ContractError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.rollouts.rows import merge
from turnwise.trainers.weights.canary import Probe, logprobs_of
from turnwise.trainers.weights.noise import Bounds
from turnwise.trainers.weights.shared_model import Copied, InProcess, own_copy

from ..fakes import Bigram, episode, turn
from .fake import nudge as step


class BigramPolicy:
    """Greedy continuation by a bigram table: the learner's own, or a stale copy of it."""

    def __init__(self, model: Bigram, *, arrives: bool = True, stamps: bool = True) -> None:
        self.trained = model
        self.model = model if arrives else copy.deepcopy(model)
        self.stamps = stamps
        self.version = 0

    def update(self, state_dict: Mapping[str, Any] | None, version: int) -> None:
        if self.stamps:
            self.version = version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        ids = [prompt_ids[-1]]
        for _ in range(sampling.max_tokens):
            ids.append(int(self.model.table[ids[-1]].argmax()))
        answer = tuple(ids[1:])
        logprobs = logprobs_of(self.model, prompt_ids, answer)
        return Completion(answer, logprobs, (self.version,) * len(answer), Finish.LENGTH)


def nudge(model: Bigram, size: float) -> None:
    with torch.no_grad():
        model.table.add_(size * torch.randn(model.table.shape, generator=torch.Generator().manual_seed(3)))


async def test_a_step_lost_in_rounding_proves_nothing_and_many_of_them_do() -> None:
    """Seen in a run whose policy was certain of the probe's answer: the one side moved in its last digit alone."""
    model = Bigram()
    transfer = InProcess(BigramPolicy(model, arrives=False), model, Probe((1, 2)))

    async def steps(first: int, last: int) -> None:
        for version in range(first, last):
            await transfer.send(version)
            nudge(model, 3e-7)

    await steps(0, 3)
    with pytest.raises(ContractError, match=r"changed by .*, the policy's are exactly the previous ones"):
        await steps(3, 200)


async def test_shared_weights_arrive_with_every_update() -> None:
    model = Bigram()
    policy = BigramPolicy(model)
    transfer = InProcess(policy, model, Probe((1, 2)))
    for version in range(3):
        await transfer.send(version)
        nudge(model, 0.5)
    assert policy.version == 2


async def test_a_policy_with_a_stale_copy_is_caught() -> None:
    model = Bigram()
    transfer = InProcess(BigramPolicy(model, arrives=False), model, Probe((1, 2)))
    await transfer.send(0)
    nudge(model, 0.5)
    with pytest.raises(ContractError, match="version 1 did not arrive: policy and learner differ"):
        await transfer.send(1)


async def test_even_an_update_too_small_for_the_tolerance_is_missed() -> None:
    model = Bigram()
    transfer = InProcess(BigramPolicy(model, arrives=False), model, Probe((1, 2)))
    await transfer.send(0)
    nudge(model, 1e-5)
    with pytest.raises(ContractError, match="the policy's are exactly the previous ones"):
        await transfer.send(1)


async def test_weights_that_did_not_change_are_no_reason_to_stop() -> None:
    model = Bigram()
    transfer = InProcess(BigramPolicy(model), model, Probe((1, 2)))
    await transfer.send(0)
    await transfer.send(1)


async def test_a_policy_that_does_not_stamp_the_version_is_caught() -> None:
    model = Bigram()
    with pytest.raises(ContractError, match="stamps version 0 after version 4"):
        await InProcess(BigramPolicy(model, stamps=False), model, Probe((1, 2))).send(4)


@pytest.mark.slow
async def test_the_rounding_of_16_bit_weights_is_not_taken_for_weights_that_were_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = "what is the answer to all of this"
    tokenizer = build_tokenizer("word", [words], vocab_size=64)
    model: Any = build_model(NanoConfig(size="2M"), tokenizer)
    model.to(torch.bfloat16)
    policy, ids = TransformersPolicy(model, tokenizer), tuple(tokenizer.encode(words))
    known = InProcess(policy, model, Probe(ids, bounds=Bounds.of(["bfloat16"])))
    for version in range(20):
        await known.send(version)
        step(model, size=1e-3, seed=version)
    assert known.canary.warnings == 0
    assert not caplog.text
    unknown = InProcess(policy, model, Probe(ids, bounds=Bounds.of(["float32"])))
    for version in range(20, 22):
        await unknown.send(version)
    assert unknown.canary.warnings == 2
    assert caplog.text.count("they compute differently") == 1, "why it needs bounds of its own"


# -- a policy with a model of its own ------------------------------------------------------------------------------


class CopyPolicy(BigramPolicy):
    """Samples from its own copy of a bigram table, and takes weights as it should, or does not."""

    def __init__(self, model: Bigram, sabotage: str = "") -> None:
        super().__init__(model)
        self.model = own_copy(model)
        self.sabotage = sabotage
        self.first = copy.deepcopy(model.state_dict())

    def update(self, state_dict: Mapping[str, Any] | None, version: int) -> None:
        assert state_dict is not None, "a copy is given weights"
        if self.sabotage != "ignores":
            self.model.load_state_dict(self.first if self.sabotage == "old" else state_dict)
        if self.sabotage != "stale":
            self.version = version


async def test_copied_weights_arrive_and_the_copy_is_apart() -> None:
    model = Bigram()
    policy = CopyPolicy(model)
    transfer = Copied(policy, model, Probe((1, 2)))
    for version in range(3):
        await transfer.send(version)
        assert torch.equal(policy.model.table, model.table)
        nudge(model, 0.5)
        assert not torch.equal(policy.model.table, model.table), "what is learnt reaches the policy only when sent"
    assert not policy.model.table.requires_grad


@pytest.mark.parametrize("size", [0.5, 1e-5])
@pytest.mark.parametrize("sabotage", ["ignores", "old"])
async def test_weights_that_were_not_taken_are_caught(sabotage: str, size: float) -> None:
    model = Bigram()
    transfer = Copied(CopyPolicy(model, sabotage), model, Probe((1, 2)))
    await transfer.send(0)
    nudge(model, size)
    with pytest.raises(ContractError, match="weights of version 1 did not arrive"):
        await transfer.send(1)


async def test_a_stale_version_is_caught() -> None:
    model = Bigram()
    with pytest.raises(ContractError, match="stamps version 0 after version 1"):
        await Copied(CopyPolicy(model, "stale"), model, Probe((1, 2))).send(1)


async def test_weights_sent_twice_are_no_reason_to_stop() -> None:
    model = Bigram()
    transfer = Copied(CopyPolicy(model), model, Probe((1, 2)))
    await transfer.send(0)
    await transfer.send(0)
    await transfer.send(1)


class Stepped(TransformersPolicy):
    """Waits before each forward pass until it is let, and says when it is about to begin one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.passes = 0
        self.about = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def _step(self, arrivals: Any) -> None:
        self.about.release()
        assert self.go.acquire(timeout=60)
        super()._step(arrivals)
        self.passes += 1


async def test_an_action_goes_on_across_an_update_and_its_row_says_which_token_is_whose() -> None:
    tokenizer = build_tokenizer("word", ["what is the answer to all of this"], vocab_size=64)
    learnt: Any = build_model(NanoConfig(size="0.1M"), tokenizer)
    policy = Stepped(own_copy(learnt), threaded=True)
    policy._stop_ids = frozenset()
    prompt = tuple(tokenizer.encode("what is the answer"))
    speaking = asyncio.create_task(policy.generate(prompt, Sampling(max_tokens=5, seed=0)))
    for _ in range(2):
        policy.go.release()
    for _ in range(3):
        assert await asyncio.to_thread(policy.about.acquire, True, 60)
    with torch.no_grad():
        for parameter in learnt.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    assert policy.passes == 2
    sending = asyncio.create_task(Copied(policy, learnt, Probe(prompt)).send(1))
    while policy.version == 0:  # noqa: ASYNC110 - between two passes nobody holds the weights, so they come in
        await asyncio.sleep(0)
    for _ in range(30):
        policy.go.release()
    await sending
    said = await speaking
    assert said.versions == (0, 0, 1, 1, 1)
    (row,) = merge(episode([replace(turn(prompt, said.token_ids), logprobs=said.logprobs, versions=said.versions)]))
    assert row.versions[-5:] == said.versions, "rows carry it"
    assert row.logprobs[-5:] == said.logprobs
    assert logprobs_of(learnt, prompt, said.token_ids)[0] != pytest.approx(said.logprobs[0], abs=1e-4)
