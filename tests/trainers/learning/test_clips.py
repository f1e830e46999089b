"""Clipped tokens are found again in the batch, whatever minibatches and micro-batches they went through."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from turnwise.trainers.learning.clips import ClipCounts
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.learning.updates import take_steps

from ..fakes import Bigram, Said, conversation

LOW, HIGH, DUAL = 0.9, 1.1, 1.3


def batch(learner: Learner) -> Rows:
    """Seven episodes of one to three turns and different lengths, in one row or two, half of them good."""
    said = [
        [
            Said((turn, 1), tuple(2 + (number + k) % 4 for k in range(n)), rewrites=number % 2 == 1)
            for turn in range(1 + number % 3)
        ]
        for number, n in enumerate((1, 4, 2, 3, 1, 2, 5))
    ]
    rows = pack([conversation(turns, name=str(number)) for number, turns in enumerate(said)])
    rows = learner.recompute_old(rows.with_advantage(torch.tensor([1.0, -1.0, 2.0, -2.0, 0.0, 1.0, -1.0])))
    return rows.with_weight(normalizer(rows, "traj_mean"))


@pytest.mark.parametrize("budget", [1, 9, 4096])
def test_counts_are_those_of_the_definition(budget: int) -> None:
    learner = Learner(Bigram(seed=1), OptimizerConfig(lr=0.4, microbatch_tokens=budget))
    rows = batch(learner)
    clips = ClipCounts(rows)
    expected = {name: torch.zeros(len(rows), dtype=torch.int16) for name in ("updates", "low", "high")}

    def parts() -> Iterator[Rows]:
        """Yield minibatches; before each update, count by the formulas over the whole batch."""
        for chosen in ([0, 5, 3], [1, 2, 4, 6], [6, 0, 1], [2, 3, 4, 5], list(range(7))):
            ratio_T = (learner.logprobs(rows) - rows.logp_old).exp()
            # An episode without advantage is skipped.
            takes_T = rows.mask & torch.isin(rows.episode, torch.tensor(chosen)) & (rows.advantage != 0)
            bad_T = rows.advantage < 0
            expected["updates"] += takes_T.short()
            expected["low"] += (takes_T & bad_T & (ratio_T < LOW)).short()
            expected["high"] += (takes_T & torch.where(bad_T, ratio_T > DUAL, ratio_T > HIGH)).short()
            yield rows.select(chosen)

    take_steps(learner, parts(), Objective(clip=(LOW, HIGH), dual_clip=DUAL), version=0, clips=clips)
    for name, count_T in expected.items():
        assert torch.equal(getattr(clips, name), count_T), name
    for clipped_T in (clips.low, clips.high[rows.advantage < 0], clips.high[rows.advantage > 0]):
        assert clipped_T.any(), "each kind of clip is among the cases"
    assert not clips.updates[rows.episode == 4].any()


def test_counting_changes_no_weight_and_refused_updates_do_not_count() -> None:
    models = [Bigram(seed=1), Bigram(seed=1)]
    for model, counts in zip(models, (True, False), strict=True):
        learner = Learner(model, OptimizerConfig(lr=0.4))
        rows = batch(learner)
        clips = ClipCounts(rows) if counts else None
        made = take_steps(learner, [rows] * 3, Objective(), version=0, clips=clips)
        assert [each.clips is not None for each in made] == [counts] * 3, "nobody pays for what nobody reads"
    assert torch.equal(models[0].table, models[1].table)

    learner = Learner(copy.deepcopy(models[0]), OptimizerConfig(lr=0.4))
    rows = batch(learner)
    clips = ClipCounts(rows)
    made = take_steps(learner, [rows] * 3, replace(Objective(), max_kl=1e-9), version=0, clips=clips)
    assert [each.aborted for each in made] == [False, True]
    assert torch.equal(clips.updates, (rows.mask & (rows.advantage != 0)).short()), "the second was refused"
