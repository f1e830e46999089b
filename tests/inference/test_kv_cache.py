"""The cache: rows keep their own states, right-aligned, while others join or leave."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.inference.kv_cache import SPARE, cache_argument, empty_cache, joined


def states(rows: int, time: int, first: float) -> torch.Tensor:
    """[rows, 2 heads, time, 3], every number its own."""
    return first + torch.arange(rows * 2 * time * 3, dtype=torch.float32).reshape(rows, 2, time, 3)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=4),
    data=st.data(),
    steps=st.integers(0, SPARE + 3),
)
def test_joining_keeps_each_rows_newest_states_and_growing_keeps_all(
    sizes: list[tuple[int, int]], data: st.DataObject, steps: int
) -> None:
    parts, expected = [], []
    width = data.draw(st.integers(1, 12))
    for number, (rows, time) in enumerate(sizes):
        cache, own = empty_cache(), states(rows, time, 1000.0 * (number + 1))
        for layer in range(2):
            cache.update(own + layer, -own - layer, layer)
        chosen = data.draw(st.lists(st.integers(0, rows - 1), unique=True, min_size=1))
        parts.append((cache, chosen))
        expected += [own[row] for row in chosen]
    whole = joined(parts, width)
    assert whole.get_seq_length() == width
    grown = [states(len(expected), 1, 1e6 * (step + 1)) for step in range(steps)]
    for new in grown:
        for layer in range(2):
            whole.update(new + layer, -new - layer, layer)
    for layer in range(2):
        keys, values = whole.layers[layer].keys, whole.layers[layer].values  # type: ignore[union-attr]
        assert keys is not None
        assert values is not None
        assert keys.shape == (len(expected), 2, width + steps, 3)
        assert torch.equal(values, -keys), "values must go wherever keys go"
        for row, own in enumerate(expected):
            kept = own[:, -width:] + layer
            assert torch.equal(keys[row, :, width - kept.shape[1] : width], kept), "a row's newest states are kept"
            assert not keys[row, :, : width - kept.shape[1]].any(), "before them is zero, not what was there"
        for step, new in enumerate(grown):
            assert torch.equal(keys[:, :, width + step], new[:, :, 0] + layer), "a new token follows the ones before"


class Older:
    """A model of transformers before 5.24, or with code of its own."""

    def forward(self, input_ids: Any = None, past_key_values: Any = None) -> None: ...


class Newer:
    """A model of transformers since 5.24."""

    def forward(self, input_ids: Any = None, cache: Any = None) -> None: ...


class Adapted:
    """A model with adapters, whose own forward pass takes anything."""

    def forward(self, *args: Any, **kwargs: Any) -> None: ...

    def get_base_model(self) -> Newer:
        return Newer()


def test_a_cache_is_passed_by_the_name_that_the_model_has_for_it() -> None:
    cache = empty_cache()
    assert cache_argument(Older(), cache) == {"past_key_values": cache}
    assert cache_argument(Newer(), cache) == {"cache": cache}
    assert cache_argument(Adapted(), cache) == {"cache": cache}
