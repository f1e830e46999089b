from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turnwise.trainers.learning import token_logprobs
from turnwise.trainers.learning.token_logprobs import chosen_logp


def plainly(logits: Tensor, place: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logp = (logits[place].float() / temperature).log_softmax(-1)
    return logp.gather(-1, ids[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


@settings(max_examples=60, deadline=None)
@given(
    positions=st.integers(1, 12),
    vocabulary=st.integers(2, 9),
    temperature=st.floats(0.2, 3.0),
    entropy=st.booleans(),
    chunk=st.sampled_from([1, 20, 1 << 24]),
    seed=st.integers(0, 2**31),
)
def test_values_and_gradients_are_those_of_plain_differentiation(
    positions: int, vocabulary: int, temperature: float, entropy: bool, chunk: int, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(positions, vocabulary, generator=rng)
    place = torch.randperm(positions, generator=rng)[: int(torch.randint(0, positions + 1, (1,), generator=rng))]
    ids = torch.randint(0, vocabulary, place.shape, generator=rng)
    by_logp, by_entropy = torch.randn(2, place.numel(), generator=rng)
    found, wanted = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_logprobs, "CHUNK", chunk)
        logp, spread = chosen_logp(found, place, ids, temperature, entropy_gradient=entropy)
        ((by_logp * logp).sum() + (by_entropy * spread).sum()).backward()
    plain_logp, plain_spread = plainly(wanted, place, ids, temperature)
    ((by_logp * plain_logp).sum() + (by_entropy * plain_spread * entropy).sum()).backward()
    assert torch.allclose(logp, plain_logp, atol=1e-5)
    assert torch.allclose(spread, plain_spread, atol=1e-5)
    assert spread.requires_grad == entropy
    assert found.grad is not None
    assert wanted.grad is not None
    assert torch.allclose(found.grad, wanted.grad, atol=1e-4)


def test_impossible_tokens_cost_nothing() -> None:
    logits = torch.tensor([[0.0, 0.0, -torch.inf]], requires_grad=True)
    logp, entropy = chosen_logp(logits, torch.tensor([0]), torch.tensor([1]), 1.0, entropy_gradient=True)
    (logp + entropy).sum().backward()  # type: ignore[no-untyped-call]
    assert float(logp.detach()) == pytest.approx(-0.6931, abs=1e-4)
    assert float(entropy.detach()) == pytest.approx(0.6931, abs=1e-4)
    assert logits.grad is not None
    assert logits.grad.tolist() == [[pytest.approx(-0.5), pytest.approx(0.5), 0.0]]


def test_only_the_entropy_may_be_asked_for() -> None:
    logits = torch.tensor([[1.0, 0.0]], requires_grad=True)
    _, entropy = chosen_logp(logits, torch.tensor([0]), torch.tensor([1]), 1.0, entropy_gradient=True)
    entropy.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert float(logits.grad[0, 0]) < 0 < float(logits.grad[0, 1]), "less of the likelier is more entropy"


def test_low_precision_logits_get_32_bit_probabilities_and_their_own_gradient() -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    logp, _ = chosen_logp(logits, torch.arange(4), torch.arange(4), 1.0)
    logp.sum().backward()  # type: ignore[no-untyped-call]
    assert logp.dtype == torch.float32
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16
    assert torch.allclose(logp, plainly(logits, torch.arange(4), torch.arange(4), 1.0)[0], atol=1e-6)
