"""The configurations that are about the loss, and not about credit, run: two steps of each, on the smallest maze."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise.config import load_config
from turnwise.errors import CheckpointError
from turnwise.trainers import on_policy
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.run.metrics import read_metrics

from . import small

SMALL = (
    f"env={small.ENV}", "steps=2", "tasks_per_step=2", "group_size=4", "agent.show_tools=false",
    "episodes.env_kwargs.max_turns=12", "eval.episodes=0", "progress=false", "tracking.to=[]", "checkpoint_every=1",
)  # fmt: skip
REPORTED = {
    "grpo-empg-maze": {"updates"},
    "grpo-epo-maze": {"loss_entropy", "loss_band", "entropy_outside"},
    "grpo-gspo-maze": {"clip_low", "clip_high"},
    "grpo-cispo-maze": {"clip_high", "ess"},
    "reinforce-duration-maze": {"tis_share", "staleness_max"},
}


def shipped(name: str, folder: Path, model: Path, *words: str) -> OnPolicyConfig:
    path = Path(__file__).parents[2] / "configs" / f"{name}.toml"
    return load_config(OnPolicyConfig, path, [*SMALL, f'out="{folder}"', f'model="{model}"', *words])


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTED)
def test_it_runs_and_reports_what_it_is_about(name: str, tmp_path: Path, cloned: Path) -> None:
    result = on_policy.train(shipped(name, tmp_path / "run", cloned / "model"))
    assert result.steps == 2
    last = read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]
    assert last["updates"] >= 1
    assert set(last) >= REPORTED[name]


@pytest.mark.slow
def test_a_reference_that_changed_since_is_refused(tmp_path: Path, cloned: Path) -> None:
    """A resumed run would otherwise continue with another objective, unnoticed."""
    first = shipped("grpo-epo-maze", tmp_path / "run", cloned / "model", "loss.kl.coef=0.1")
    trained = on_policy.train(first).model
    aside = tmp_path / "aside"
    aside.symlink_to(cloned / "model")
    words = ("loss.kl.coef=0.1", f'loss.kl.reference="{aside}"')
    on_policy.train(shipped("grpo-epo-maze", tmp_path / "other", cloned / "model", *words))
    aside.unlink()
    aside.symlink_to(trained)
    with pytest.raises(CheckpointError, match="its weights have changed since"):
        on_policy.train(
            shipped("grpo-epo-maze", tmp_path / "other", cloned / "model", *words, "steps=3", "resume=true")
        )
