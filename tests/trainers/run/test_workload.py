"""A run that cannot fit its GPU is refused before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.errors import UsageError
from turnwise.inference.hardware import GPUS
from turnwise.trainers.options import configured, located
from turnwise.trainers.planning.memory import GIB, memory_of
from turnwise.trainers.planning.shapes import KNOWN
from turnwise.trainers.run import opening
from turnwise.trainers.run.workload import refuse_too_large, workload

from ..small import looping, run


class Card:
    name, total_memory, major = "NVIDIA H100 80GB HBM3", int(79.1 * GIB), 9


def planned(name: str, algorithm: str, *words: str, gpus: int = 1) -> Any:
    config = configured(algorithm, located(name), ["hardware.profile=h100", *words])
    return workload(config, KNOWN[Path(getattr(config, "model", "")).name], GPUS["h100"], gpus)


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Card)
    config = configured("loop", located("qwen3-0.6b-loop"), ["hardware.profile=h100", *words])
    return config.model_copy(update={"device": "cuda"})


def test_weights_and_optimizer_that_exceed_the_gpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_too_large(on_a_gpu(monkeypatch))
    with pytest.raises(
        UsageError, match=r"models/qwen3-4b needs .*the smallest change that fits: lora.rank=16"
    ) as said:
        refuse_too_large(on_a_gpu(monkeypatch, "model=models/qwen3-4b"))
    assert "\n" not in str(said.value)
    refuse_too_large(on_a_gpu(monkeypatch, "model=models/mine"))  # of unknown shape: try it


def test_the_refusal_comes_before_the_folder_and_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(config: object) -> None:
        raise UsageError("too large")

    monkeypatch.setattr(opening, "refuse_too_large", refuse)
    with pytest.raises(UsageError, match="too large"):
        run(looping(tmp_path / "run", tmp_path / "no-model"))
    assert not (tmp_path / "run").exists()


def test_a_cpu_is_not_judged(tmp_path: Path) -> None:
    refuse_too_large(looping(tmp_path / "run", tmp_path / "qwen2.5-72b"))


def test_what_a_configuration_holds_and_computes() -> None:
    loop = planned("qwen3-0.6b-loop", "loop")
    assert (loop.episodes, loop.policy.rows, loop.policy.learned) == (72, 72, 2.0)
    assert (loop.sampler.kind, loop.sampler.share, loop.alone) == ("engine", 0.4, True)
    assert (loop.policy.autocast, loop.policy.recompute, loop.policy.width) == (True, True, 4)
    assert loop.policy.fused
    eight = planned("qwen3-8b-loop-8gpu", "loop", gpus=8)
    assert (eight.learners, eight.sampling_gpus, eight.episodes) == (4, 4, 240)
    archer = planned("qwen3-0.6b-archer", "archer")
    assert archer.critic is not None
    assert not archer.policy.compiled, "adapters"
    assert not planned("qwen3-0.6b-archer", "archer", "optimizer.compiled=true").critic.compiled, "its layers never are"
    assert (archer.critic.rank, archer.critic.rows, archer.critic_copies) == (16, 50 * 256, 1)
    assert archer.policy.row_tokens == 2 * 5 * 128, "the context keeps four turns"
    assert archer.transfers == 3
    lora = planned("qwen3-4b-lora-loop", "loop")
    assert (lora.policy.rank, lora.policy.width) == (16, 2)
    assert memory_of(lora).always["optimizer"] == 8 * KNOWN["qwen3-4b"].adapters(16)
    ppo = configured("ppo", located("ppo-qwen-0.5b"))
    critic = workload(ppo, KNOWN["qwen2.5-0.5b"], GPUS["h100"], 1).critic
    assert critic is not None
    assert (critic.width, critic.autocast, critic.recompute, critic.judged) == (4, True, True, 0.0)


def test_more_gpus_than_can_learn_are_refused() -> None:
    with pytest.raises(UsageError, match=r"bc learns in one process, and here 8 GPUs would learn"):
        workload(configured("bc", located("bc-maze")), KNOWN["qwen3-0.6b"], GPUS["h100"], 8)
