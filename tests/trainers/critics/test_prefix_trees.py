from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from turnwise.errors import UsageError
from turnwise.trainers.critics.prefix_trees import Ids, forest, read

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12)
MANY = 10_000
"""A cost per token beside which attention is cheap: whatever begins alike shares a tree."""


def sums(ids_BL: Tensor, attends_BLL: Tensor | None, position_BL: Tensor | None) -> Tensor:
    """A causal model in whole numbers: each token sees the ids and positions of all that it attends to."""
    if attends_BLL is None or position_BL is None:
        attends_BLL = torch.ones(ids_BL.shape[1], ids_BL.shape[1]).tril().expand(len(ids_BL), -1, -1)
        position_BL = torch.arange(ids_BL.shape[1]).expand_as(ids_BL)
    seen_BL2 = torch.stack([10.0 ** position_BL.clamp(max=6) * (ids_BL + 1), position_BL + 1.0], dim=-1)
    return attends_BLL.float() @ seen_BL2


def alone(ids: Ids) -> list[float]:
    return [sum(10.0**place * (token + 1) for place, token in enumerate(ids)), sum(range(len(ids) + 1))]


@pytest.mark.slow
@given(SEQUENCES, st.sampled_from([1, 4, 16, MANY]), st.sampled_from([1, 9, 1000]))
def test_every_sequence_is_read_as_if_it_stood_alone(sequences: list[Ids], linear: int, tokens: int) -> None:
    found = read(sequences, sums, linear=linear, tokens=tokens)
    assert found.tolist() == [alone(ids) for ids in sequences]


@given(SEQUENCES)
def test_every_shared_token_is_laid_out_once(sequences: list[Ids]) -> None:
    trees = forest(sequences, linear=MANY).trees
    assert sum(len(tree.ids) for tree in trees) == len(
        {ids[:end] for ids in sequences for end in range(1, len(ids) + 1)}
    )
    assert len(trees) == len({ids[0] for ids in sequences})


def test_a_row_with_its_prefixes_needs_no_mask() -> None:
    row = tuple(range(9))
    found = forest([row[:3], row, row[:6], row[:3]], linear=1)
    assert [(tree.ids, tree.branches) for tree in found.trees] == [(list(row), False)], "it may grow without end"
    assert (found.tree_of, found.place_of) == ([0] * 4, [2, 8, 5, 2])
    branched = forest([row, (*row[:3], 7)], linear=100)
    (tree,) = branched.trees
    assert tree.branches
    assert (tree.ids[9:], tree.depth[9:], tree.end[9:]) == ([7], [3], [10])
    assert tree.end[:9] == [10, 10, 10, *[9] * 6], "the branch is seen from the prefix alone"


def test_a_tree_ends_where_another_pass_costs_less() -> None:
    """A short common beginning is not worth the attention over what does not belong together."""
    apart = [(0, *[number] * 50) for number in range(1, 5)]
    assert len(forest(apart, linear=16).trees) == 4
    near = [(*[0] * 50, number) for number in range(1, 5)]
    assert len(forest(near, linear=16).trees) == 1


def test_passes_hold_plain_rows_or_trees_and_as_many_as_fit() -> None:
    rows: list[Ids] = [(1, 2, 3, 4), (2, 1), (3, 1)]
    found = forest([*rows, (4, 1), (4, 2)], linear=MANY)
    kinds = [[found.trees[number].branches for number in part] for part in found.passes(4)]
    assert kinds == [[False], [False, False], [True]]
    assert sorted(index for part in found.passes(4) for index in found.members(part)) == [0, 1, 2, 3, 4]


def test_an_empty_sequence_is_refused() -> None:
    with pytest.raises(UsageError, match="an empty sequence has no last token"):
        forest([(1,), ()], linear=1)
