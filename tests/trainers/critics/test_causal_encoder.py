from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

import pydantic
import pytest
import torch
from torch import Tensor

from turnwise.errors import UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.causal_encoder import CausalEncoder, nano_backbone
from turnwise.trainers.critics.encoder import EncoderConfig, encode, encode_pairs, encode_steps
from turnwise.trainers.critics.encoders import encoder_named
from turnwise.trainers.critics.transitions import Transition
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic

from ...shifts import core_sample
from .turns import step

SMALL = EncoderConfig(kind="causal", hidden=16, layers=2, heads=2, intermediate=32, initializer_range=0.3)
ROW = (1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3)
GAMMA = 0.8
TD = ArcherRule("td", GAMMA)


def causal(context: int = 24, seed: int = 0) -> CausalEncoder:
    return CausalEncoder(nano_backbone(SMALL, vocabulary=10, context=context, seed=seed))


def critic(**optimizer: object) -> UtteranceCritic:
    return UtteranceCritic(causal(), CriticConfig.model_validate({"head": 16, "optimizer": optimizer}))


def played() -> tuple[list[Transition], list[tuple[int, ...]]]:
    """Two episodes, one of which a limit cut off after its second turn, and fresh utterances for their states."""
    batch = [
        step(ROW[:3], ROW[3:5], -1.0, ROW[:6], returned=-2.0),
        step(ROW[:6], ROW[6:7], -1.0, ROW[:9], returned=-1.0, turn=1),
        step(ROW[:9], ROW[9:12], 2.0, returned=2.0, turn=2),
        step((1, 2, 9), (4,), 0.5, (1, 2, 9, 4, 4), returned=1.0, name="f"),
        step((1, 2, 9, 4, 4), (5,), 0.5, (1, 2, 9, 4, 4, 5, 6), returned=0.5, name="f", turn=1),
    ]
    return batch, [(7,), ROW[6:7], (8, 8), (4,), (5, 5)]


def test_a_prefix_is_read_as_if_nothing_followed() -> None:
    """No value of a turn depends on a later one, or on another utterance in the same state."""
    encoder = causal()
    sequences = [ROW[:3], ROW[:5], (*ROW[:3], 7), ROW[:6], ROW[:7], (*ROW[:6], 9, 9), ROW]
    together = encode(encoder, sequences)
    for ids, vector in zip(sequences, together, strict=True):
        assert torch.allclose(vector, encoder([ids])[0], atol=1e-5)
        plain = encoder.body(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
        assert torch.allclose(vector, plain, atol=1e-5), "what the model says of the sequence itself"
    assert all(not torch.allclose(a, b, atol=1e-2) for a, b in itertools.combinations(together, 2))


def test_states_utterances_and_next_states_share_one_pass() -> None:
    encoder = causal()
    seen: list[int] = []
    encoder.body.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    state_BH, action_BH, next_NH = encode_steps(encoder, [ROW[:3], ROW[:6]], [ROW[3:5], ROW[6:7]], [ROW[:6], ROW[:9]])
    assert seen == [9], "the nine tokens of the row, once"
    assert torch.allclose(next_NH[0], state_BH[1], atol=1e-5)
    pair_BH, said_BH = encode_pairs(encoder, [ROW[:6]], [ROW[6:7]])
    assert torch.allclose(pair_BH[0], state_BH[1], atol=1e-5)
    assert torch.allclose(said_BH[0], action_BH[1], atol=1e-5)


def test_trap_7_what_is_too_long_is_an_error_and_never_cut() -> None:
    assert causal(context=5)([(1,) * 5]).shape == (1, 16)
    with pytest.raises(UsageError, match="read 6 tokens, and its encoder holds 5"):
        causal(context=5)([(1,), (1,) * 6])


def test_weights_are_a_function_of_the_seed_and_nothing_else_moves() -> None:
    before = torch.get_rng_state()
    one, same, other = causal(), causal(), causal(seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one([(1, 2)]), same([(1, 2)]))
    assert not torch.equal(one([(1, 2)]), other([(1, 2)]))


def test_attention_without_masks_is_refused() -> None:
    backbone = nano_backbone(SMALL, vocabulary=10, context=5)
    cast(Any, backbone).config._attn_implementation = "flash_attention_2"
    with pytest.raises(UsageError, match="which 'flash_attention_2' attention cannot mask"):
        CausalEncoder(backbone)


def test_a_copy_of_the_policy_starts_with_its_states_and_leaves_it_alone() -> None:
    tokenizer = build_tokenizer("word", ["go left right"])
    model = build_model(NanoConfig(size="0.1M", context_length=32), tokenizer, seed=3)
    encoder = encoder_named(EncoderConfig(kind="copy"), model, tokenizer)
    assert isinstance(encoder, CausalEncoder)
    expected = model.base_model(input_ids=torch.tensor([[3, 1, 2]])).last_hidden_state[0, -1]
    assert torch.allclose(encoder([(3, 1, 2)])[0], expected, atol=1e-5)
    before = [weight.clone() for weight in model.parameters()]
    learner = UtteranceCritic(encoder, CriticConfig())
    learner.update([step((1,), (2,), 1.0), step((1,), (3,))], ArcherRule("mc"))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert isinstance(encoder_named(SMALL, model, tokenizer), CausalEncoder)


def test_a_head_of_odd_width_is_refused() -> None:
    with pytest.raises(pydantic.ValidationError, match="hidden = 6 over heads = 2 is an odd width"):
        EncoderConfig(kind="causal", hidden=6, heads=2)


@pytest.mark.parametrize("tokens", [1, 7, 30])
def test_trap_8_micro_batches_change_nothing(tokens: int) -> None:
    def gradients(budget: int) -> tuple[dict[str, float], list[Tensor]]:
        learner = critic(lr=1e-12, microbatch_tokens=budget, max_grad_norm=1e9, betas=(0, 0.9))
        metrics = learner.update(batch, TD, fresh)
        moments = learner.state_dict()["optimizer"]["state"]
        return metrics, [moments[name]["exp_avg"] for name in sorted(moments)]

    batch, fresh = played()
    (whole, one), (parts, other) = gradients(10_000), gradients(tokens)
    assert parts == pytest.approx(whole, rel=1e-4)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))


def test_targets_are_those_computed_by_hand() -> None:
    """Each next state, the one after a limit too, is read apart here; the end of a task is worth nothing."""
    learner, (batch, fresh) = critic(lr=1e-2), played()
    learner.update(batch, TD, fresh)
    expected_q, expected_v = [], []
    for turn, said in zip(batch, fresh, strict=True):
        q_2, v_2 = learner.q([turn.state_ids], [turn.action_ids])[:, 0], learner.v([turn.state_ids])[:, 0]
        later_2 = torch.zeros(2) if turn.done else learner.v([turn.next_ids], slow=True)[:, 0]
        expected_q.append(float((q_2 - (turn.reward + GAMMA * later_2)).square().sum()))
        expected_v.append(float((v_2 - learner.q([turn.state_ids], [said], slow=True)[:, 0]).square().sum()))
    assert [turn.done for turn in batch] == [False, False, True, False, False]
    learner.config = learner.config.model_copy(update={"scaled": False})  # the units stay where they are
    metrics = learner.update(batch, TD, fresh)
    assert metrics["critic/q_loss"] == pytest.approx(sum(expected_q) / 5, rel=1e-4)
    assert metrics["critic/v_loss"] == pytest.approx(sum(expected_v) / 5, rel=1e-4)


def test_trap_24_a_restored_critic_goes_on_bitwise(tmp_path: Path) -> None:
    (batch, fresh), straight, resumed = played(), critic(), critic()
    for _ in range(2):
        straight.update(batch, TD, fresh)
    torch.save(straight.state_dict(), tmp_path / "critic.pt")
    resumed.load_state_dict(torch.load(tmp_path / "critic.pt", weights_only=True))
    assert straight.update(batch, TD, fresh) == resumed.update(batch, TD, fresh)
    for one, other in ((straight.online, resumed.online), (straight.slow, resumed.slow)):
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", core_sample(["td", "mc"], 1, key="causal critic"))
def test_it_learns_which_utterance_is_right_where_the_prompt_says_so(kind: str) -> None:
    """The first prompt shows 5 or 6; 3 is the right answer to 5 and 4 to 6, in both turns."""
    learner = critic(lr=3e-3)
    batch, fresh, states = [], [], []
    for hint, first, second in itertools.product((5, 6), (3, 4), (3, 4)):
        right = hint - 2
        start = (1, hint, 2)
        later = (*start, first, 9)
        paid = [float(said == right) for said in (first, second)]
        batch += [
            step(start, (first,), paid[0], later, returned=sum(paid), name=f"{hint}{first}{second}"),
            step(later, (second,), paid[1], returned=paid[1], name=f"{hint}{first}{second}", turn=1),
        ]
        fresh += [(first,), (second,)]
        states += [(start, right), (later, right)]
    for _ in range(150):
        learner.update(batch, ArcherRule(kind, 1.0), fresh if kind == "td" else None)  # type: ignore[arg-type]
    for state, right in states:
        better, worse = learner.advantage([state] * 2, [(right,), (7 - right,)]).tolist()
        assert better > 0.2 > -0.2 > worse, f"in {state}, {right} is right"
