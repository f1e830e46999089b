"""A user's mistakes: reported at once, in one line, before anything is played or written."""

from __future__ import annotations

import pytest

from turnwise.errors import ConfigError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.value_guided import ActionValues, ValueGuidedModel
from turnwise.trainers.critics.backbone_copy import backbone_copy
from turnwise.trainers.critics.encoder import AdapterConfig
from turnwise.trainers.critics.shared_backbone import SharedEncoder
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.options import configured

BASICS = ["env=turnwise/MazeU-v0", "model=somewhere"]


@pytest.mark.parametrize(
    ("word", "setting", "says"),
    [
        ("grpo", "agent.temperature=0", "every attempt at a task is the same"),
        ("reinforce", "agent.temperature=0", "every attempt at a task is the same"),
        ("loop", "agent.temperature=0", "every attempt at a task is the same"),
        ("archer", "agent.temperature=0", "every attempt at a task is the same"),
        ("grpo", "optimizer.betas=[0.9,1.0]", "optimizer.betas"),
        ("ppo", "values.betas=[-0.1,0.9]", "values.betas"),
        ("archer", "critic_model.encoder.heads=3", "choose a multiple"),
        ("bc", "nano.head_dim=7", "nano.head_dim"),
        ("bc", "nano.layers=0", "nano.layers"),
        ("ilql", "lora.rank=4", "leave lora out"),
        ("mc", "lora.rank=4", "leave lora out"),
        ("grpo", "lora.targets=[]", "lora.targets"),
        ("loop", "loss.ratio_level=turn", "there is no setting 'loss'; did you mean 'ratio_level'"),
        ("loop", f"seed={2**43}", "setting 'seed' must be less than"),
        ("loop", "optimizer.lr=1e300", "setting 'optimizer.lr' must be less than or equal to 1000"),
        ("archer", "steps=9", "warmup = 10 .* more than all steps = 9: the actor would never learn"),
        *(
            (word, "dtype=bfloat16", "set lora.rank to train adapters")
            for word in ("loop", "ppo", "archer", "bc", "ilql")
        ),
        ("ilql", "warmup=101", "warmup = 101 .* more than all steps = 100: what makes ilql would never begin"),
    ],
)
def test_a_setting_that_could_only_waste_the_run_is_refused(word: str, setting: str, says: str) -> None:
    configured(word, None, BASICS)
    with pytest.raises(ConfigError, match=says):
        configured(word, None, [*BASICS, setting])


@pytest.mark.parametrize(("word", "setting"), [("archer", "steps=10"), ("ilql", "warmup=100")])
def test_a_run_may_be_nothing_but_its_warm_up(word: str, setting: str) -> None:
    assert configured(word, None, [*BASICS, setting]), "resumed with more steps, what was warmed up for begins"


def test_half_precision_is_for_adapters() -> None:
    chosen = configured("loop", None, [*BASICS, "dtype=bfloat16", "lora.rank=4"])
    assert chosen.dtype == "bfloat16"


OFFLINE = ["mode=offline", "actor=awr", "critic=iql"]


@pytest.mark.parametrize(("word", "more"), [("bc", []), ("ilql", []), ("mc", []), ("oreo", []), ("archer", OFFLINE)])
def test_what_learns_from_demonstrations_may_act_greedily(word: str, more: list[str]) -> None:
    assert configured(word, None, [*BASICS, *more, "agent.temperature=0"])


def test_a_model_that_values_guide_is_no_base_for_adapters_or_critics() -> None:
    tokenizer = build_tokenizer("word", ["a b"])
    policy = build_model(NanoConfig(size="0.1M", layers=1, hidden=16), tokenizer)
    values = ActionValues.of(policy, critics=1, states=True, share_backbone=False, seed=0)
    guided = ValueGuidedModel(policy, values, beta=1.0)
    with pytest.raises(UsageError, match="leave lora out"):
        attach(guided, LoraConfig())
    with pytest.raises(UsageError, match="cannot be the backbone of a critic"):
        backbone_copy(guided)


def test_a_shared_critic_says_which_setting_names_layers_that_are_not_there() -> None:
    policy = build_model(NanoConfig(size="0.1M", layers=1, hidden=16), build_tokenizer("word", ["a b"]))
    attach(policy, LoraConfig(rank=2))
    with pytest.raises(UsageError, match=r"critic_model.encoder.adapter.targets = \['nope'\] does not fit"):
        SharedEncoder(policy, AdapterConfig(targets=["nope"]))
