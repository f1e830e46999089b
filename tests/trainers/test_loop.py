from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from turnwise.errors import CheckpointError, ModelError, UnknownEnvironmentError, UsageError
from turnwise.inference.models import load_model
from turnwise.trainers import loop
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.run_folder import RunFolder

from ..shifts import core_sample
from . import small
from .fakes import Bigram, Said, conversation


@pytest.mark.slow
def test_a_run_leaves_everything_a_person_needs(tmp_path: Path, cloned: Path) -> None:
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=2, tracking={"to": ["tensorboard"]}))
    assert {path.name for path in result.folder.iterdir()} == {
        "_end.json",
        "_lock",
        "config.json",
        "metrics.jsonl",
        "tensorboard",
        "checkpoints",
        "model",
    }
    model, tokenizer = load_model(result.model)
    assert sum(p.numel() for p in model.parameters()) > 1000
    assert tokenizer.chat_template
    lines = read_metrics(result.folder / "metrics.jsonl")
    assert [line["step"] for line in lines] == [0, 1, 2, 2], "an evaluation, two steps, an evaluation"
    assert {"return", "success", "kl_k1", "kl_k3", "clip_low", "clip_high", "ess", "ratio_p99"} <= lines[1].keys()
    assert {"entropy_turn", "staleness_max", "idle/learner", "tokens_per_second", "mismatch_p99"} <= lines[1].keys()
    assert lines[1]["mismatch_p99"] < 1e-4, "trainer and sampler agree on what was sampled"
    assert lines[1]["staleness_max"] == 0, "generation and training alternate"
    assert result.metrics["eval/episodes"] == 4


@pytest.mark.parametrize("level", core_sample(["turn", "trajectory"], 1, key="ratio levels"))
@pytest.mark.slow
def test_all_ratio_levels_run(tmp_path: Path, cloned: Path, level: str) -> None:
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, ratio_level=level))
    assert result.metrics["updates"] > 0


@pytest.mark.slow
def test_trap_17_the_trainer_scores_at_the_temperature_of_sampling(tmp_path: Path, cloned: Path) -> None:
    agent = {**small.SHARED["agent"], "temperature": 0.6}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, agent=agent))
    assert result.metrics["mismatch_p99"] < 1e-4, "at another temperature than 1 both sides still agree"


def test_groups_without_variance_are_counted_and_move_nothing() -> None:
    model = Bigram()
    config = loop.LoopConfig(env="none", model="none")
    groups = grouped(conversation([Said((1,), (2,), 1.0)], name=str(i)) for i in range(6))
    before = model.table.detach().clone()
    metrics = loop.iterate(config, Learner(model, OptimizerConfig()), groups, version=0)
    assert metrics["updates"] == 0
    assert metrics["updates_skipped"] == config.epochs
    assert metrics["filtered"] == 1.0
    assert bool((model.table == before).all())


def test_an_iteration_ends_when_the_policy_has_moved_too_far() -> None:
    groups = grouped(conversation([Said((1,), (2 + i,), float(i))], name=str(i)) for i in range(4))
    config = loop.LoopConfig(env="none", model="none", minibatch=2, epochs=3, max_kl=1e-4)
    metrics = loop.iterate(config, Learner(Bigram(), OptimizerConfig(lr=1.0)), groups, version=0)
    assert metrics["aborted"] == 1.0
    assert metrics["updates"] < 6


def test_an_iteration_on_nothing_is_no_error() -> None:
    metrics = loop.iterate(
        loop.LoopConfig(env="none", model="none"), Learner(Bigram(), OptimizerConfig()), [], version=0
    )
    assert metrics["updates"] == 0


@pytest.mark.slow
@pytest.mark.shift
def test_a_linear_schedule_ends_with_the_run(tmp_path: Path, cloned: Path) -> None:
    changes = {"optimizer": {"lr": 1e-3, "schedule": "linear"}, "steps": 4, "eval": {"episodes": 0}}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", **changes))
    rates = [line["lr"] for line in read_metrics(result.folder / "metrics.jsonl") if "lr" in line]
    assert rates == sorted(rates, reverse=True), "the rate falls"
    assert rates[-1] < 0.5e-3, f"and is near 0 in the last of 4 steps, whose mean is {rates[-1]}"
    assert small.looping(tmp_path, cloned, optimizer={"total": 7}).plan().optimizer.total == 7, "a named total stays"


@pytest.mark.slow
def test_bad_input_is_named_before_anything_is_written(tmp_path: Path, cloned: Path) -> None:
    with pytest.raises(ModelError, match="there is no model at"):
        small.run(small.looping(tmp_path / "a", tmp_path / "nothing"))
    with pytest.raises(UnknownEnvironmentError, match="MazeU-v0"):
        small.run(small.looping(tmp_path / "b", cloned / "model", env="turnwise/MazeUU-v0"))
    assert not (tmp_path / "b").exists()
    small.run(small.looping(tmp_path / "a", cloned / "model", steps=1))
    with pytest.raises(UsageError, match="holds a run already"):
        small.run(small.looping(tmp_path / "a", cloned / "model", steps=1))
    with pytest.raises(CheckpointError, match="group_size was 3, now 4"):
        small.run(small.looping(tmp_path / "a", cloned / "model", steps=1, group_size=4, resume=True))


@pytest.mark.slow
def test_a_resumed_run_goes_forward(tmp_path: Path, cloned: Path, caplog: pytest.LogCaptureFixture) -> None:
    small.run(small.looping(tmp_path / "a", cloned / "model", steps=2))
    with pytest.raises(UsageError, match="trained for 2 steps already, more than steps=1"):
        small.run(small.looping(tmp_path / "a", cloned / "model", steps=1, resume=True))
    shutil.rmtree(tmp_path / "a" / "checkpoints")
    with pytest.raises(CheckpointError, match="has 2 training steps, but its checkpoints are missing"):
        small.run(small.looping(tmp_path / "a", cloned / "model", steps=3, resume=True))
    shutil.rmtree(tmp_path / "a" / "model")
    (tmp_path / "a" / "metrics.jsonl").write_text('{"step": 1}\n')  # killed before its first checkpoint
    small.run(small.looping(tmp_path / "a", cloned / "model", steps=1, resume=True))
    assert "has no checkpoint yet: the run starts again" in caplog.text


@pytest.mark.slow
@pytest.mark.shift
def test_an_interrupted_collection_keeps_what_was_played(tmp_path: Path, cloned: Path) -> None:
    """Ctrl-C while episodes are played: those that are over wait in the checkpoint, and the run ends up the same."""
    straight = small.run(small.looping(tmp_path / "straight", cloned / "model", steps=2))
    config = small.looping(tmp_path / "broken", cloned / "model", steps=2, episodes={**small.SHARED["episodes"]})

    run = asyncio.run(
        small.stopped(loop.LoopTrainer, config, lambda run: run.step >= 1 and bool(run.collector.pending))
    )
    checkpoint = run.folder.checkpoints.latest()
    assert checkpoint.step == 1
    assert checkpoint.progress["cursor"] == config.tasks_per_step, (
        "the cursor is at what was trained, not at what was played"
    )
    assert checkpoint.pending.is_dir()
    resumed = small.run(config.model_copy(update={"resume": True}))
    assert (resumed.model / "model.safetensors").read_bytes() == (straight.model / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_continues(tmp_path: Path, cloned: Path) -> None:
    out = tmp_path / "run"
    steps = small.interrupted(out, cloned / "model")
    assert RunFolder(out, "loop").checkpoints.latest().step == steps, (
        "the step that was being learnt was finished and saved"
    )
