from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.critics.sequences import batches, last_places, right_padded

ragged = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=7), min_size=1, max_size=9)


@given(ragged, st.integers(0, 9))
def test_a_padded_batch_holds_every_sequence_and_nothing_else(sequences: list[list[int]], fill: int) -> None:
    ids_BL, attention_BL = right_padded(sequences, fill=fill)
    assert ids_BL.shape == attention_BL.shape == (len(sequences), max(map(len, sequences)))
    for ids, row, real in zip(sequences, ids_BL, attention_BL, strict=True):
        assert row.tolist() == ids + [fill] * (len(row) - len(ids))
        assert real.tolist() == [1] * len(ids) + [0] * (len(row) - len(ids))
    assert ids_BL.dtype == attention_BL.dtype == torch.long
    assert ids_BL.flatten()[last_places(attention_BL)].tolist() == [ids[-1] for ids in sequences]


@given(ragged, st.integers(1, 30))
def test_parts_hold_every_place_once_longest_first_and_fit_the_budget(sequences: list[list[int]], budget: int) -> None:
    parts = batches(sequences, budget)
    places = [place for part in parts for place in part]
    assert places == sorted(range(len(sequences)), key=lambda place: -len(sequences[place])), "alike lengths in order"
    for part in parts:
        assert len(part) == 1 or len(part) * len(sequences[part[0]]) <= budget
    for part in parts[:-1]:
        assert (len(part) + 1) * len(sequences[part[0]]) > budget, "a part that has room takes the next"


def test_nothing_makes_no_parts() -> None:
    assert batches([], 8) == []
