from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.trainers.critics.encoder import EncoderConfig, NanoEncoder, encode

from .turns import Bag

SMALL = EncoderConfig(hidden=16, layers=2, heads=2, intermediate=32)


def nano(context: int = 12, seed: int = 0) -> NanoEncoder:
    return NanoEncoder(SMALL, vocabulary=10, context=context, seed=seed)


def test_trap_26_what_is_read_does_not_depend_on_padding() -> None:
    encoder = nano()
    alone = encoder([(3, 1)])
    beside = encoder([(3, 1), (2,) * 12])[:1]
    assert torch.allclose(alone, beside, atol=1e-6), "right padding changes nothing"
    assert not torch.allclose(alone, encoder([(3, 1, 0)]), atol=1e-3), "a real token 0 is no padding"


def test_every_token_and_its_place_are_read() -> None:
    encoder, base = nano(), (1, 2, 3, 4)
    vectors = encoder([base, (1, 2, 3, 5), (9, 2, 3, 4), (2, 1, 3, 4), (1, 2, 3)])
    assert all(not torch.allclose(vectors[0], other, atol=1e-4) for other in vectors[1:])


def test_trap_7_what_is_too_long_is_an_error_and_never_cut() -> None:
    assert nano(context=5)([(1,) * 5]).shape == (1, 16)
    with pytest.raises(UsageError, match="read 6 tokens, and its encoder holds 5"):
        nano(context=5)([(1,), (1,) * 6])


def test_weights_are_a_function_of_the_seed_and_nothing_else_moves() -> None:
    before = torch.get_rng_state()
    one, same, other = nano(), nano(), nano(seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one([(1, 2)]), same([(1, 2)]))
    assert not torch.equal(one([(1, 2)]), other([(1, 2)]))


@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=5).map(tuple), min_size=1, max_size=12))
@settings(max_examples=30)
def test_order_repeats_and_micro_batches_change_nothing(sequences: list[tuple[int, ...]]) -> None:
    bag = Bag()
    whole = bag(sequences)
    for tokens in (1, 7, 1000):
        bag.read.clear()
        assert torch.equal(encode(bag, sequences, tokens=tokens), whole)
        assert sorted(bag.read) == sorted(set(sequences)), "each different sequence is read once"


def test_repeats_share_their_gradient() -> None:
    def gradient(read: Callable[[Bag], torch.Tensor]) -> torch.Tensor:
        bag = Bag()
        (read(bag) * torch.arange(1.0, 5.0)[:, None]).sum().backward()  # type: ignore[no-untyped-call]
        found = bag.table.weight.grad
        assert isinstance(found, torch.Tensor)
        return found

    sequences = [(1, 2), (3,), (1, 2), (1,)]
    assert torch.equal(gradient(lambda bag: encode(bag, sequences)), gradient(lambda bag: bag(sequences)))


def test_nothing_to_encode_is_an_error() -> None:
    with pytest.raises(UsageError, match="no sequence"):
        encode(Bag(), [])
