"""A guided model is a policy like any other: exact log-probabilities, batched, saved whole, found by its folder."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise.agents.named import agent_from, fingerprint
from turnwise.errors import ModelError
from turnwise.inference.models import load_model, save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Sampling
from turnwise.inference.policy_checks import PolicyContract, Subject
from turnwise.inference.transformers_policy import TransformersPolicy, load_weights
from turnwise.inference.value_guided import GUIDE, VALUES, ActionValues, ValueGuidedModel

TOKENIZER = build_tokenizer("byte")
CONFIG = NanoConfig(tokenizer="byte", size="0.1M", context_length=128)


def guided(beta: float = 0.7, **options: Any) -> ValueGuidedModel:
    """A nano policy, and values that differ from each other and from 0."""
    policy = build_model(CONFIG, TOKENIZER, seed=1)
    values = ActionValues.of(policy, **options)
    draws = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in values.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draws))
    return ValueGuidedModel(policy, values, beta=beta)


def by_hand(model: ValueGuidedModel, ids: Sequence[int]) -> Tensor:
    """``log π_β + β·(min Q − V)`` at every position, from two plain passes; V is left out: it cancels."""
    row = torch.tensor([list(ids)])
    with torch.no_grad():
        logp = model.policy(input_ids=row).logits[0].float().log_softmax(-1)
        if model.values.backbone is None:
            hidden = model.policy(input_ids=row, output_hidden_states=True).hidden_states[-1][0]
        else:
            hidden = model.values.backbone(input_ids=row).last_hidden_state[0]
        q = torch.stack([head(hidden) for head in model.values.heads.q]).min(0).values
    combined: Tensor = logp + model.beta * q
    return combined


def score(model: ValueGuidedModel, prompt: Sequence[int], action: Sequence[int], temperature: float) -> list[float]:
    logp = (by_hand(model, [*prompt, *action]) / temperature).log_softmax(-1)
    return [float(logp[len(prompt) - 1 + i, token]) for i, token in enumerate(action)]


def subject(model: ValueGuidedModel, **options: Any) -> Subject:
    rng = random.Random(4)
    prompts = [[rng.randrange(len(TOKENIZER)) for _ in range(rng.randint(1, 40))] for _ in range(5)]
    policy = TransformersPolicy(model, TOKENIZER, **options)
    return Subject(policy, prompts, 128, lambda *asked: score(model, *asked))


class TestContractWithItsOwnBackbone(PolicyContract):
    def subject(self) -> Subject:
        return subject(guided())


class TestContractWithASharedBackbone(PolicyContract):
    def subject(self) -> Subject:
        return subject(guided(share_backbone=True))


class TestContractOfOneCriticWithoutStates(PolicyContract):
    def subject(self) -> Subject:
        return subject(guided(critics=1, states=False), threaded=True)


@pytest.mark.parametrize("share", [False, True])
def test_its_distribution_is_the_published_one(share: bool) -> None:
    model = guided(share_backbone=share)
    ids = [5, 90, 17, 33]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    assert torch.allclose(logits.log_softmax(-1), by_hand(model, ids).log_softmax(-1), atol=1e-5)


def test_beta_0_is_the_policy_and_a_large_one_is_greedy_in_q() -> None:
    ids = torch.tensor([[5, 90, 17]])
    with torch.no_grad():
        free, own = guided(0.0), build_model(CONFIG, TOKENIZER, seed=1)
        assert torch.allclose(free(ids).logits, own(input_ids=ids).logits.log_softmax(-1), atol=1e-5)
        model = guided(1e4)
        assert model.values.backbone is not None
        q = model.values.heads.action_values(model.values.backbone(input_ids=ids).last_hidden_state)
        assert torch.equal(model(ids).logits.argmax(-1), q.min(0).values.argmax(-1))


def test_fresh_values_are_zero_so_they_guide_nothing() -> None:
    policy = build_model(CONFIG, TOKENIZER, seed=1)
    model = ValueGuidedModel(policy, ActionValues.of(policy), beta=100.0)
    ids = torch.tensor([[5, 90, 17]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, policy(input_ids=ids).logits.log_softmax(-1))


@pytest.mark.parametrize("kept", [0, 1, 2, torch.tensor([0, 2])])
def test_only_the_logits_that_are_asked_for_are_given(kept: int | Tensor) -> None:
    model, ids = guided(), torch.tensor([[5, 90, 17]])
    with torch.no_grad():
        whole = model(ids).logits
        part = model(ids, logits_to_keep=kept).logits
    assert torch.allclose(part, whole[:, -kept:] if isinstance(kept, int) else whole[:, kept], atol=1e-6)


def test_values_with_a_backbone_of_their_own_share_no_tensor_with_the_policy() -> None:
    model = guided()
    assert not {id(p) for p in model.values.parameters()} & {id(p) for p in model.policy.parameters()}


@pytest.mark.parametrize("options", [{}, {"share_backbone": True}, {"critics": 1, "states": False}])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, options: dict[str, Any]) -> None:
    model = guided(2.5, **options)
    save_model(model, TOKENIZER, tmp_path / "m")
    loaded, tokenizer = load_model(tmp_path / "m")
    assert isinstance(loaded, ValueGuidedModel)
    assert loaded.beta == 2.5
    assert not loaded.training
    assert tokenizer.encode("go") == TOKENIZER.encode("go")
    for (name, before), (_, after) in zip(model.state_dict().items(), loaded.state_dict().items(), strict=True):
        assert torch.equal(before, after), f"{name} changed on disk"
    load_weights(loaded, guided(2.5, **options).state_dict())


def test_its_folder_is_a_policy_by_name(tmp_path: Path) -> None:
    save_model(guided(), TOKENIZER, tmp_path / "m")
    agent: Any = agent_from(str(tmp_path / "m"))
    assert isinstance(agent.policy.model, ValueGuidedModel)
    before = fingerprint(str(tmp_path / "m"))
    _edit(tmp_path / "m", beta=0.8)
    assert fingerprint(str(tmp_path / "m")) != before, "another beta is another policy"
    answer = asyncio.run(agent.policy.generate([5, 90, 17], Sampling(max_tokens=4, seed=1)))
    expected = score(guided(), [5, 90, 17], answer.token_ids, 1.0)
    assert answer.logprobs == pytest.approx(expected, abs=1e-5), "it samples from the guided distribution"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / VALUES).unlink(), "cannot read the values"),
        (lambda folder: (folder / VALUES).write_bytes(b"not weights"), "cannot read the values"),
        (lambda folder: (folder / GUIDE).write_text("{"), "cannot read the values"),
        (lambda folder: (folder / GUIDE).write_text('{"format": "turnwise-value-guided/9"}'), "this version reads"),
        (lambda folder: _edit(folder, critics=1), "cannot read the values"),
        (lambda folder: _edit(folder, beta=-1), "beta must not be negative"),
    ],
)
def test_values_that_are_damaged_are_never_passed_over(tmp_path: Path, damage: Any, message: str) -> None:
    save_model(guided(), TOKENIZER, tmp_path / "m")
    damage(tmp_path / "m")
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path / "m")


def _edit(folder: Path, **changes: Any) -> None:
    described = json.loads((folder / GUIDE).read_text())
    (folder / GUIDE).write_text(json.dumps(described | changes))
