from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import ContractError
from turnwise.trainers.learning.rows import pack
from turnwise.trainers.learning.utterances import Utterance, pack_utterances

from ..fakes import episode, turn

IDS = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)


@given(st.lists(st.tuples(IDS, IDS), max_size=5))
def test_utterances_are_packed_like_episodes_of_one_turn(pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    said = pack_utterances([Utterance(p, a, (-0.5,) * len(a), version=i) for i, (p, a) in enumerate(pairs)])
    played = pack(
        [episode([turn(p, a, logp=-0.5, version=i)], group=str(i), name=str(i)) for i, (p, a) in enumerate(pairs)]
    )
    for name in played.__dataclass_fields__:
        assert torch.equal(getattr(said, name), getattr(played, name)), name
        assert getattr(said, name).dtype == getattr(played, name).dtype, name


@pytest.mark.parametrize(
    "said", [Utterance((), (1,), (0.0,)), Utterance((1,), (), ()), Utterance((1,), (2, 3), (0.0,))]
)
def test_what_cannot_be_scored_is_refused(said: Utterance) -> None:
    with pytest.raises(ContractError, match="utterance 1 has"):
        pack_utterances([Utterance((1,), (2,), (0.0,)), said])
