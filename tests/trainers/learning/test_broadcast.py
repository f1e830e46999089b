"""Broadcast values: they arrive as they were, and large tensors are not copied into the message."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.trainers.learning.broadcast import LARGE, _Reader, _Writer
from turnwise.trainers.learning.rows import pack

from ..fakes import episode, turn
from .test_invariance import batch


def sent(value: Any) -> tuple[Any, int, int]:
    """Return what arrives, the bytes of the message, and the number of tensors beside it."""
    writer = _Writer(file := BytesIO())
    writer.dump(value)
    found = _Reader(BytesIO(file.getvalue()), [tensor.clone() for tensor in writer.tensors]).load()
    return found, len(file.getvalue()), len(writer.tensors)


numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.booleans(), st.text(max_size=3))


@given(st.lists(numbers, max_size=80).map(tuple))
def test_a_tuple_arrives_as_it_was(value: tuple[Any, ...]) -> None:
    found, _, _ = sent({"a": (value, [value])})
    assert found == {"a": (value, [value])}
    assert list(map(type, found["a"][0])) == list(map(type, value))


@given(st.lists(st.integers(0, 2**40), min_size=40, max_size=80).map(tuple))
def test_token_ids_need_eight_bytes_each(value: tuple[int, ...]) -> None:
    found, size, _ = sent(value)
    assert found == value
    assert size <= 8 * len(value) + 100


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_large_tensors_go_beside_the_message(dtype: torch.dtype) -> None:
    large, small = torch.arange(LARGE).to(dtype), torch.arange(3).to(dtype)
    (found, other), size, tensors = sent((large, small))
    assert tensors == 1
    assert size < 2000
    assert found.dtype is other.dtype is dtype
    assert torch.equal(found, large)
    assert torch.equal(other, small)


def test_a_tensor_that_stands_in_two_places_is_sent_once() -> None:
    tensor, equal = torch.ones(LARGE), torch.ones(LARGE)
    found, _, tensors = sent([tensor, equal, tensor])
    assert tensors == 2, "it goes by identity, not by value"
    assert found[0] is found[2]
    assert found[0] is not found[1]


def test_old_log_probabilities_are_sent_once_while_they_are_the_samplers() -> None:
    rows = pack([episode([turn([1] * LARGE, [2], logp=-0.5)])])
    assert rows.logp_old is rows.logp_behave
    changed = rows.with_logp_old(rows.logp_old - 1)
    assert torch.equal(changed.logp_behave, rows.logp_behave), "the sampler's stay"
    found, _, tensors = sent(rows)
    assert tensors == len(rows.columns()) - 1
    assert torch.equal(found.logp_old, rows.logp_old)


def test_rows_arrive_with_all_their_columns() -> None:
    rows = batch()
    found, _, _ = sent(rows)
    assert all(torch.equal(found.columns()[name], column) for name, column in rows.columns().items())
