"""One backbone for actor and critic: each learns through its own adapter, and neither moves what the other says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor

from turnwise.errors import UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.encoder import AdapterConfig, EncoderConfig, encode, encode_pairs
from turnwise.trainers.critics.encoders import encoder_named
from turnwise.trainers.critics.shared_backbone import SharedEncoder
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.lora import LoraConfig, attach, load_adapter, merged, save_adapter
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.rows import Rows, pack

from ..fakes import Said, conversation
from .turns import step

TINY = NanoConfig(size="0.1M", layers=2, hidden=16, heads=2, head_dim=8, intermediate=32, context_length=32)
ADAPTER = AdapterConfig(rank=4, alpha=8)
STATES = [(1, 2, 3), (4,), (5, 6)]
ACTIONS = [(7, 8), (9,), (10, 11, 12)]


def policy(seed: int = 0, *, targets: list[str] | None = None) -> Any:
    """A nano model with a frozen base and a trained adapter."""
    model: Any = build_model(TINY, build_tokenizer("byte"), seed=seed)
    attach(model, LoraConfig(rank=4, alpha=16, targets=targets), seed=seed)
    generator = torch.Generator().manual_seed(seed + 100)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1, generator=generator)
    return model


def critic(model: Any, **settings: Any) -> UtteranceCritic:
    encoder = SharedEncoder(model, ADAPTER)
    options: dict[str, Any] = {"head": 8, "tau": 0.25, "optimizer": {"lr": 0.05}}
    return UtteranceCritic(encoder, CriticConfig.model_validate(options | settings))


def learn(made: UtteranceCritic, times: int = 1) -> None:
    batch = [step(s, a, 1.0, returned=float(i)) for i, (s, a) in enumerate(zip(STATES, ACTIONS, strict=True))]
    for _ in range(times):
        made.update(batch, ArcherRule(kind="mc"))


def rows() -> Rows:
    made = pack([conversation([Said((1, 2), (3, 4)), Said((5,), (6,))])])
    return made.with_weight(normalizer(made, "token_mean"))


def kept(model: Any) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def active(model: Any) -> set[str]:
    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    return {adapter for layer in layers for adapter in layer.active_adapters}


def of(adapter: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in weights.items() if f".{adapter}." in name}


@pytest.mark.slow
def test_a_critics_update_moves_no_weight_and_no_answer_of_the_policy() -> None:
    model = policy()
    learner = Learner(model, OptimizerConfig())
    said = learner.logprobs(rows())
    before = kept(model)
    made = critic(model)
    learn(made, times=3)
    assert torch.equal(learner.logprobs(rows()), said), "bitwise the same log-probabilities"
    after = kept(model)
    assert all(torch.equal(after[name], value) for name, value in before.items()), "base and actor are as they were"
    assert all(parameter.grad is None for name, parameter in model.named_parameters() if name in before)
    fresh = SharedEncoder(policy(), ADAPTER)
    assert any(not torch.equal(a, b) for a, b in zip(made.online.encoder.parameters(), fresh.parameters(), strict=True))


def test_a_policys_update_moves_no_weight_of_the_critic() -> None:
    model = policy()
    made = critic(model)
    learner = Learner(model, OptimizerConfig(lr=0.1))
    before = kept(model)
    learner.clone(rows())
    after = kept(model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert moved <= set(of("default", before)), "a learner made after the critic trains its adapter alone"
    learn(made)
    assert all(torch.equal(kept(model)[name], after[name]) for name in of("default", after))


def test_switching_says_nothing_about_who_learns() -> None:
    model = policy()
    encoder = SharedEncoder(model, ADAPTER)
    slow = copy.deepcopy(encoder).requires_grad_(False)
    learning = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    assert encoder(STATES).requires_grad
    assert not slow(STATES).requires_grad
    assert {name: parameter.requires_grad for name, parameter in model.named_parameters()} == learning
    assert set(of("default", kept(model))) <= {name for name, learns in learning.items() if learns}
    assert active(model) == {"default"}
    with pytest.raises(UsageError, match="read 40 tokens"):
        encoder([(1,) * 40])
    assert active(model) == {"default"}, "also after an error"


def test_the_slow_copy_is_an_adapter_that_follows_exactly() -> None:
    model = policy()
    made = critic(model)
    adapters = {name.split(".")[-2] for name, _ in model.named_parameters() if "lora_" in name}
    assert adapters == {"default", "critic", "target"}
    slow, online = made.slow, made.online
    assert torch.equal(encode(slow.encoder, STATES), encode(online.encoder, STATES))  # type: ignore[arg-type]
    before = [parameter.detach().clone() for parameter in slow.parameters()]
    learn(made)
    for was, now, target in zip(before, slow.parameters(), online.parameters(), strict=True):
        assert torch.equal(now, torch.lerp(was, target, 0.25)), "θ̄ ← θ̄ + τ(θ − θ̄), adapter and heads"
    assert not torch.equal(encode(slow.encoder, STATES), encode(online.encoder, STATES))  # type: ignore[arg-type]


def test_one_pass_over_both_is_the_state_and_what_follows_it() -> None:
    encoder = SharedEncoder(policy(), ADAPTER)
    state_BH, action_BH = encode_pairs(encoder, STATES, ACTIONS)
    assert torch.allclose(state_BH, encode(encoder, STATES), atol=1e-5), "a causal state does not know what follows"
    whole = [(*state, *action) for state, action in zip(STATES, ACTIONS, strict=True)]
    assert torch.allclose(action_BH, encode(encoder, whole), atol=1e-5)
    elsewhere = encode_pairs(encoder, [(1, 2, 4)], [ACTIONS[0]])[1]
    assert not torch.allclose(action_BH[0], elsewhere[0], atol=1e-3), "an utterance is read where it was said"
    for tokens in (1, 9, 1000):
        again = encode_pairs(encoder, STATES[::-1] * 2, ACTIONS[::-1] * 2, tokens=tokens)
        assert torch.allclose(again[0][:3].flip(0), state_BH, atol=1e-5)
        assert torch.allclose(again[1][3:].flip(0), action_BH, atol=1e-5)


def test_trap_26_padding_changes_nothing() -> None:
    encoder = SharedEncoder(policy(), ADAPTER)
    alone = encoder([(3, 1)])
    assert torch.allclose(alone, encoder([(3, 1), (2,) * 20])[:1], atol=1e-5)
    assert not torch.allclose(alone, encoder([(3, 1, 0)]), atol=1e-3), "a real token 0 is no padding"


def test_a_new_adapter_reads_as_the_base_does_whatever_the_actor_learnt() -> None:
    plain: Any = build_model(TINY, build_tokenizer("byte"))
    for targets in (None, ["q_proj"]):
        encoder = SharedEncoder(policy(targets=targets), ADAPTER)
        wanted = plain.base_model(input_ids=torch.tensor([STATES[0]])).last_hidden_state[0, -1]
        assert torch.allclose(encoder([STATES[0]])[0], wanted, atol=1e-6)


def test_a_critic_with_more_layers_than_the_actor_leaves_those_as_they_were(tmp_path: Path) -> None:
    model, alone = policy(targets=["q_proj"]), policy(targets=["q_proj"])
    said = Learner(model, OptimizerConfig()).logprobs(rows())
    made = critic(model)
    learn(made, times=3)
    assert len(list(made.online.encoder.parameters())) > len(of("default", kept(model)))
    assert torch.equal(Learner(model, OptimizerConfig()).logprobs(rows()), said)
    state = model.state_dict()
    exported, wanted = merged(model, state), merged(alone, alone.state_dict())
    assert exported.keys() == wanted.keys()
    assert all(torch.equal(exported[name], wanted[name]) for name in wanted), "no trace of the critic is exported"
    save_adapter(model, state, tmp_path / "adapter", base={"path": "base", "digest": ""})
    load_adapter(policy(1, targets=["q_proj"]), tmp_path / "adapter")


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft asks for it
def test_a_policy_of_peft_itself_is_shared_as_well() -> None:
    plain: Any = build_model(TINY, build_tokenizer("byte"))
    model = peft.get_peft_model(plain, peft.LoraConfig(r=4, target_modules="all-linear"), adapter_name="actor").eval()
    said = Learner(model, OptimizerConfig()).logprobs(rows())
    made = critic(model)
    learn(made, times=2)
    assert torch.equal(Learner(model, OptimizerConfig()).logprobs(rows()), said)
    assert model.active_adapters == ["actor"]
    assert not torch.equal(made.v(STATES), made.v(STATES, slow=True))


def test_it_goes_on_from_its_state_and_keeps_only_its_own(tmp_path: Path) -> None:
    made = critic(policy())
    learn(made, times=2)
    torch.save(made.state_dict(), tmp_path / "critic.pt")
    state = torch.load(tmp_path / "critic.pt", weights_only=True)
    held = sum(tensor.numel() for name, tensor in state["online"].items() if name.startswith("encoder."))
    adapter = sum(parameter.numel() for parameter in made.online.encoder.parameters())
    assert held == adapter < 5000, "neither base nor actor is in it"
    resumed = critic(policy())
    resumed.load_state_dict(state)
    for each in (made, resumed):
        learn(each)
    assert torch.equal(made.q(STATES, ACTIONS), resumed.q(STATES, ACTIONS))
    assert torch.equal(made.v(STATES, slow=True), resumed.v(STATES, slow=True))


@pytest.mark.slow
@pytest.mark.shift
def test_the_critic_learns_through_it() -> None:
    made = critic(policy(), optimizer={"lr": 0.01})
    learn(made, times=150)
    assert made.q(STATES, ACTIONS).mean(0).tolist() == pytest.approx([0.0, 1.0, 2.0], abs=0.15)
    assert made.v(STATES).mean(0).tolist() == pytest.approx([0.0, 1.0, 2.0], abs=0.15)


@pytest.mark.slow
def test_a_policy_that_cannot_share_is_told_so() -> None:
    plain: Any = build_model(TINY, build_tokenizer("byte"))
    with pytest.raises(UsageError, match="this policy has none: train it with LoRA"):
        encoder_named(EncoderConfig(kind="shared"), plain, build_tokenizer("byte"))
    moving = policy()
    moving.lm_head.requires_grad_(True)
    with pytest.raises(UsageError, match="the policy's base learns too"):
        SharedEncoder(moving, ADAPTER)
    assert not of("critic", kept(moving)), "nothing was added to it"
    with pytest.raises(UsageError, match="empty sequence"):
        SharedEncoder(policy(), ADAPTER)([()])


def test_it_is_chosen_by_name() -> None:
    made = encoder_named(EncoderConfig(kind="shared", adapter=ADAPTER), policy(), build_tokenizer("byte"), seed=3)
    assert isinstance(made, SharedEncoder)
    assert made.width == 16
