"""Distillation's expected gradient, by enumeration of everything that a small policy can say."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from turnwise import Episode
from turnwise.errors import ConfigError, ModelError, UsageError
from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers import on_policy
from turnwise.trainers.algorithms.distill import Distill
from turnwise.trainers.algorithms.grpo import GRPO
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.options import configured
from turnwise.trainers.run.metrics import read_metrics

from .. import small
from ..fakes import Bigram, episode, turn
from ..test_on_policy import running
from .batches import Rewards, batch, tasks
from .test_oreo import many, scored
from .test_ppo import batch_of, talks

WORDS = 3
START = 0


def distill(**settings: Any) -> Distill:
    return Distill.model_validate({"teacher": "t", **settings})


def everything() -> list[Episode]:
    """Each conversation of two turns of one word, with a word of the environment between that does not depend on it."""
    return [
        episode([turn((START,), (one,)), turn((START, one, START), (other,))], name=f"{one}{other}", group=f"{one}")
        for one, other in product(range(WORDS), repeat=2)
    ]


def logp(model: Bigram) -> Tensor:
    return model.table[START].log_softmax(-1)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_expected_gradient_is_that_of_the_reverse_kl(gamma: float) -> None:
    """Here both turns start in the same state, so the KL of trajectories is twice that of a word."""
    policy, teacher = Bigram(WORDS, seed=1), Bigram(WORDS, seed=2)
    given_ = batch_of(*everything())
    with torch.no_grad():
        rows = given_.rows.with_logp_old(score(policy, given_.rows).logp).with_logp_ref(
            score(teacher, given_.rows).logp
        )
        chance_E = torch.zeros(len(given_.episodes)).index_add(0, rows.episode, rows.logp_old).exp()
    rows = distill(gamma=gamma).credit(given_.with_rows(rows), None).rows
    assert float(chance_E.sum()) == pytest.approx(1.0)
    surrogate = -(chance_E[rows.episode] * rows.advantage * score(policy, rows).logp)[rows.mask].sum()
    (found,) = torch.autograd.grad(surrogate, [policy.table])
    kl = (logp(policy).exp() * (logp(policy) - logp(teacher).detach())).sum()
    (wanted,) = torch.autograd.grad(2 * kl, [policy.table])
    assert torch.allclose(found, wanted, atol=1e-5)


@given(talks(), st.data(), st.sampled_from((0.0, 0.5, 1.0)))
def test_the_advantage_is_the_discounted_sum_of_the_log_ratios_that_follow(
    episodes: list[Episode], data: st.DataObject, gamma: float
) -> None:
    given_ = batch_of(*episodes)
    old, ref = many(data, given_), many(data, given_)
    rows = distill(gamma=gamma).credit(scored(given_, old, ref), None).rows
    wanted: list[float] = []
    for each in given_.episodes:
        first, size = len(wanted), sum(len(turn.action_ids) for turn in each.turns)
        ratio = [ref[i] - old[i] for i in range(first, first + size)]
        wanted += [sum(gamma ** (i - t) * ratio[i] for i in range(t, size)) for t in range(size)]
    assert rows.advantage[rows.mask].tolist() == pytest.approx(wanted, abs=1e-3)
    assert not rows.advantage[~rows.mask].any()


@pytest.mark.slow
@pytest.mark.shift
@given(tasks)
def test_a_teacher_that_agrees_leaves_the_outcome_alone(rewards: Rewards) -> None:
    given_ = batch(rewards)
    same = given_.with_rows(given_.rows.with_logp_ref(given_.rows.logp_old))
    assert not distill().credit(same, None).rows.advantage.any()
    wanted = 0.5 * GRPO().credit(given_, None).rows.advantage
    assert torch.allclose(distill(outcome=0.5).credit(same, None).rows.advantage, wanted)


def test_a_token_that_the_teacher_rules_out_is_an_error() -> None:
    given_ = batch_of(episode([turn((1,), (2, 3))]))
    with pytest.raises(UsageError, match="the teacher t gives a sampled token"):
        distill().credit(scored(given_, [-1.0, -1.0], [-1.0, float("-inf")]), None)


LEAST = ["env=e", "model=m"]


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="teacher"):
        configured("distill", None, LEAST)
    with pytest.raises(ConfigError, match=r"leave loss\.kl out"):
        configured("distill", None, [*LEAST, "algorithm.teacher=t", "loss.kl.coef=0.1"])


@pytest.mark.shift
def test_a_run_comes_closer_to_its_teacher(tmp_path: Path, cloned: Path) -> None:
    small.clone(
        small.cloning(
            tmp_path / "teacher", steps=12, demonstrations={"count": 12, "skills": [1.0]}, model=str(cloned / "model")
        )
    )
    teacher = {"name": "distill", "teacher": str(tmp_path / "teacher" / "model")}
    given_ = running(
        tmp_path / "run",
        cloned / "model",
        "distill",
        algorithm=teacher,
        steps=20,
        tasks_per_step=8,
        optimizer={"lr": 3e-3},
    )
    result = on_policy.train(given_)
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "kl_ref" in line]
    assert sum(line["kl_ref"] for line in lines[-3:]) < 0.9 * sum(line["kl_ref"] for line in lines[:3])


@pytest.mark.slow
def test_a_teacher_with_another_tokenizer_is_refused(tmp_path: Path, cloned: Path) -> None:
    tokenizer = build_tokenizer("word", ["a b"])
    save_model(build_model(NanoConfig(size="0.1M", layers=1, hidden=16), tokenizer), tokenizer, tmp_path / "other")
    teacher = {"name": "distill", "teacher": str(tmp_path / "other")}
    with pytest.raises(ModelError, match=r"teacher .*other has another vocabulary"):
        on_policy.train(running(tmp_path / "run", cloned / "model", "distill", algorithm=teacher))
