from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.trainers.learning.normalizers import normalizer, per_utterance
from turnwise.trainers.learning.rows import pack

from ..fakes import Said, conversation

lengths = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@given(lengths)
def test_traj_mean_gives_every_trajectory_the_same_total(sizes: list[int]) -> None:
    rows = pack([conversation([Said((1,), (2,) * size)], group=f"g{i // 2}") for i, size in enumerate(sizes)])
    weight = normalizer(rows, "traj_mean")
    totals = torch.zeros(len(sizes)).index_add_(0, rows.episode, weight)
    assert torch.allclose(totals, torch.full_like(totals, 1 / len(sizes)))


@given(lengths)
def test_group_mean_gives_every_group_the_same_total(sizes: list[int]) -> None:
    rows = pack([conversation([Said((1,), (2,) * size)], group=f"g{i // 2}") for i, size in enumerate(sizes)])
    weight = normalizer(rows, "group_mean")
    groups = (len(sizes) + 1) // 2
    totals = torch.zeros(groups).index_add_(0, rows.group, weight)
    assert torch.allclose(totals, torch.full_like(totals, 1 / groups))


@given(lengths)
def test_token_mean_gives_every_token_the_same(sizes: list[int]) -> None:
    rows = pack([conversation([Said((1,), (2,) * size)]) for size in sizes])
    weight = normalizer(rows, "token_mean")
    assert torch.allclose(weight[rows.mask], torch.tensor(1 / sum(sizes)))
    assert not weight[~rows.mask].any(), "context counts for nothing"


def test_a_constant_denominator_replaces_the_count() -> None:
    rows = pack([conversation([Said((1,), (2, 3))]), conversation([Said((1,), (2,))])])
    assert normalizer(rows, "traj_mean", denominator=8)[rows.mask].tolist() == [1 / 16, 1 / 16, 1 / 8]
    assert normalizer(rows, "const", denominator=10)[rows.mask].tolist() == pytest.approx([0.1] * 3)
    assert normalizer(rows, "token_mean", denominator=6)[rows.mask].tolist() == pytest.approx([1 / 6] * 3)


def test_a_forked_trajectory_counts_once() -> None:
    forked = conversation([Said((1,), (2, 2)), Said((7,), (3,), rewrites=True)])
    rows = pack([forked, conversation([Said((1,), (2,))])])
    assert int(rows.row.max()) == 2, "three rows, two trajectories"
    assert normalizer(rows, "traj_mean")[rows.mask].tolist() == pytest.approx([1 / 6] * 3 + [1 / 2])


def test_trajectories_without_sampled_tokens_do_not_count() -> None:
    rows = pack([conversation([Said((1,), ())]), conversation([Said((1,), (2,))])])
    assert normalizer(rows, "traj_mean")[rows.mask].tolist() == [1.0]


def test_bad_settings_are_named() -> None:
    rows = pack([conversation([Said((1,), (2,))])])
    with pytest.raises(UsageError, match="'median' is unknown"):
        normalizer(rows, "median")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a denominator"):
        normalizer(rows, "const")
    with pytest.raises(UsageError, match="not positive"):
        normalizer(rows, "traj_mean", denominator=0)


def test_no_rows_have_no_weights() -> None:
    assert normalizer(pack([]), "traj_mean").numel() == 0


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=4))
def test_turn_mean_is_a_mean_over_tokens_then_turns_then_trajectories(sizes: list[list[int]]) -> None:
    """Brute force, with turns and whole trajectories without sampled tokens: these are not terms of a mean."""
    rows = pack([conversation([Said((1,), (2,) * tokens) for tokens in turns]) for turns in sizes])
    acting = [[tokens for tokens in turns if tokens] for turns in sizes]
    trajectories = sum(bool(turns) for turns in acting)
    wanted = [1 / (tokens * len(turns) * trajectories) for turns in acting for tokens in turns for _ in range(tokens)]
    assert normalizer(rows, "turn_mean")[rows.mask].tolist() == pytest.approx(wanted)


@given(lengths)
def test_traj_sum_counts_every_token_of_a_trajectory_wholly(sizes: list[int]) -> None:
    rows = pack([conversation([Said((1,), (2,) * size)]) for size in sizes])
    assert normalizer(rows, "traj_sum")[rows.mask].tolist() == pytest.approx([1 / len(sizes)] * sum(sizes))


@given(lengths)
def test_an_utterance_weighs_as_much_as_one_of_its_tokens_did(sizes: list[int]) -> None:
    rows = pack([conversation([Said((1,), (2,) * size) for size in sizes])])
    rows = rows.with_weight(normalizer(rows, "const", denominator=4))
    weight = per_utterance(rows)
    totals = torch.zeros(len(sizes)).index_add_(0, rows.turn[rows.mask], weight[rows.mask])
    assert torch.allclose(totals, torch.full_like(totals, 1 / 4))
    assert not weight[~rows.mask].any()
