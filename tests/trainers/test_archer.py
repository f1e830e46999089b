from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from turnwise.config import load_config
from turnwise.envs.registry import find
from turnwise.errors import CheckpointError, DivergedError, UsageError
from turnwise.trainers import archer
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.algorithms.doubly_robust import Outcomes, outcomes
from turnwise.trainers.archer_doubly_robust import update
from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.collect.resample import fresh_utterances
from turnwise.trainers.critics.replay import Replay
from turnwise.trainers.critics.transitions import transitions
from turnwise.trainers.learning.utterances import Utterance, pack_utterances
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.run.metrics import Stopwatch, read_metrics
from turnwise.trainers.run.opening import open_run
from turnwise.trainers.run.run import Run

from ..shifts import core_sample
from . import small
from .critics.turns import step
from .test_resume import finish as to_the_end
from .test_resume import killed_and_resumed, same, state

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("archer-*maze*.toml"))
"""Configurations of other environments run for two updates in ``test_configs``, where they belong."""
CRITIC: dict[str, Any] = {"encoder": {"hidden": 8, "layers": 1, "heads": 1, "intermediate": 8}, "head": 8}


def config(out: Path, model: Path, **changes: Any) -> ArcherConfig:
    settings: dict[str, Any] = {
        **small.SHARED,
        "out": str(out),
        "model": str(model),
        "steps": 3,
        "episodes_per_step": 3,
        "critic_steps": 2,
        "actor_steps": 2,
        "batch": 8,
        "warmup": 1,
        "critic_model": CRITIC,
        "checkpoint_every": 1,
        "eval": {"split": "train", "episodes": 2, "every": 0},
    }
    return ArcherConfig.model_validate(settings | changes)


def weights(result: RunResult) -> bytes:
    return (result.model / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_the_critic_learns_first_and_the_actor_after_the_warm_up(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[int] = []

    def judged(own: Any, config: Any, parts: Any, turns: Any) -> dict[str, float]:
        learned.append(parts.critic.updates)
        return cast("dict[str, float]", own(config, parts, turns))

    monkeypatch.setattr(archer, "foresight", partial(judged, archer.foresight))
    settings = config(tmp_path / "run", cloned / "model")
    result = archer.train(settings)
    first, second, third = (line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line)
    assert learned == [step * settings.critic_steps for step in range(3)], (
        "V foretells episodes it has not learned from"
    )
    assert {
        "critic/explained",
        "critic/loss",
        "critic/q",
        "critic/v",
        "critic/grad_norm",
        "fresh/cut",
        "replay/size",
    } <= first.keys()
    assert "updates" not in first, "only the critic learns in the warm-up"
    assert second["updates"] == third["updates"] == 2
    assert {"advantage", "advantage_std", "entropy", "grad_norm", "mismatch_p99"} <= second.keys()
    assert second["mismatch_p99"] < 1e-4, "fresh utterances are those of the present policy, at every actor step"
    assert third["replay/size"] > first["replay/size"], "the replay holds the turns of earlier steps"
    assert third["replay/dropped"] == 0
    assert weights(result) != (cloned / "model" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_linear_schedule_of_the_critic_ends_with_the_run(tmp_path: Path, cloned: Path) -> None:
    """Its rate was constant, since no setting gave the end."""
    critic = {**CRITIC, "optimizer": {"lr": 1e-3, "schedule": "linear"}}
    archer.train(config(tmp_path / "run", cloned / "model", steps=2, critic_model=critic))
    kept = state(tmp_path / "run", "archer")[1][2]["kept"]["critic"]
    assert kept["updates"] == 4
    assert kept["optimizer"]["param_groups"][0]["lr"] == pytest.approx(1e-3 / 4), "the last of four updates"


def test_updates_of_a_pretraining_count_in_the_critics_schedule() -> None:
    scheduled = config(Path("run"), Path("model"), critic_pretraining={"updates": 10}).critic_settings()
    assert scheduled.optimizer.total == 10 + 3 * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    core_sample(
        [
            {"actor": "ppo", "epochs": 2},
            {"actor": "doubly_robust", "epochs": 1, "loss": {"max_kl": None}},
            {"actor": "awr", "critic": "iql"},
            {"critic": "mc", "min_target": True},
            {"td_lambda": 0.9, "critic_model": {**CRITIC, "histogram": {"low": -60, "high": 10}}},
            {
                "td_steps": 3,
                "critic_model": {**CRITIC, "encoder": {**CRITIC["encoder"], "kind": "causal"}},
                "fresh_per_state": 1,
            },
            {"loss": {"kl": {"coef": 0.1}, "entropy_coef": 0.01}, "critic": "mc"},
            {"baseline": "token", "values": {"init": "nano", "nano": {"size": "0.1M", "layers": 1, "hidden": 16}}},
        ],
        3,
        key="kinds of ArCHer",
        ids=[
            "ppo",
            "doubly robust",
            "iql+awr",
            "mc",
            "TD(λ), HL-Gauss",
            "n steps, causal, shared",
            "kl",
            "token baseline",
        ],
    ),
)
def test_every_kind_of_critic_and_actor_runs(tmp_path: Path, cloned: Path, changes: dict[str, Any]) -> None:
    result = archer.train(config(tmp_path / "run", cloned / "model", steps=2, replay=20, **changes))
    (first, second) = (line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line)
    assert second["updates"] == 2 * changes.get("epochs", 1), "PPO updates several times on one batch"
    assert ("fresh/cut" in first) == (changes.get("critic") is None), "no utterance is sampled that nobody needs"
    assert second["replay/size"] <= 20
    assert second["replay/dropped"] > 0, "what had to go is counted"


@pytest.mark.slow
def test_offline_nothing_is_played_and_the_actor_learns(tmp_path: Path, cloned: Path) -> None:
    offline = {"mode": "offline", "critic": "iql", "actor": "awr", "warmup": 0, "episodes_per_step": 99}
    demonstrations = {"count": 4, "skills": [0.5]}
    result = archer.train(config(tmp_path / "run", cloned / "model", **offline, demonstrations=demonstrations))
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "critic/loss" in line]
    assert [line["replay/size"] for line in lines] == [lines[0]["replay/size"]] * 3, "filled once"
    assert all("return" not in line and line["updates"] == 2 for line in lines)
    assert {"awr_capped", "advantage_std"} <= lines[0].keys()
    again = config(tmp_path / "run", cloned / "model", **offline, demonstrations=demonstrations).model_copy(
        update={"steps": 4, "resume": True}
    )
    assert archer.train(again).metrics["replay/size"] == lines[0]["replay/size"], "and not again on resume"


@pytest.mark.slow
def test_the_critic_learns_from_demonstrations_before_the_first_step(tmp_path: Path, cloned: Path) -> None:
    wanted = {"critic_pretraining": {"updates": 5, "keep": True}, "demonstrations": {"count": 4, "skills": [0.5]}}
    result = archer.train(config(tmp_path / "run", cloned / "model", steps=1, **wanted))
    (first,) = (line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line)
    kept = state(tmp_path / "run", "archer")[1][2]["kept"]
    assert kept["critic"]["updates"] == 5 + 2, "and two of the first step"
    assert first["pretraining/updates"] == 5
    assert first["pretraining/q_loss"] > 0
    assert first["replay/size"] > first["pretraining/turns"], "the demonstrations are still there"
    assert kept["replay"]["transitions"]["version"][0] == -1
    again = archer.train(config(tmp_path / "run", cloned / "model", steps=2, resume=True, **wanted))
    second = [line for line in read_metrics(again.folder / "metrics.jsonl") if "return" in line][1]
    assert "pretraining/updates" not in second, "only once"
    assert state(tmp_path / "run", "archer")[1][2]["kept"]["critic"]["updates"] == 5 + 4


@pytest.mark.slow
def test_an_interrupted_pretraining_goes_on_where_it_stopped(tmp_path: Path, cloned: Path) -> None:
    wanted = {"critic_pretraining": {"updates": 5, "keep": True}, "demonstrations": {"count": 4, "skills": [0.5]}}
    straight = archer.train(config(tmp_path / "straight", cloned / "model", steps=1, **wanted))
    broken = config(tmp_path / "broken", cloned / "model", steps=1, **wanted)

    def pretraining(run: Run) -> bool:
        return bool(run.state.parts["critic"].state_dict()["updates"] == 3)

    run = asyncio.run(small.stopped(archer.ArcherTrainer, broken, pretraining))
    stopped = run.folder.checkpoints.latest()
    assert (stopped.step, stopped.tensors["kept"]["critic"]["updates"]) == (0, 3)
    resumed = archer.train(broken.model_copy(update={"resume": True}))
    assert weights(resumed) == weights(straight)
    kept = [state(tmp_path / name, "archer")[1][2]["kept"] for name in ("straight", "broken")]
    assert same(*kept), "all updates, and the demonstrations in the replay"


@pytest.mark.slow
def test_kept_demonstrations_of_another_run_are_no_recent_turns(tmp_path: Path, cloned: Path) -> None:
    """Their ids may be those that its policy sampled, with its versions."""
    first = config(tmp_path / "first", cloned / "model", steps=2, keep_episodes="all")
    store = archer.train(first).folder / "training_episodes"
    stored = {"store": str(store), "sampled_ids": True}
    wanted = {"critic_pretraining": {"updates": 1, "keep": True}, "demonstrations": stored}
    archer.train(config(tmp_path / "second", cloned / "model", steps=1, **wanted))
    versions = state(tmp_path / "second", "archer")[1][2]["kept"]["replay"]["transitions"]["version"]
    assert set(versions.tolist()) == {-1, 0}, "one step of its own"


@pytest.mark.slow
@pytest.mark.shift
def test_pretraining_teaches_the_critic_the_value_of_demonstrations(tmp_path: Path, cloned: Path) -> None:
    wanted: dict[str, Any] = {"demonstrations": {"count": 8, "skills": [0.5]}, "critic_model": {"head": 8}}
    losses = []
    for updates in (20, 200):
        settings = {**wanted, "critic_pretraining": {"updates": updates}}
        out = tmp_path / str(updates)
        archer.train(config(out, cloned / "model", steps=1, **settings))
        losses.append(
            next(line for line in read_metrics(out / "metrics.jsonl") if "return" in line)["pretraining/v_loss"]
        )
    assert losses[1] < 0.7 * losses[0]


def test_demonstrations_that_do_not_fit_are_an_error_and_not_cut(tmp_path: Path, cloned: Path) -> None:
    few = config(tmp_path / "run", cloned / "model", mode="offline", replay=5, demonstrations={"count": 4})
    with pytest.raises(
        UsageError, match=r"demonstrations have \d+ turns, and the replay has room for 5: .*set replay="
    ):
        archer.train(few)


@pytest.mark.slow
def test_trap_24_n_plus_m_steps_are_n_then_resume_then_m(tmp_path: Path, cloned: Path) -> None:
    archer.train(config(tmp_path / "straight", cloned / "model", steps=4))
    archer.train(config(tmp_path / "parts", cloned / "model", steps=2))
    random.seed(5)  # whatever this process did meanwhile
    torch.manual_seed(5)
    archer.train(config(tmp_path / "parts", cloned / "model", steps=4, resume=True))
    one, other = state(tmp_path / "straight", "archer"), state(tmp_path / "parts", "archer")
    assert one[0] == other[0], "the weights, to the last bit"
    assert same(one[1][2], other[1][2]), "optimizers, generators, critic, slow copy and replay"
    assert {"critic", "replay"} == one[1][2]["kept"].keys()
    trained = [[line for line in logged if "return" in line] for logged in (one[2], other[2])]
    assert trained[0] == trained[1]


@pytest.mark.shift
def test_trap_24_killed_at_random_points_it_is_bitwise_the_same_run(tmp_path: Path, cloned: Path) -> None:
    to_the_end(archer.train, config(tmp_path / "straight", cloned / "model", steps=5))
    killed_and_resumed(archer.train, config(tmp_path / "broken", cloned / "model", steps=5), [1, 3, 4], seed=2)
    one, other = state(tmp_path / "straight", "archer"), state(tmp_path / "broken", "archer")
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert one[2] == other[2]


def halfway(run: Run) -> bool:
    """Whether the critic has learned in the second step, and the actor has not."""
    critic: Any = run.state.parts.get("critic")
    return critic is not None and critic.state_dict()["updates"] == 4


@pytest.mark.slow
@pytest.mark.shift
def test_an_interruption_while_learning_waits_for_the_end_of_the_step(tmp_path: Path, cloned: Path) -> None:
    """Ctrl-C between the critic and the actor, while utterances are sampled: the step is finished, and then saved."""
    straight = archer.train(config(tmp_path / "straight", cloned / "model"))
    broken = config(tmp_path / "broken", cloned / "model")

    run = asyncio.run(small.stopped(archer.ArcherTrainer, broken, halfway))
    checkpoint = run.folder.checkpoints.latest()
    assert (checkpoint.step, checkpoint.tensors["kept"]["critic"]["updates"]) == (2, 4), (
        "a whole step, never half of one"
    )
    assert not checkpoint.pending.is_dir(), "what was learnt from does not wait to be learnt from again"
    resumed = archer.train(broken.model_copy(update={"resume": True}))
    assert weights(resumed) == weights(straight)


@pytest.mark.slow
def test_of_a_step_that_was_torn_nothing_is_kept(tmp_path: Path, cloned: Path) -> None:
    """A second Ctrl-C, outside of a command: the event loop is closed before the actor has learned."""
    broken = config(tmp_path / "broken", cloned / "model")

    def all_tasks(task: asyncio.Task[None]) -> None:
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()

    run = asyncio.run(small.stopped(archer.ArcherTrainer, broken, halfway, all_tasks))
    assert run.folder.checkpoints.latest().step == 1, "the last one that was whole"
    straight = archer.train(config(tmp_path / "straight", cloned / "model"))
    assert weights(archer.train(broken.model_copy(update={"resume": True}))) == weights(straight)


@pytest.mark.slow
def test_an_empty_replay_is_told_and_nothing_is_lost(tmp_path: Path, cloned: Path) -> None:
    late = {**small.SHARED["episodes"], "turn_timeout": 1e-9}  # the policy fails every episode
    with pytest.raises(UsageError, match="the replay is empty"):
        archer.train(config(tmp_path / "run", cloned / "model", episodes=late, eval={"episodes": 0}))
    mended = config(tmp_path / "run", cloned / "model", eval={"episodes": 0})
    assert archer.train(mended).steps == 3, "the folder is as good as new"


@pytest.mark.slow
def test_a_checkpoint_without_a_critic_is_refused(tmp_path: Path, cloned: Path) -> None:
    archer.train(config(tmp_path / "run", cloned / "model", steps=1))
    changed = config(tmp_path / "run", cloned / "model", steps=2, resume=True, baseline="token")
    with pytest.raises(CheckpointError, match="baseline was 'none', now 'token'"):
        archer.train(changed)

    async def resumed() -> None:
        async with open_run(config(tmp_path / "run", cloned / "model", steps=2, resume=True)) as run:
            run.state.keep("baseline", Replay(1))

    with pytest.raises(CheckpointError, match="holds no baseline"):
        asyncio.run(resumed())
    with pytest.raises(CheckpointError, match="holds a run of 'archer', not 'loop'"):
        small.run(small.looping(tmp_path / "run", cloned / "model", resume=True))


@pytest.mark.slow
def test_a_critic_that_diverges_saves_its_batch(tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(episode: Any, gamma: float) -> Any:
        return [replace(each, reward=float("inf"), mc_return=0.0) for each in transitions(episode, gamma)]

    monkeypatch.setattr(archer, "transitions", poisoned)
    with pytest.raises(DivergedError, match=r"critic's loss is (inf|nan).*diverged\.pt"):
        archer.train(config(tmp_path / "run", cloned / "model"))
    saved = torch.load(tmp_path / "run" / "diverged.pt", weights_only=True)
    assert len(saved["transitions"]["reward"]) == len(saved["fresh_actions"]) == 8


class Judge:
    """A critic that likes utterances that begin with one token."""

    def __init__(self, liked: int) -> None:
        self.liked = liked

    def advantage(self, states: Any, actions: Any) -> torch.Tensor:
        return torch.tensor([1.0 if action[0] == self.liked else -1.0 for action in actions])


@pytest.mark.parametrize("actor", ["reinforce", "ppo", "awr"])
async def test_the_actor_does_what_the_critic_likes(tmp_path: Path, cloned: Path, actor: str) -> None:
    settings = config(tmp_path / "run", cloned / "model", actor=actor, beta=0.3, optimizer={"lr": 1e-2})
    async with open_run(settings) as run:
        liked, other = 5, 6
        judge: Any = Judge(liked)
        parts = archer.Hierarchy(judge, ArcherRule(), Replay(10))
        pairs = [((1, 2, 3), (liked, 0)), ((1, 2, 3), (other, 0))]

        def likelihoods() -> list[float]:
            rows = pack_utterances([Utterance(p, a, (0.0, 0.0)) for p, a in pairs])
            return run.learner.logprobs(rows).view(2, -1).sum(-1).tolist()

        before = likelihoods()
        for _ in range(3):
            if actor == "awr":
                archer.imitate(settings, run, parts, [step(p, a) for p, a in pairs])
            else:
                archer.reinforce(settings, run, parts, [Utterance(p, a, (0.0, 0.0)) for p, a in pairs])
        after = likelihoods()
    gained = [new - old for new, old in zip(after, before, strict=True)]
    assert gained[0] > 0
    assert gained[0] > gained[1]
    if actor != "awr":
        assert gained[1] < 0, "what the critic dislikes becomes rarer"


async def test_the_doubly_robust_actor_follows_outcomes_and_not_a_critic_that_contradicts_them(
    tmp_path: Path, cloned: Path
) -> None:
    good, bad, state = 5, 6, (1, 2, 3)
    settings = config(tmp_path / "run", cloned / "model", actor="doubly_robust", optimizer={"lr": 1e-2}, epochs=1)
    assert (settings.utterances, settings.centered, settings.loss.max_kl) == (4, "state", 0.1)

    class Contrary(Judge):
        def v(self, states: Any) -> torch.Tensor:
            return torch.zeros(2, len(states))

    async with open_run(settings) as run:
        judge: Any = Contrary(bad)

        def likelihoods() -> list[float]:
            rows = pack_utterances([Utterance(state, (first, 0), (0.0, 0.0)) for first in (good, bad)])
            return run.learner.logprobs(rows).view(2, -1).sum(-1).tolist()

        before = likelihoods()
        chances = [
            run.learner.logprobs(pack_utterances([Utterance(state, (first, 0), (0.0, 0.0))])) for first in (5, 6)
        ]
        turns = [
            replace(step(state, (first, 0), paid), logprobs=tuple(logp.tolist()[-2:]))
            for first, paid, logp in zip((good, bad), (3.0, -3.0), chances, strict=True)
        ]
        fresh = tuple(Utterance(state, (first, 0), (0.0, 0.0)) for first in (good, bad))
        found = outcomes(turns, judge, gamma=0.9, lam=0.95)
        assert found.control_N.tolist() == [-1, 1]
        (made,) = update(settings, run, judge, None, found, [0, 1], fresh)
        after = likelihoods()
    assert made.stepped
    assert made.metrics["ratio_mean"] == pytest.approx(1, abs=1e-4), "as sampled, by both"
    assert after[0] - before[0] > after[1] - before[1], "3 + 1 of the outcome against −1 of the critic"


async def test_every_state_has_its_own_share_of_the_control_variate(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(
        tmp_path / "run", cloned / "model", actor="doubly_robust", centered="none", utterances=2, epochs=1
    )
    states = ((1, 2, 3), (3, 2, 1))
    turns = tuple(replace(step(state, (5, 0), 0.0), logprobs=(-1.0, -1.0)) for state in states)
    found = Outcomes(turns, torch.zeros(2), torch.tensor([10.0, 20.0]), torch.tensor([0.25, 1.0]))
    fresh = tuple(Utterance(state, (first, 0), (-1.0, -1.0)) for state in reversed(states) for first in (5, 6))
    paid: list[Any] = []
    async with open_run(settings) as run:
        stepped = run.learner.step

        def step_and_keep(rows: Any, *rest: Any, **options: Any) -> Any:
            paid.append(rows)
            return stepped(rows, *rest, **options)

        monkeypatch.setattr(run.learner, "step", step_and_keep)
        update(settings, run, cast(Any, Judge(5)), None, found, [1, 0], fresh)
    (rows,) = paid
    firsts = [rows.advantage[(rows.episode == place) & rows.mask][0].item() / 2 for place in range(6)]
    assert firsts == [-20.0, -2.5, 1.0, -1.0, 0.25, -0.25], "recorded turns as drawn, then two fresh ones of each"


async def test_centered_advantages_are_those_of_a_critic_without_offset(tmp_path: Path, cloned: Path) -> None:
    class Shifted(Judge):
        def advantage(self, states: Any, actions: Any) -> torch.Tensor:
            return super().advantage(states, actions) + 7.0

    async def trained(name: str, judge: Any, centered: str) -> dict[str, Any]:
        settings = config(tmp_path / name, cloned / "model", centered=centered, optimizer={"lr": 1e-2})
        async with open_run(settings) as run:
            said = [Utterance((1, 2, 3), (first, 0), (0.0, 0.0)) for first in (5, 6)]
            archer.reinforce(settings, run, archer.Hierarchy(judge, ArcherRule(), Replay(10)), said)
            found: dict[str, Any] = run.model.state_dict()
            return found

    plain, shifted = await trained("a", Judge(5), "none"), await trained("b", Shifted(5), "batch")
    assert all(torch.allclose(plain[name], shifted[name], atol=1e-4) for name in plain)
    uncentered = await trained("c", Shifted(5), "none")
    assert not all(torch.allclose(plain[name], uncentered[name], atol=1e-3) for name in plain)


async def test_merged_utterances_have_the_gradient_of_all(tmp_path: Path, cloned: Path) -> None:
    said = [Utterance((1, 2, 3), (first, 0), (0.0, 0.0)) for first in (5, 6, 5, 5, 6, 7)]
    said.append(Utterance((1, 2), (5, 0), (0.0, 0.0)))

    async def learned(name: str, merged: bool) -> tuple[Any, dict[str, Any]]:
        entropy = {"entropy_coef": 0.1}  # a part of the loss that is not multiplied by an advantage
        settings = config(
            tmp_path / name,
            cloned / "model",
            centered="state",
            optimizer={"lr": 1e-2},
            loss=entropy,
            merge_equal=merged,
        )
        async with open_run(settings) as run:
            judge: Any = Judge(5)
            (made,) = archer.reinforce(settings, run, archer.Hierarchy(judge, ArcherRule(), Replay(10)), said)
            return made, run.model.state_dict()

    (all_of_them, plain), (merged, same) = await learned("a", False), await learned("b", True)
    assert merged.metrics["grad_norm"] == pytest.approx(all_of_them.metrics["grad_norm"], rel=1e-4)
    assert all(torch.allclose(plain[name], same[name], atol=1e-4) for name in plain)


@pytest.mark.parametrize("actor", ["ppo", "doubly_robust"])
async def test_before_any_update_the_unit_of_a_ratio_changes_nothing(tmp_path: Path, cloned: Path, actor: str) -> None:
    """A ratio of 1 is 1 in any unit; utterances of different lengths keep their weights."""
    lengths = ((5, 0), (6, 7, 5, 0))

    async def norm(name: str, **loss: Any) -> float:
        settings = config(tmp_path / name, cloned / "model", actor=actor, epochs=1, centered="none", loss=loss)
        async with open_run(settings) as run:
            judge: Any = Judge(5)
            said = tuple(Utterance((1, 2, 3), each, (0.0,) * len(each)) for each in lengths)
            logps = [run.learner.logprobs(pack_utterances([each])).tolist()[3:] for each in said]
            if actor == "ppo":
                (made,) = archer.reinforce(settings, run, archer.Hierarchy(judge, ArcherRule(), Replay(10)), said)
            else:
                turns = tuple(
                    replace(step((1, 2, 3), each, 0.0), logprobs=tuple(logp))
                    for each, logp in zip(lengths, logps, strict=True)
                )
                found = Outcomes(turns, torch.tensor([3.0, -2.0]), torch.tensor([1.0, -1.0]), torch.ones(2))
                (made,) = update(settings, run, judge, None, found, [0, 1], said)
            return made.metrics["grad_norm"]

    token = await norm("token")
    assert await norm("turn", ratio_level="turn") == pytest.approx(token, rel=1e-4)
    geometric = await norm("geometric", ratio_level="turn", length_normalized=True, clip_low=3e-4, clip_high=4e-4)
    assert geometric == pytest.approx(token, rel=1e-4)


@pytest.mark.parametrize("changes", [{"actor": "ppo"}, {"baseline": "token"}], ids=str)
def test_utterances_are_merged_only_where_advantages_add_up(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="merge_equal adds up advantages"):
        ArcherConfig.model_validate({"env": "e", "model": "m", "merge_equal": True, **changes})


@pytest.mark.parametrize("centered", ["none", "batch", "state"])
async def test_a_token_baseline_is_fitted_to_what_it_is_taken_off(tmp_path: Path, cloned: Path, centered: str) -> None:
    """Fitted to uncentered values, it would put back the offset that centering removes."""
    fitted: list[torch.Tensor] = []

    class Baseline:
        def values(self, rows: Any) -> torch.Tensor:
            return torch.zeros(len(rows))

        def fit(self, rows: Any, target_T: torch.Tensor) -> dict[str, float]:
            fitted.append(target_T[rows.mask])
            return {}

    settings = config(tmp_path / "run", cloned / "model", centered=centered)
    async with open_run(settings) as run:
        said = [Utterance((1, 2, 3), (first, 0), (0.0, 0.0)) for first in (5, 6)]
        judge, baseline = Judge(5), Baseline()
        parts = archer.Hierarchy(judge, ArcherRule(), Replay(10), baseline)  # type: ignore[arg-type]
        archer.reinforce(settings, run, parts, said)
    a = {"none": 1.0, "batch": 1.0, "state": 2.0}[centered]
    assert fitted[0].tolist() == [a, a, -a, -a]


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_configuration_runs_for_two_updates(tmp_path: Path, cloned: Path, path: Path) -> None:
    shrunk = [
        "steps=2",
        "warmup=0",
        "episodes_per_step=2",
        "critic_steps=1",
        "actor_steps=1",
        "batch=4",
        "progress=false",
    ]
    shrunk += ["tracking.to=[]", "eval.episodes=0", "demonstrations.count=3", f"out={tmp_path / 'run'}"]
    shrunk += [
        f"model={cloned / 'model'}",
        f"env={small.ENV}",
        "episodes.env_kwargs.max_turns=12",
        "agent.show_tools=false",
    ]
    config = load_config(ArcherConfig, path, shrunk)
    find(load_config(ArcherConfig, path).env)
    result = archer.train(config)
    assert (result.steps, result.metrics["updates"]) == (2, 1)
    assert result.metrics["critic/grad_norm"] > 0


def test_numbers_that_make_no_sense_are_refused() -> None:
    for setting in ("episodes_per_step", "replay", "batch", "critic_steps", "actor_steps", "epochs"):
        with pytest.raises(ValueError, match=setting):
            ArcherConfig.model_validate({"env": "e", "model": "m", setting: 0})
    for setting, value in {"gamma": 1.01, "expectile": 1.0, "beta": 0.0, "critic": "sarsa", "actor": "none"}.items():
        with pytest.raises(ValueError, match=setting):
            ArcherConfig.model_validate({"env": "e", "model": "m", setting: value})


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"td_lambda": 0.5, "td_steps": 2}, "two ways to look ahead"),
        ({"critic": "mc", "td_lambda": 0.5}, "no effect with it"),
        ({"critic": "iql", "critic_model": {"histogram": {"low": 0, "high": 1}}}, "choose critic = td or mc"),
        ({"mode": "offline", "critic_pretraining": {}}, "leave out critic_pretraining"),
        (
            {"critic_pretraining": {"critic": "iql"}, "critic_model": {"histogram": {"low": 0, "high": 1}}},
            "has no targets for critic_model.histogram",
        ),
        ({"critic_model": {"histogram": {"low": 1, "high": 1}}}, "low = 1 must be below high = 1"),
    ],
    ids=str,
)
def test_targets_that_contradict_each_other_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ArcherConfig.model_validate({"env": "e", "model": "m", **settings})


def test_a_critic_without_fresh_utterances_shares_none() -> None:
    with pytest.raises(ValueError, match="the critic iql samples no utterances: leave out fresh_per_state"):
        ArcherConfig.model_validate({"env": "e", "model": "m", "critic": "iql", "fresh_per_state": 4})


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": {"kl": {"coef": 0.1, "where": "reward"}}},
        {"loss": {"smoothing": {}}},
        {"actor": "awr", "loss": {"clip_low": 0.1}},
        {"actor": "awr", "baseline": "token"},
        {"actor": "ppo", "doubly_robust": {"lam": 0.5}},
        {"actor": "doubly_robust", "mode": "offline"},
        {"actor": "doubly_robust", "baseline": "token"},
        {"actor": "doubly_robust", "batch": 4},
        {"actor": "doubly_robust", "loss": {"kind": "reinforce"}},
    ],
    ids=str,
)
def test_what_would_have_no_effect_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"ArCHer's actor|the actor awr|doubly_robust"):
        ArcherConfig.model_validate({"env": "e", "model": "m", **settings})


async def test_every_batch_of_fresh_utterances_is_of_the_policy_as_it_is_then(
    tmp_path: Path, cloned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here learner and policy share their weights; where they do not, what was not sent would be sampled from."""
    settings = config(tmp_path / "run", cloned / "model", actor_steps=3, batch=4)
    happened: list[str] = []

    class Recording:
        async def send(self, version: int) -> None:
            happened.append("sent")

    async def fresh(*args: Any) -> Any:
        happened.append("sampled")
        return await fresh_utterances(*args)

    replay = Replay(10)
    replay.add([step((1, 2, 3), (5, 0))])
    async with open_run(settings) as run:
        run = replace(run, weights=Recording())
        monkeypatch.setattr(archer, "fresh_utterances", fresh)
        judge: Any = Judge(5)
        await archer.learn_actor(settings, run, archer.Hierarchy(judge, ArcherRule(), replay), Stopwatch())
    assert happened == ["sampled", "sent"] * 3
