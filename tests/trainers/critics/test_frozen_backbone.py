"""A frozen backbone is read once for every sequence, says what the base alone says, and only heads learn."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from turnwise.errors import UsageError
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.encoder import EncoderConfig, encode, encode_pairs
from turnwise.trainers.critics.encoders import encoder_named
from turnwise.trainers.critics.features import Features
from turnwise.trainers.critics.frozen_backbone import FrozenEncoder
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic

from .test_many_processes import policy as plain
from .test_shared_backbone import ACTIONS, STATES, policy
from .turns import step

BATCH = [step((1, 2, 3), (7, 8), 1.0, (1, 2, 3, 7, 8, 4)), step((1, 2, 3, 7, 8, 4), (9,), 2.0, turn=1)]


def critic(model: Any) -> UtteranceCritic:
    encoder = encoder_named(EncoderConfig(kind="frozen"), model, None)
    return UtteranceCritic(encoder, CriticConfig.model_validate({"head": 8, "optimizer": {"lr": 0.05}}))


def test_vectors_are_those_of_the_base_and_not_of_the_actor() -> None:
    model = policy()
    base = policy()
    with torch.no_grad():
        for name, parameter in base.named_parameters():
            if "lora_B" in name:
                parameter.zero_()
    encoder = FrozenEncoder(model, capacity=100)
    state_BH, action_BH = encode_pairs(encoder, STATES, ACTIONS)
    for state, action, vector, said in zip(STATES, ACTIONS, state_BH, action_BH, strict=True):
        with torch.no_grad():
            hidden = base.base_model(input_ids=torch.tensor([[*state, *action]])).last_hidden_state[0]
        assert torch.allclose(vector, hidden[len(state) - 1], atol=1e-5)
        assert torch.allclose(said, hidden[-1], atol=1e-5), "an utterance is read after its state"
    with torch.no_grad():
        again = model.base_model(input_ids=torch.tensor([[1, 2]])).last_hidden_state
        assert not torch.allclose(again, base.base_model(input_ids=torch.tensor([[1, 2]])).last_hidden_state), (
            "the actor's adapter is active again"
        )


def test_updates_read_every_sequence_once_and_move_only_heads() -> None:
    model = policy()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    subject = critic(model)
    found = [subject.update(BATCH, ArcherRule("td", 0.9), [(5,), (6,)]) for _ in range(4)]
    # Two states, of which one follows the other, two utterances, and two fresh ones.
    assert [each["critic/encoder_read"] for each in found] == [6.0, 0.0, 0.0, 0.0]
    assert found[-1]["critic/loss"] != found[0]["critic/loss"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not [name for name in subject.state_dict()["online"] if name.startswith("encoder")]
    assert not subject.reads_rows, "turns are drawn one by one, since reading them costs nothing"
    again = critic(model)
    again.load_state_dict(subject.state_dict())
    # It reads again what the other one has kept, in batches of another size, which some processors round otherwise.
    torch.testing.assert_close(again.q(STATES, ACTIONS), subject.q(STATES, ACTIONS))


def test_what_was_not_used_for_longest_is_dropped_and_read_again() -> None:
    read: list[tuple[int, ...]] = []

    def reader(sequences: Any) -> torch.Tensor:
        read.extend(sequences)
        return torch.tensor([[float(sum(ids))] for ids in sequences])

    features = Features(2)
    assert features.of([(1,), (2,), (1,), (3,)], reader)[:, 0].tolist() == [1.0, 2.0, 1.0, 3.0]
    assert (read, len(features)) == ([(1,), (2,), (3,)], 2)
    assert features.of([(1,), (3,)], reader)[:, 0].tolist() == [1.0, 3.0]
    features.of([(2,)], reader)
    assert read[3:] == [(2,)], "of equal age, the first"


def test_a_policy_whose_base_learns_is_refused() -> None:
    with pytest.raises(UsageError, match="train it with LoRA"):
        FrozenEncoder(plain(), capacity=1)
    model = policy()
    model.base_model.norm.weight.requires_grad_(True)
    with pytest.raises(UsageError, match="base learns too"):
        FrozenEncoder(model, capacity=1)


def test_a_sequence_longer_than_the_context_is_refused() -> None:
    with pytest.raises(UsageError, match="to read 33 tokens"):
        encode(FrozenEncoder(policy(), capacity=1), [tuple(range(1, 34))])
