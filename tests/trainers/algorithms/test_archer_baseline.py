"""ArCHer's token baseline where every utterance can be enumerated: no expectation changes, and the noise shrinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.algorithms.archer import token_credit
from turnwise.trainers.critics.token_values import TokenValues, ValuesConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.objective import Objective, objective_loss
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.learning.utterances import Utterance, pack_utterances

from ..fakes import Bigram

START, WORDS = 1, 3
ALL = [tuple(said) for said in product(range(WORDS), repeat=2)]
"""Every utterance of two tokens that a policy of three words can say."""
ADVANTAGE_B = torch.tensor([1.0, -2.0, 0.5, 4.0, 3.0, 6.0, -1.0, -3.0, 0.0])


class Table:
    """A baseline whose values follow from the utterance and the place in it: only ``values`` is called."""

    def __init__(self, value: Callable[[tuple[int, ...], int], float]) -> None:
        self.value = value

    def values(self, rows: Rows) -> Tensor:
        value_T = torch.zeros(len(rows))
        value_T[rows.mask] = torch.tensor([self.value(said, t) for said in ALL for t in range(len(said))])
        return value_T


def everything() -> Rows:
    return pack_utterances([Utterance((2, START), said, (0.0,) * len(said)) for said in ALL])


def probabilities(model: Bigram) -> Tensor:
    """Of each utterance."""
    pi = model.table.detach().softmax(-1)
    return torch.stack([pi[START, a] * pi[a, b] for a, b in ALL])


def gradients(model: Bigram, baseline: Table | None) -> Tensor:
    """The REINFORCE gradient that each utterance alone would give, ``[B, ...]``."""
    found = []
    paid = token_credit(everything(), ADVANTAGE_B, baseline)  # type: ignore[arg-type]
    for number in range(len(ALL)):
        part = paid.select([number])
        part = part.with_weight(part.mask.float())
        loss, _ = objective_loss(score(model, part), part, Objective(kind="reinforce"))
        found.append(torch.autograd.grad(loss, model.table)[0])
    return torch.stack(found)


def conditional_mean(model: Bigram) -> Callable[[tuple[int, ...], int], float]:
    """``E[A | prefix]``: what regressing b on A converges to."""
    p_B = probabilities(model)

    def value(said: tuple[int, ...], place: int) -> float:
        alike = torch.tensor([other[:place] == said[:place] for other in ALL])
        return float((p_B * ADVANTAGE_B)[alike].sum() / p_B[alike].sum())

    return value


def expected(p_B: Tensor, each: Tensor) -> Tensor:
    return torch.einsum("b,b...->...", p_B, each)


@pytest.mark.parametrize("seed", range(3))
def test_a_baseline_of_the_prefix_changes_no_expected_gradient(seed: int) -> None:
    model = Bigram(WORDS, seed)
    p_B = probabilities(model)
    plain = expected(p_B, gradients(model, None))
    of_the_prefix: Sequence[Callable[[tuple[int, ...], int], float]] = (
        lambda said, place: 7.0,
        lambda said, place: -5.0 if place == 0 else 3.0 * said[0] ** 2 - 1,
        conditional_mean(model),
    )
    for value in of_the_prefix:
        assert torch.allclose(expected(p_B, gradients(model, Table(value))), plain, atol=1e-5)
    of_the_action = Table(lambda said, place: float(said[place]))
    assert not torch.allclose(expected(p_B, gradients(model, of_the_action)), plain, atol=1e-2), (
        "what looks at the token that it is subtracted from is no baseline"
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_advantage_of_the_prefix_makes_the_gradient_less_noisy(seed: int) -> None:
    model = Bigram(WORDS, seed)
    p_B = probabilities(model)

    def noise(baseline: Table | None) -> float:
        each = gradients(model, baseline)
        return float((p_B[:, None, None] * (each - expected(p_B, each)).square()).sum())

    assert noise(Table(conditional_mean(model))) < 0.9 * noise(None)


@pytest.mark.slow
def test_regressed_on_advantages_a_value_model_becomes_that_mean() -> None:
    model = Bigram(WORDS, 0)
    p_B = probabilities(model)
    shape = NanoConfig(size="0.1M", layers=1, hidden=16, heads=2, head_dim=8, intermediate=32)
    backbone = build_model(shape, build_tokenizer("byte")).base_model
    baseline = TokenValues(backbone, 16, ValuesConfig(lr=1e-2, epochs=1, minibatches=1, loss="squared"))
    rows = everything()
    rows = rows.with_weight(torch.where(rows.mask, p_B[rows.episode], 0.0))
    target_T = rows.with_advantage(ADVANTAGE_B).advantage
    for _ in range(120):
        baseline.fit(rows, target_T)
    wanted = Table(conditional_mean(model)).values(rows)
    assert torch.allclose(baseline.values(rows), wanted, atol=0.1)
