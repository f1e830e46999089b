"""Causal critics read rows that are padded on the right without any mask; those that read forward keep theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.value_guided import ActionValues
from turnwise.trainers.critics.encoder import EncoderConfig
from turnwise.trainers.critics.encoders import encoder_named
from turnwise.trainers.critics.token_learning import TokenLearner
from turnwise.trainers.critics.token_values import TokenValues, ValuesConfig, token_values
from turnwise.trainers.learning.learner import OptimizerConfig
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.learning.scorer import Scorer
from turnwise.trainers.learning.utterances import Utterance, pack_utterances

TOKENIZER = build_tokenizer("byte")
SHAPE = NanoConfig(tokenizer="byte", size="0.1M", layers=2, hidden=32, heads=2, head_dim=16, intermediate=48)
SEQUENCES = [(1, 2, 3), (4, 5, 6, 7, 8, 9, 10), (11,)]


@pytest.fixture
def masked() -> Iterator[Callable[[], bool]]:
    """Whether attention got a mask since the last call; it must have been computed."""
    seen: list[bool] = []

    def spy(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        seen.append(attn_mask is not None)
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, **options)

    def asked() -> bool:
        assert seen, "no attention was computed"
        found = any(seen)
        seen.clear()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
        yield asked


def model() -> Any:
    return build_model(SHAPE, TOKENIZER, seed=0)


def rows() -> Rows:
    said = [Utterance(ids[:1], ids[1:], (0.0,) * (len(ids) - 1)) for ids in SEQUENCES[:2]]
    packed = pack_utterances([*said, Utterance((7, 8, 9), (1, 2), (0.0, 0.0))])
    return packed.with_weight(packed.mask.float())


def critic(layout: Any = "padded") -> TokenValues:
    values = token_values(ValuesConfig(), model(), TOKENIZER, scorer=Scorer(layout=layout))
    torch.nn.init.normal_(values.head.weight, generator=torch.Generator().manual_seed(3))
    return values


def reading_masks(backbone: Any) -> Any:
    """The same backbone given the mask of the padding, as it was before."""
    plain = backbone.forward

    def forward(input_ids: Tensor, **options: Any) -> Any:
        real = [int(row.nonzero().max()) + 1 for row in input_ids]
        mask = torch.arange(input_ids.shape[1]) < torch.tensor(real)[:, None]
        return plain(input_ids=input_ids, attention_mask=mask.long(), **options)

    backbone.forward = forward
    return backbone


def test_values_of_tokens_are_those_with_a_mask(masked: Callable[[], bool]) -> None:
    values = critic()
    found, last = values.values(rows()), values.final(SEQUENCES)
    assert not masked()
    reading_masks(values.backbone)
    assert torch.allclose(values.values(rows()), found, atol=1e-6)
    assert torch.allclose(values.final(SEQUENCES), last, atol=1e-6)
    assert masked()


def test_packed_values_have_the_values_and_the_fit_of_padded_ones(masked: Callable[[], bool]) -> None:
    padded, packed = critic(), critic("packed")
    target = torch.linspace(-1, 1, len(rows()))
    assert torch.allclose(packed.values(rows()), padded.values(rows()), atol=1e-6)
    one, other = padded.fit(rows(), target), packed.fit(rows(), target)
    assert not masked()
    assert one == pytest.approx(other, abs=1e-5)
    assert torch.allclose(packed.values(rows()), padded.values(rows()), atol=1e-4)


def test_a_shared_backbone_reads_as_with_a_mask(masked: Callable[[], bool]) -> None:
    policy = model()
    attach(policy, LoraConfig(rank=2))
    encoder: Any = encoder_named(EncoderConfig(kind="shared"), policy, TOKENIZER)
    with torch.no_grad():
        found = encoder(SEQUENCES)
        assert not masked()
        reading_masks(policy.base_model)
        assert torch.allclose(encoder(SEQUENCES), found, atol=1e-6)
        assert masked()


def test_values_of_actions_read_as_with_a_mask(masked: Callable[[], bool]) -> None:
    policy = model()
    online = ActionValues.of(policy)
    learner = TokenLearner(policy, online, online, lambda *_: pytest.fail("unused"), OptimizerConfig(), polyak=0.1)
    padded = rows().padded()
    given = online, padded.ids_BL, padded.attention_BL, padded.flat_T[rows().mask] - 1
    with torch.no_grad():
        found = learner._hidden(*given)
        assert not masked()
        reading_masks(online.backbone)
        assert torch.allclose(learner._hidden(*given), found, atol=1e-6)
        assert masked()


def test_an_encoder_that_reads_forward_keeps_its_mask(masked: Callable[[], bool]) -> None:
    encoder: Any = encoder_named(
        EncoderConfig(kind="nano", hidden=16, layers=1, heads=2, intermediate=16), model(), TOKENIZER
    )
    encoder(SEQUENCES)
    assert masked(), "padding would be read"
