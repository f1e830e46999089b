"""Everything that computes with a model in a run computes in the same way, so that equal weights give equal numbers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise import Sampling
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.trainers.critics.encoder import EncoderConfig
from turnwise.trainers.critics.encoders import encoder_named
from turnwise.trainers.critics.token_values import ValuesConfig, token_values
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic
from turnwise.trainers.learning.kl import reference_metrics
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.reference import Reference
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.learning.scorer import Scorer
from turnwise.trainers.learning.utterances import Utterance, pack_utterances
from turnwise.trainers.weights.canary import logprobs_of

from ..fakes import Said, conversation

TOKENIZER = build_tokenizer("byte")
SHAPE = NanoConfig(tokenizer="byte", size="0.1M", layers=2, hidden=32, heads=2, head_dim=16, intermediate=48)
IN_16_BITS = Scorer(autocast=torch.bfloat16)


def model() -> Any:
    return build_model(SHAPE, TOKENIZER, seed=0)


def uneven(episodes: int = 9) -> Rows:
    """Rows of different lengths, in two micro-batches and more."""
    rng = torch.Generator().manual_seed(2)

    def some(least: int, most: int) -> tuple[int, ...]:
        count = int(torch.randint(least, most + 1, (1,), generator=rng))
        return tuple(torch.randint(0, 250, (count,), generator=rng).tolist())

    rows = pack([conversation([Said(some(1, 40), some(1, 9))], name=str(number)) for number in range(episodes)])
    return rows.with_weight(normalizer(rows, "token_mean"))


def products(module: torch.nn.Module) -> set[torch.dtype]:
    """Collect the precisions in which a module's linear layers compute from now on."""
    seen: set[torch.dtype] = set()
    for part in module.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_hook(lambda layer, given, made: seen.add(made.dtype))
    return seen


@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2)], ids=["whole", "lora"])
def test_the_kl_to_the_reference_is_exactly_0_before_the_first_step(
    layout: Any, autocast: Any, lora: LoraConfig | None
) -> None:
    policy, frozen = model(), model()
    if lora is not None:
        attach(policy, lora)
    options = OptimizerConfig(layout=layout, autocast=autocast, microbatch_tokens=64)
    learner = Learner(policy, options, temperature=0.8)
    rows = Reference(frozen, learner.scorer).scored(learner.recompute_old(uneven()))
    assert reference_metrics(rows) == {"kl_ref": 0.0, "kl_ref_k3": 0.0}
    if autocast is not None:
        plain = Reference(frozen, Scorer(temperature=0.8)).scored(rows)
        assert reference_metrics(plain)["kl_ref_k3"] > 0, "in 32 bits, rounding alone would be a distance"


@pytest.mark.slow
@pytest.mark.parametrize("init", ["policy", "nano"])
def test_values_of_tokens_are_computed_in_the_precision_of_the_run(init: str) -> None:
    options = ValuesConfig.model_validate({"init": init, "nano": SHAPE.model_dump()})
    values, rows = token_values(options, model(), TOKENIZER, scorer=IN_16_BITS), uneven()
    seen, outcome = products(values.backbone), rows.weight.new_zeros(len(rows)).uniform_()
    values.fit(rows, outcome)
    assert seen == {torch.bfloat16}
    assert values.head.weight.dtype == values.values(rows).dtype == torch.float32
    whole = token_values(options, model(), TOKENIZER)
    whole.fit(rows, outcome)
    assert torch.allclose(values.values(rows), whole.values(rows), atol=0.05)


@pytest.mark.parametrize("kind", ["nano", "causal", "copy", "shared"])
def test_encoders_compute_in_the_precision_of_the_run_and_return_32_bits(kind: str) -> None:
    policy = model()
    attach(policy, LoraConfig(rank=2))
    config = EncoderConfig.model_validate({"kind": kind, "hidden": 16, "layers": 1, "intermediate": 16})
    states, actions = [(1, 2, 3), (4,)], [(5, 6), (7, 8, 9)]

    def judged(scorer: Scorer | None) -> tuple[Tensor, set[torch.dtype]]:
        encoder: Any = encoder_named(config, copy.deepcopy(policy), TOKENIZER)
        critic = UtteranceCritic(encoder, CriticConfig(), scorer=scorer)
        seen = products(encoder._policy if kind == "shared" else encoder)
        vector_BH = critic._encoded(critic.online, states)
        assert vector_BH.dtype == torch.float32
        return critic.q(states, actions), seen

    (plain_2B, _), (found_2B, seen) = judged(None), judged(IN_16_BITS)
    assert torch.bfloat16 in seen
    assert torch.allclose(found_2B, plain_2B, atol=0.05)
    assert not torch.equal(found_2B, plain_2B)


def test_a_critic_recomputes_layers_of_its_own_only() -> None:
    policy = model()
    attach(policy, LoraConfig(rank=2))

    def made(kind: str) -> UtteranceCritic:
        config = EncoderConfig.model_validate({"kind": kind, "hidden": 16, "layers": 1, "intermediate": 16})
        return UtteranceCritic(encoder_named(config, policy, TOKENIZER), CriticConfig(), scorer=Scorer(recompute=True))

    found: Sequence[bool] = [made(kind).scorer.recompute for kind in ("nano", "copy", "shared")]
    assert found == [True, True, False], "a shared backbone has switched its adapters back before the backward pass"


async def test_sampler_learner_reference_and_canary_agree_in_16_bits() -> None:
    """All but the sampler score one batch in one way; the sampler, token by token, is as near as 16 bits are."""
    policy = model()
    with torch.no_grad():
        policy.model.norm.weight.mul_(4 / float(policy(torch.arange(99)[None]).logits.std()))
    sampler = TransformersPolicy(policy, context_length=128, autocast=torch.bfloat16)
    plain = TransformersPolicy(policy, context_length=128)
    prompts = [tuple(range(first, first + 20)) for first in range(0, 200, 10)]
    learner = Learner(policy, OptimizerConfig(autocast="bfloat16"))

    async def gap(asked: TransformersPolicy) -> tuple[float, Rows]:
        said = await asyncio.gather(*(asked.generate(ids, Sampling(max_tokens=9, seed=1)) for ids in prompts))
        rows = pack_utterances(
            [Utterance(ids, one.token_ids, one.logprobs) for ids, one in zip(prompts, said, strict=True)]
        )
        found = Reference(policy, learner.scorer).scored(learner.recompute_old(rows))
        assert torch.equal(found.logp_ref, found.logp_old)
        return float((found.logp_old - found.logp_behave)[found.mask].abs().mean()), found

    (near, rows), (far, _) = await gap(sampler), await gap(plain)
    assert 0 < near < 0.05 < 4, f"logits of deviation 4 round by some 0.03; the mean gap is {near}"
    assert near < far, "a sampler in 32 bits is further from a learner in 16"
    for number, ids in enumerate(prompts):
        action = tuple(rows.ids[(rows.row == number) & rows.mask].tolist())
        canary = logprobs_of(policy, ids, action, learner.scorer)
        mine = rows.logp_old[(rows.row == number) & rows.mask].tolist()
        assert canary == pytest.approx(mine, abs=0.3)
