from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pydantic
import pytest
import torch
from torch import Tensor

from turnwise.errors import CheckpointError, DivergedError, UsageError
from turnwise.trainers import loop, on_policy
from turnwise.trainers.algorithms.named import ALGORITHMS
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.clips import ClipCounts
from turnwise.trainers.learning.groups import Group, grouped
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.learner_records import records_of
from turnwise.trainers.learning.reference import Reference
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.on_policy import OnPolicyConfig, Parts, iterate
from turnwise.trainers.run.metrics import read_metrics

from ..logged import events
from . import small
from .fakes import Bigram, Said, conversation
from .test_resume import finish, killed_and_resumed, same, state


def config(name: str, **changes: Any) -> OnPolicyConfig:
    teacher = {"teacher": "none"} if name == "distill" else {}
    return OnPolicyConfig.model_validate({"env": "e", "model": "m", "algorithm": {"name": name, **teacher}} | changes)


def running(out: Path, model: Path, name: str, **changes: Any) -> OnPolicyConfig:
    settings: dict[str, Any] = {
        **small.SHARED,
        "out": str(out),
        "model": str(model),
        "algorithm": {"name": name},
        "steps": 2,
        "tasks_per_step": 2,
        "group_size": 3,
        "checkpoint_every": 1,
        "eval": {"split": "train", "episodes": 2, "every": 0},
        "values": {"warmup": 1},
    }
    return OnPolicyConfig.model_validate(settings | changes)


def groups(*rewards: float, group: str = "g0") -> list[Group]:
    """Attempts at one task whose one turn has 1 to 3 tokens."""
    return grouped(
        conversation([Said((1,), (2, 3, 4)[: 1 + i % 3], each)], group=group, name=f"{group}-{i}")
        for i, each in enumerate(rewards)
    )


def parts(model: Bigram, **others: Any) -> Parts:
    return Parts(Learner(model, OptimizerConfig()), **others)


class Fitted:
    """A critic that says 0 and counts how often it was taught."""

    def __init__(self) -> None:
        self.targets: list[Tensor] = []

    def values(self, rows: Rows) -> Tensor:
        return torch.zeros(len(rows))

    def final(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        return torch.zeros(len(prompts))

    def fit(self, rows: Rows, target_T: Tensor) -> Mapping[str, float]:
        assert rows.weight[rows.mask].all(), "the critic learns from every sampled token"
        self.targets.append(target_T)
        return {"value_loss": 1.0}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        del state


def test_the_paper_fills_in_what_nobody_set_and_a_person_wins() -> None:
    assert (config("rloo").loss.ratio_level, config("rloo").epochs) == ("trajectory", 1)
    assert config("rloo", loss={"ratio_level": "turn"}).loss.ratio_level == "turn"
    mixed = config("rloo", loss={"clip_high": 0.3}).loss
    assert (mixed.ratio_level, mixed.clip_high) == ("trajectory", 0.3), "table by table, not as a whole"
    assert config("m-grpo").loss.kl.coef > 0
    assert config("m-grpo", loss={"kl": {"coef": 0.0}}).loss.kl.coef == 0
    assert config("grpo", out="runs/mine").out == "runs/mine"
    again = OnPolicyConfig.model_validate(config("m-grpo").model_dump())
    assert again == config("m-grpo"), "what is written down is read as the same"


@pytest.mark.parametrize("name", [name for name, kind in ALGORITHMS.items() if kind.smallest_group > 1])
def test_a_group_of_one_is_refused_where_there_would_be_no_baseline(name: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=rf"group_size=1 leaves {name} without a baseline"):
        config(name, group_size=1)


def test_a_penalty_in_the_reward_is_refused_where_values_do_not_contain_it() -> None:
    """The credit of VinePPO's first turn would lack the KL of all later ones."""
    in_reward = {"kl": {"coef": 0.5, "where": "reward"}}
    for name in ("ppo", "rloo", "arpo"):
        assert config(name, loss=in_reward).loss.kl.coef == 0.5
    with pytest.raises(
        pydantic.ValidationError, match=r"loss\.kl\.where = reward charges .* Use loss\.kl\.where = loss"
    ):
        config("vine-ppo", loss=in_reward)
    assert config("vine-ppo", loss={"kl": {"coef": 0.5}}).loss.kl.where == "loss"
    assert config("vine-ppo", loss={"kl": {"coef": 0.0, "where": "reward"}}), "there is no penalty"


def test_a_constant_needs_one() -> None:
    with pytest.raises(pydantic.ValidationError, match="set denominator"):
        config("grpo", normalizer="const")


@pytest.mark.parametrize("epochs", [1, 3])
def test_loop_is_this_script_with_rloos_credit_and_loops_loss(epochs: int) -> None:
    """The same weights, to the last bit, by two roads (arXiv 2502.01600)."""
    played = [*groups(1.0, 0.0, 0.49), *groups(2.0, 2.5, group="g1")]  # the third is too near the others to count
    one, other = Bigram(), Bigram()
    paper = loop.LoopConfig(env="e", model="m", minibatch=8, epochs=epochs, max_kl=None, min_advantage=0.05)
    loop.iterate(paper, Learner(one, OptimizerConfig()), played, version=0)
    mine = config(
        "rloo",
        epochs=epochs,
        minibatch=8,
        denominator=8,
        min_advantage=0.05,
        loss={"ratio_level": "token", "bounds": "loop", "clip_low": 0.1, "clip_high": 0.1},
    )
    iterate(mine, parts(other), played, version=0)
    assert torch.equal(one.table, other.table)
    assert not torch.equal(one.table, Bigram().table), "something was learnt"


def test_the_weights_of_a_minibatch_are_a_mean_whatever_its_size() -> None:
    given = Batch.of([*groups(1.0, 0.0, 3.0, 4.0)])
    rows = config("grpo").algorithm.credit(given, None).rows
    whole = on_policy.weighted(config("grpo"), rows, 4)
    halves = on_policy.weighted(config("grpo", minibatch=2), rows, 4)
    fixed = on_policy.weighted(config("grpo", minibatch=2, denominator=10), rows, 4)
    assert float(whole.weight.sum()) == pytest.approx(1)
    assert float(halves.weight.sum()) == pytest.approx(2), "two updates, each a mean"
    assert float(fixed.weight.sum()) == pytest.approx(4 / 10)


def test_while_the_critic_warms_up_the_policy_stands_still() -> None:
    model, critic = Bigram(), Fitted()
    before = model.table.detach().clone()
    ppo = config("ppo", values={"warmup": 2}, group_size=1, min_advantage=0.5)
    metrics = iterate(ppo, parts(model, critic=critic), groups(1.0, 5.0), version=1)
    assert torch.equal(model.table, before)
    assert "updates" not in metrics
    iterate(ppo, parts(model, critic=critic), groups(1.0, 5.0), version=2)
    assert not torch.equal(model.table, before)
    assert len(critic.targets) == 2, "it learns in both"


def test_a_penalty_in_the_reward_is_credited_where_returns_are_equal() -> None:
    """Three actions in one state, paid alike: what is left to compare is −β·log(π/ref).

    With credit A and one Adam step each logit moves in the direction of its A, since Σ A = 0.
    """
    played = grouped(conversation([Said((1,), (2 + i,), 1.0)], name=str(i)) for i in range(3))
    model, reference = Bigram(seed=1), Reference(Bigram(seed=2))
    free, before = copy.deepcopy(model), model.table.detach().clone()
    assert iterate(config("rloo"), parts(free), played, version=0)["updates"] == 0, "alike: nothing to learn"
    penalised = config("rloo", loss={"kl": {"coef": 0.5, "where": "reward"}})
    metrics = iterate(penalised, parts(model, reference=reference), played, version=0)
    gap_3 = (before.log_softmax(-1) - Bigram(seed=2).table.detach().log_softmax(-1))[1, 2:5]
    assert metrics["kl_ref"] == pytest.approx(float(gap_3.mean()), abs=1e-5)
    assert torch.equal((model.table.detach() - before)[1, 2:5].sign(), -(gap_3 - gap_3.mean()).sign())


def test_modulators_follow_the_algorithm_in_order() -> None:
    chosen = config("grpo", modulators=[{"name": "empg", "k": 2.0}])
    one, other = Bigram(), Bigram()
    iterate(config("grpo"), parts(one), groups(1.0, 0.0, 3.0), version=0)
    iterate(chosen, parts(other), groups(1.0, 0.0, 3.0), version=0)
    assert not torch.equal(one.table, other.table)


def test_nothing_to_learn_from_is_no_error() -> None:
    for name in ALGORITHMS:
        critic = Fitted() if ALGORITHMS[name].needs_values or name == "istar" else None
        chosen = config(name, values={"warmup": 0}, loss={"kl": {"coef": 0.0}})
        assert iterate(chosen, parts(Bigram(), critic=critic), [], version=0)["updates"] == 0


def test_a_reward_that_is_not_finite_is_told_and_nothing_is_learnt() -> None:
    model = Bigram()
    before = model.table.detach().clone()
    with pytest.raises(UsageError, match=r"episode g0-1 .* has a reward of nan"):
        iterate(config("grpo"), parts(model), groups(1.0, float("nan")), version=0)
    assert torch.equal(model.table, before)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_an_episode_of_two_players_is_refused_before_anything_is_learned(name: str) -> None:
    model, (group,) = Bigram(), groups(1.0, 0.0)
    before = model.table.detach().clone()
    played = group.members[0]
    other = replace(played.turns[0], prompt_ids=(5,), seat="opponent", reward=-1.0)
    mixed = replace(group, members=(replace(played, turns=(*played.turns, other)), *group.members[1:]))
    critic = Fitted() if ALGORITHMS[name].needs_values or name == "istar" else None
    with pytest.raises(UsageError, match=r"episode g0-0 .* seats agent, opponent, .* train on one episode per seat"):
        iterate(config(name), parts(model, critic=critic), [mixed], version=0)
    assert torch.equal(model.table, before)


def test_a_linear_schedule_ends_with_the_run() -> None:
    scheduled = config("grpo", steps=10, tasks_per_step=4, group_size=4, minibatch=8, epochs=3).plan().optimizer
    assert scheduled.total == 10 * 3 * 2
    warmed = config("ppo", steps=10, tasks_per_step=4, group_size=1, minibatch=4, epochs=1, values={"warmup": 4})
    assert warmed.plan().optimizer.total == 6
    assert config("grpo", optimizer={"total": 7}).plan().optimizer.total == 7


@pytest.mark.parametrize("name", ["grpo", "rloo", "m-grpo", "arpo", "reinforce"])
def test_a_return_that_was_paid_in_other_parts_moves_nothing(name: str) -> None:
    """0.9 and 0.6 + 0.3 differ by rounding, and Adam makes a full step of any gradient that stays."""
    model = Bigram()
    before = model.table.detach().clone()
    whole = conversation([Said((1,), (2, 3), 0.9), Said((1,), (4,), 0.0)], name="g0-0")
    parted = conversation([Said((1,), (3, 2), 0.6), Said((1,), (5,), 0.3)], name="g0-1")
    algorithm = {"name": name} | ({"credit_over": "episode"} if name == "reinforce" else {})
    settings = OnPolicyConfig.model_validate(
        {"env": "e", "model": "m", "algorithm": algorithm, "loss": {"kl": {"coef": 0.0}}}
    )
    metrics = iterate(settings, parts(model), grouped([whole, parted]), version=0)
    assert metrics["updates"] == 0
    assert torch.equal(model.table, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reinforce", "m-grpo", "gigpo", "ppo"])
def test_a_run_learns_and_leaves_a_model(tmp_path: Path, cloned: Path, name: str) -> None:
    result = on_policy.train(running(tmp_path / "run", cloned / "model", name))
    assert result.steps == 2
    assert result.metrics["updates"] >= 1
    assert (result.model / "model.safetensors").read_bytes() != (cloned / "model" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_the_folder_belongs_to_the_algorithm(tmp_path: Path, cloned: Path) -> None:
    on_policy.train(running(tmp_path / "run", cloned / "model", "grpo", steps=1))
    with pytest.raises(CheckpointError, match="holds a run of 'grpo', not 'rloo'"):
        on_policy.train(running(tmp_path / "run", cloned / "model", "rloo", steps=2, resume=True))
    changed = {"algorithm": {"name": "grpo", "std": "group"}, "steps": 2, "resume": True}
    with pytest.raises(CheckpointError, match=r"algorithm\.std was 'none', now 'group'"):
        on_policy.train(running(tmp_path / "run", cloned / "model", "grpo", **changed))


@pytest.mark.slow
def test_dropped_groups_are_drawn_past_and_a_resumed_run_is_bitwise_the_same(tmp_path: Path, cloned: Path) -> None:
    changes: dict[str, Any] = {
        "group_filter": {"max_rounds": 3},
        "max_tasks": 5,
        "tasks_per_step": 3,
        "group_size": 2,
        "eval": {"episodes": 0},
    }
    changes["episodes"] = {"env_kwargs": {"max_turns": 4}}  # often too few, and then both attempts return the same
    straight = running(tmp_path / "straight", cloned / "model", "grpo", **changes, steps=4)
    on_policy.train(straight)
    on_policy.train(running(tmp_path / "parts", cloned / "model", "grpo", **changes, steps=2))
    torch.manual_seed(5)
    on_policy.train(running(tmp_path / "parts", cloned / "model", "grpo", **changes, steps=4, resume=True))
    one, other = state(tmp_path / "straight", "grpo"), state(tmp_path / "parts", "grpo")
    assert one[0] == other[0]
    assert same(one[1], other[1])
    lines = read_metrics(tmp_path / "straight" / "metrics.jsonl")
    assert one[1][1]["cursor"] == sum(line["tasks_drawn"] for line in lines), "all that was drawn is behind the cursor"
    assert any(line["groups_dropped"] for line in lines), "the test has something to show"


@pytest.mark.slow
def test_overlapped_play_gives_further_groups_too(tmp_path: Path, cloned: Path) -> None:
    changes = {"group_filter": {"max_rounds": 2}, "overlap": {"enabled": True}, "eval": {"episodes": 0}}
    result = on_policy.train(running(tmp_path / "run", cloned / "model", "grpo", **changes))
    lines = read_metrics(result.folder / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["groups"] + line["groups_dropped"] == line["tasks_drawn"] for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("grpo", marks=pytest.mark.shift), "ppo"])
def test_trap_24_killed_at_random_points_is_bitwise_the_same_run(tmp_path: Path, cloned: Path, name: str) -> None:
    """With all that a run may hold: a critic, a reference, a history of entropies, groups drawn again."""
    changes: dict[str, Any] = {
        "steps": 4,
        "group_filter": {"max_rounds": 3 if name == "grpo" else 0},
        "loss": {"kl": {"coef": 0.01}, "smoothing": {"coef": 0.1}},
        "eval": {"episodes": 0},
    }
    finish(on_policy.train, running(tmp_path / "straight", cloned / "model", name, **changes))
    broken = running(tmp_path / "broken", cloned / "model", name, **changes)
    killed_and_resumed(on_policy.train, broken, [2], seed=2)
    one, other = state(tmp_path / "straight", name), state(tmp_path / "broken", name)
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert one[2] == other[2]


@pytest.mark.slow
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_a_run_samples_scores_and_compares_in_one_precision(
    tmp_path: Path, cloned: Path, caplog: pytest.LogCaptureFixture, autocast: str | None
) -> None:
    """PPO with a critic and a reference: before its first step, the KL is exactly 0 in 16 bits, too."""
    settings: dict[str, Any] = {
        "optimizer": {"autocast": autocast, "lr": 1e-4},
        "loss": {"kl": {"coef": 0.1, "where": "reward"}},
        "eval": {"episodes": 0},
        "values": {"warmup": 0},
    }
    result = on_policy.train(running(tmp_path / "run", cloned / "model", "ppo", **settings))
    first, second = (line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line)
    assert (first["kl_ref"], first["kl_ref_k3"]) == (0.0, 0.0)
    assert second["kl_ref_k3"] > 0
    assert first["mismatch_max"] < (0.2 if autocast else 1e-4)
    assert not [kind for kind, _ in events(caplog.records) if kind == "canary"]


def test_what_the_learner_knew_and_clipped_is_observed() -> None:
    """The records of an episode are its own tokens' numbers, in the order of its turns."""

    class Rising(Fitted):
        def values(self, rows: Rows) -> Tensor:
            return torch.arange(len(rows)).float()

    played = grouped(
        conversation([Said((1,), (2, 3), 0.0), Said((1, 2, 3, 4), (5,) * (1 + n), float(n))], name=str(n))
        for n in range(3)
    )
    seen: list[tuple[Any, Rows, Tensor | None, ClipCounts]] = []
    model = Bigram()
    first = Learner(copy.deepcopy(model), OptimizerConfig()).recompute_old(Batch.of(played).rows)
    ppo = config("ppo", group_size=1, values={"warmup": 1}, epochs=3, loss={"clip_low": 1e-4, "clip_high": 1e-4})
    iterate(ppo, parts(model, critic=Rising()), played, version=1, observe=lambda *given: seen.append(given))
    ((episodes, rows, value_T, clips),) = seen
    chosen = episodes[1].episode_id
    (record,) = records_of(episodes, rows, value_T, clips, step=4, only=frozenset([chosen]))
    assert (record.episode_id, record.step) == (chosen, 4)
    assert [len(turn.advantages) for turn in record.turns] == [2, 2], "a number for each sampled token"
    mine = (rows.episode == 1) & rows.mask
    told = [number for turn in record.turns for number in turn.logprobs]
    assert told == pytest.approx(first.logp_old[mine].tolist()), "under the policy before the update"
    assert [number for turn in record.turns for number in turn.advantages] == pytest.approx(
        rows.advantage[mine].tolist()
    )
    assert all(turn.entropies and min(turn.entropies) > 0 for turn in record.turns)
    place_T = mine.nonzero()[:, 0].tolist()
    assert [turn.value for turn in record.turns] == [place_T[0], place_T[2]], "V of the state before the turn"
    assert record.turns[0].advantages[0] != 0
    assert record.updates == 3
    for turn in record.turns:  # the first of three updates has a ratio of 1, and the others moved beyond the bounds
        good, bad = ((0, 2), (2, 0)) if turn.advantages[0] > 0 else ((2, 0), (0, 2))
        assert (turn.clipped_low, turn.clipped_high) == ((good[0],) * 2, (good[1],) * 2), bad


@pytest.mark.parametrize("fails", [False, True])
def test_observing_changes_nothing_and_sees_a_step_that_fails(fails: bool) -> None:
    played = grouped(conversation([Said((1,), (2 + n, 3), float(n))], group="g", name=str(n)) for n in range(3))
    models, seen = [Bigram(), Bigram()], list[Any]()
    for model, observe in zip(models, (None, lambda *given: seen.append(given)), strict=True):
        made = parts(model)
        if fails:
            made.learner.step = failing  # type: ignore[method-assign]
        with pytest.raises(DivergedError) if fails else nullcontext():
            iterate(config("grpo", epochs=3, group_size=3), made, played, version=1, observe=observe)
    assert len(seen) == 1
    assert torch.equal(models[0].table, models[1].table)
    assert not torch.equal(models[0].table, Bigram().table) or fails


def failing(*args: Any, **kwargs: Any) -> NoReturn:
    raise DivergedError("a fault")
