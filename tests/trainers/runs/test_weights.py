"""The canary (trap 18, in process): weights that do not arrive stop the run."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from turnwise import Completion, Finish, Sampling
from turnwise.agents.nano import NanoConfig, build_model, build_tokenizer
from turnwise.agents.transformers_policy import TransformersPolicy
from turnwise.errors import ContractError
from turnwise.trainers.runs.session import TOLERANCES
from turnwise.trainers.runs.weights import InProcess, Probe, logprobs_of

from ..fakes import Bigram


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


async def test_the_rounding_of_16_bit_weights_is_not_taken_for_weights_that_were_lost() -> None:
    words = "what is the answer to all of this"
    tokenizer = build_tokenizer("word", [words], vocab_size=64)
    model: Any = build_model(NanoConfig(size="2M"), tokenizer)
    model.to(torch.bfloat16)
    policy, ids = TransformersPolicy(model, tokenizer), tuple(tokenizer.encode(words))
    await InProcess(policy, model, Probe(ids, tolerance=TOLERANCES["bfloat16"])).send(0)
    with pytest.raises(ContractError, match="did not arrive"):  # why it needs a tolerance of its own
        await InProcess(policy, model, Probe(ids, tolerance=TOLERANCES["float32"])).send(0)
