"""The script of offline value learners: what learns and what stays, shipped configurations, resume to the last bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.config import load_config
from turnwise.errors import DivergedError
from turnwise.inference.models import load_model
from turnwise.inference.value_guided import ActionValues, ValueGuidedModel
from turnwise.rollouts.store import load_episodes
from turnwise.trainers import behavior_cloning, value_based
from turnwise.trainers.algorithms.ilql import ILQL
from turnwise.trainers.algorithms.monte_carlo import MonteCarlo
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.collect.demonstrations import encoded
from turnwise.trainers.critics.polyak import follow
from turnwise.trainers.critics.token_learning import TokenLearner
from turnwise.trainers.critics.token_steps import TokenSteps
from turnwise.trainers.learning.learner import OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.settings import AgentConfig
from turnwise.trainers.tracking.settings import TrackingConfig
from turnwise.trainers.value_based import ValueBasedConfig, guide

from . import small
from .test_resume import killed_and_resumed, same, state

CONFIGS = Path(__file__).parents[2] / "configs"


def configured(out: Path, start: Path | None, **changes: Any) -> ValueBasedConfig:
    settings: dict[str, Any] = {
        **small.SHARED,
        "out": str(out),
        "model": str(start) if start else None,
        "steps": 4,
        "batch": 32,
        "polyak": 0.2,
        "demonstrations": {"count": 12, "skills": [0.5]},
        "checkpoint_every": 2,
        "eval": {"split": "train", "episodes": 3, "every": 2},
    }
    return ValueBasedConfig.model_validate(settings | changes)


class Bench:
    """A cloned model, rows of its demonstrations, and a learner of values."""

    def __init__(self, cloned: Path, *, context: str = "last:1", **changes: Any) -> None:
        self.config = configured(Path("nowhere"), cloned / "model", **changes)
        model, tokenizer = load_model(cloned / "model")
        agent = AgentConfig(context=context, show_tools=False).agent(model, tokenizer)
        self.episodes = encoded(load_episodes(cloned / "demonstrations")[:5], agent, ())
        rows = pack(self.episodes)
        self.rows = rows.with_weight(normalizer(rows, "token_mean"))
        algorithm = self.config.algorithm
        self.steps = TokenSteps.of(self.episodes, rows, gamma=algorithm.gamma, per=algorithm.discount_per)
        self.online, self.model = guide(self.config, model)
        self.perturb(self.online, 1)
        self.perturb(self.model.values, 2)

    @staticmethod
    def perturb(values: ActionValues, seed: int) -> None:
        """Heads that are 0, as fresh ones are, would let no gradient through to what is under them."""
        draws = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in values.heads.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=draws))

    def learner(self, **options: Any) -> TokenLearner:
        return TokenLearner(
            self.model.policy,
            self.online,
            self.model.values,
            self.config.algorithm.loss,
            OptimizerConfig(**options),
            polyak=self.config.polyak,
            cloning=self.config.cloning,
        )


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


@pytest.mark.slow
def test_the_policy_stays_and_targets_follow_by_their_share(cloned: Path) -> None:
    bench = Bench(cloned)
    policy, target = weights(bench.model.policy), weights(bench.model.values)
    bench.learner().step(bench.rows, bench.steps)
    assert same(policy, weights(bench.model.policy)), "π_β is not touched"
    for name, after in bench.model.values.state_dict().items():
        expected = torch.lerp(target[name], bench.online.state_dict()[name], bench.config.polyak)
        assert torch.allclose(after, expected), name
    assert any(not torch.equal(target[name], x) for name, x in bench.model.values.state_dict().items())


def test_targets_of_a_16_bit_policy_follow_by_half_a_percent(cloned: Path) -> None:
    """In 16 bits they would not move at all: 0.005 of a small change is less than the distance between two numbers."""
    model, _ = load_model(cloned / "model", dtype=torch.bfloat16)
    online, guided = guide(configured(Path("nowhere"), cloned / "model"), model)
    with torch.no_grad():
        for parameter in online.parameters():
            parameter.mul_(1.01).add_(0.01)
    before = weights(guided.values)
    follow(guided.values, online, 0.005)
    for name, was in before.items():
        moved = (guided.values.state_dict()[name] - was).abs()
        assert (moved > 0).float().mean() > 0.99, name
    ids = torch.tensor([[1, 2, 3]])
    assert guided(input_ids=ids).logits.dtype == torch.float32
    assert {parameter.dtype for parameter in guided.policy.parameters()} == {torch.bfloat16}


def test_cloning_moves_the_policy_by_the_likelihood_alone(cloned: Path) -> None:
    bench = Bench(cloned, cloning=1.0)
    before = float(score(bench.model.policy, bench.rows).logp.detach().sum())
    values_only = Bench(cloned)
    for each in (bench, values_only):
        learner = each.learner(lr=1e-4, max_grad_norm=1e9)
        for _ in range(3):
            learner.step(each.rows, each.steps)
    assert float(score(bench.model.policy, bench.rows).logp.detach().sum()) > before
    for one, other in zip(bench.online.parameters(), values_only.online.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6), "with a backbone of their own, values do not see it"


def test_a_shared_backbone_learns_with_the_values(cloned: Path) -> None:
    bench = Bench(cloned, share_backbone=True)
    before = weights(bench.model.policy)
    bench.learner().step(bench.rows, bench.steps)
    after = weights(bench.model.policy)
    assert not torch.equal(before["model.layers.0.mlp.up_proj.weight"], after["model.layers.0.mlp.up_proj.weight"])
    assert torch.equal(before["lm_head.weight"], after["lm_head.weight"]), "no value reads the policy's last layer"


@pytest.mark.parametrize("algorithm", [{"name": "ilql"}, {"name": "monte_carlo"}])
def test_microbatches_change_nothing(cloned: Path, algorithm: dict[str, Any]) -> None:
    found = []
    for budget in (10**6, 64):
        bench = Bench(cloned, algorithm=algorithm)
        update = bench.learner(microbatch_tokens=budget).step(bench.rows, bench.steps)
        found.append((update.metrics["loss"], update.metrics["grad_norm"], weights(bench.online)))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-4)
    for name, one in found[0][2].items():
        assert torch.allclose(one, found[1][2][name], atol=2e-4), name


@pytest.mark.parametrize("context", ["last:1", "full"])
def test_estimates_are_what_plain_passes_say(cloned: Path, context: str) -> None:
    """Whether the successor stands in the same row or not, its V is that of the prompt that the policy then read."""
    bench = Bench(cloned, context=context)
    seen: list[tuple[Any, Any]] = []
    loss = bench.config.algorithm.loss

    def noted(estimates: Any, tokens: Any) -> Any:
        seen.append((estimates, tokens))
        return loss(estimates, tokens)

    learner = bench.learner(microbatch_tokens=10**6)
    learner.loss = noted
    states: list[tuple[int, ...]] = []  # the state before each sampled token, in the order of rows
    first = 0
    by_turn: dict[int, list[tuple[int, ...]]] = {}
    for episode in bench.episodes:
        for number, turn in enumerate(episode.turns, first):
            by_turn[number] = [turn.prompt_ids + turn.action_ids[:i] for i in range(len(turn.action_ids))]
        first += len(episode.turns)
    for number in dict.fromkeys(bench.rows.turn[bench.rows.mask].tolist()):
        states += by_turn[number]
    with torch.no_grad():
        heads, backbone = bench.online.heads, bench.online.backbone
        assert backbone is not None
        hidden = {s: backbone(input_ids=torch.tensor([s])).last_hidden_state[0, -1] for s in set(states)}
        v = {s: float(heads.state_values(hidden[s])) for s in hidden}
    learner.step(bench.rows, bench.steps)
    ((estimates, tokens),) = seen
    assert estimates.v_N.tolist() == pytest.approx([v[s] for s in states], abs=1e-4)
    after: dict[tuple[int, int], tuple[int, ...]] = {}
    first = 0
    for episode in bench.episodes:
        flat = [(number, i) for number in range(first, first + len(episode.turns)) for i in range(len(by_turn[number]))]
        for here, there in pairwise(flat):
            after[here] = by_turn[there[0]][there[1]]
        first += len(episode.turns)
    turns = bench.rows.turn[bench.rows.mask].tolist()
    place = [turns[:n].count(t) for n, t in enumerate(turns)]
    for n, key in enumerate(zip(turns, place, strict=True)):
        if key in after and tokens.discount_N[n] > 0:
            assert float(estimates.next_N[n]) == pytest.approx(v[after[key]], abs=1e-4)


def test_a_loss_that_is_not_finite_ends_the_run_with_the_batch_saved(cloned: Path, tmp_path: Path) -> None:
    bench = Bench(cloned)
    learner = bench.learner()
    learner.dump = tmp_path / "diverged.pt"
    before = weights(bench.online)
    broken = replace(bench.steps, reward_U=torch.full_like(bench.steps.reward_U, float("nan")))
    with pytest.raises(DivergedError, match=r"the loss is nan; the batch of \d+ tokens is saved as"):
        learner.step(bench.rows, broken)
    assert same(before, weights(bench.online))
    assert learner.dump.exists()


def test_the_first_updates_regress_on_returns_if_asked(cloned: Path) -> None:
    bench = Bench(cloned)
    learner, goals = bench.learner(), []
    learner.warmup = 2
    loss = learner.loss
    learner.loss = lambda estimates, tokens: (
        goals.append(tokens.reward_N + tokens.discount_N * estimates.next_N) or loss(estimates, tokens)  # type: ignore[func-returns-value]
    )
    for _ in range(3):
        learner.step(bench.rows, bench.steps)
    returns = bench.steps.tokens(bench.rows).return_N
    assert [torch.equal(goal, returns) for goal in goals] == [True, True, False]


def test_averaging_is_exact_and_none_where_the_two_are_one() -> None:
    one, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    expected = 0.75 * one.weight.detach() + 0.25 * other.weight.detach()
    follow(one, other, 0.25)
    assert torch.allclose(one.weight, expected)
    before = weights(other)
    follow(other, other, 0.25)
    assert same(before, weights(other))


@pytest.mark.parametrize(("name", "critics"), [("ilql", 2), ("monte_carlo", 1)])
@pytest.mark.slow
@pytest.mark.shift
def test_a_run_exports_a_guided_policy(tmp_path: Path, cloned: Path, name: str, critics: int) -> None:
    result = value_based.train(configured(tmp_path / "run", cloned / "model", algorithm={"name": name}, beta=3.0))
    model, _ = load_model(result.model)
    assert isinstance(model, ValueGuidedModel)
    assert (model.beta, len(model.values.heads.q)) == (3.0, critics)
    start, _ = load_model(cloned / "model")
    assert same(weights(start), weights(model.policy)), "π_β is the clone"
    assert [line["step"] for line in read_metrics(result.folder / "metrics.jsonl") if "eval/return" in line] == [
        0,
        2,
        4,
    ]
    again = value_based.train(configured(tmp_path / "more", result.model, steps=1, algorithm={"name": name}))
    further, _ = load_model(again.model)
    assert same(weights(further.policy), weights(model.policy)), "a guided model's policy can be started from"


@pytest.mark.slow
def test_a_model_can_be_built_and_cloned_while_values_learn(tmp_path: Path) -> None:
    nano = {"size": "0.1M", "layers": 1, "hidden": 32}
    config = configured(tmp_path / "run", None, nano=nano, cloning=1.0, steps=3)
    result = value_based.train(config)
    losses = [line["loss/bc"] for line in read_metrics(result.folder / "metrics.jsonl") if "loss/bc" in line]
    assert losses[-1] < losses[0]


def shrunken(name: str, kind: type[Any], tmp_path: Path, **changes: Any) -> Any:
    config = load_config(kind, CONFIGS / f"{name}.toml")
    small_ones: dict[str, Any] = {
        "out": str(tmp_path / name),
        "steps": 2,
        "batch": 8,
        "demonstrations": config.demonstrations.model_copy(update={"count": 3}),
        "nano": config.nano.model_copy(update={"layers": 1, "hidden": 32}),
        "eval": config.eval.model_copy(update={"episodes": 1}),
        "episodes": config.episodes.model_copy(update={"env_kwargs": {"max_turns": 5}}),
        "progress": False,
        "tracking": TrackingConfig(to=[]),
    }
    return config.model_copy(update=small_ones | changes)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("ilql-maze", ILQL), ("mc-maze", MonteCarlo)])
def test_shipped_configurations_train_for_two_updates(tmp_path: Path, name: str, kind: type[Any]) -> None:
    clone = behavior_cloning.train(shrunken("bc-maze", CloningConfig, tmp_path))
    config = shrunken(name, ValueBasedConfig, tmp_path, model=str(clone.model))
    assert isinstance(config.algorithm, kind)
    result = value_based.train(config)
    assert result.steps == 2
    assert isinstance(load_model(result.model)[0], ValueGuidedModel)


@pytest.mark.slow
def test_n_plus_m_steps_are_n_then_resume_then_m(tmp_path: Path, cloned: Path) -> None:
    value_based.train(configured(tmp_path / "straight", cloned / "model"))
    value_based.train(configured(tmp_path / "parts", cloned / "model", steps=2))
    torch.manual_seed(5)  # whatever this process did meanwhile
    value_based.train(configured(tmp_path / "parts", cloned / "model", resume=True))
    one, other = (state(tmp_path / name, "value_based") for name in ("straight", "parts"))
    assert one[0] == other[0]
    assert same(one[1][2]["kept"], other[1][2]["kept"]), "values, targets, optimizer"
    for name in ("values.safetensors", "value_guided.json"):
        assert (tmp_path / "straight/model" / name).read_bytes() == (tmp_path / "parts/model" / name).read_bytes()


@pytest.mark.slow
def test_beta_may_change_on_resume_and_nothing_that_is_learnt_may(tmp_path: Path, cloned: Path) -> None:
    value_based.train(configured(tmp_path / "run", cloned / "model", steps=2))
    result = value_based.train(configured(tmp_path / "run", cloned / "model", steps=3, beta=1.0, resume=True))
    assert load_model(result.model)[0].beta == 1.0
    with pytest.raises(Exception, match=r"polyak was 0\.2, now 0\.3"):
        value_based.train(configured(tmp_path / "run", cloned / "model", steps=4, polyak=0.3, resume=True))


@pytest.mark.shift
def test_trap_24_killed_at_random_points_it_is_bitwise_the_same_run(tmp_path: Path, cloned: Path) -> None:
    value_based.train(configured(tmp_path / "straight", cloned / "model", cloning=0.5))
    broken = configured(tmp_path / "broken", cloned / "model", cloning=0.5)
    killed_and_resumed(value_based.train, broken, [2, 5], seed=3)
    one, other = (state(tmp_path / name, "value_based") for name in ("straight", "broken"))
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert one[2] == other[2]


def test_rows_that_are_the_same_are_read_once(cloned: Path) -> None:
    bench = Bench(cloned)
    read: list[int] = []
    assert bench.online.backbone is not None
    bench.online.backbone.register_forward_pre_hook(
        lambda module, given, named: read.append(len(named["input_ids"])), with_kwargs=True
    )
    learner = bench.learner(microbatch_tokens=10**6)
    learner.step(bench.rows, bench.steps)
    distinct = len(set(_rows(bench.rows)))
    assert max(read) == distinct < int(bench.rows.row.max()) + 1


def _rows(rows: Rows) -> list[tuple[int, ...]]:
    return [tuple(rows.ids[rows.row == row].tolist()) for row in range(int(rows.row.max()) + 1)]
