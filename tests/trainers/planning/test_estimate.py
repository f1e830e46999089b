"""Estimates move as they must, and the smallest change that fits is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from turnwise.errors import UsageError
from turnwise.inference.hardware import GPUS
from turnwise.trainers.planning.calibration import NOTHING, Calibration, _updates, calibration
from turnwise.trainers.planning.estimate import _larger, change_that_fits, estimate
from turnwise.trainers.planning.memory import GIB, memory_of
from turnwise.trainers.planning.shapes import KNOWN
from turnwise.trainers.planning.speed import learning_seconds
from turnwise.trainers.planning.workload import Sampler, Workload

from .test_memory import PASSES, loaded

ENGINE = Sampler("engine", 1, 0.4, 256, 16_384, False, 262_144, 262_144)


def of(name: str, **changes: object) -> Workload:
    return loaded(policy=replace(PASSES, shape=KNOWN[name]), **changes)


def test_a_step_of_loop_takes_what_was_calculated_by_hand() -> None:
    """64 episodes of 8,192 tokens, two epochs and one scoring pass: 39 s, and 77 s of play with graphs."""
    found = estimate(loaded(policy=replace(PASSES, recompute=False), sampler=ENGINE))
    assert found.seconds["learn"] == pytest.approx(39, rel=0.25)
    assert found.seconds["play"] == pytest.approx(77, rel=0.25)
    assert found.seconds["sync"] < 3
    assert found.step_seconds == pytest.approx(sum(found.seconds.values()))
    assert found.learned_per_second == pytest.approx(31_000, rel=0.35)
    assert found.dollars(3.6) == pytest.approx(found.step_seconds / 1000)


def test_estimates_move_as_they_must() -> None:
    plain = estimate(loaded(sampler=ENGINE))
    assert estimate(loaded(sampler=ENGINE, gpu=GPUS["a100"])).step_seconds > plain.step_seconds
    without = estimate(loaded(sampler=ENGINE, policy=replace(PASSES, recompute=False)))
    assert without.seconds["learn"] < plain.seconds["learn"]
    assert without.memory.peak > plain.memory.peak
    slow = estimate(loaded(sampler=ENGINE, policy=replace(PASSES, autocast=False)))
    assert slow.seconds["learn"] > 3 * plain.seconds["learn"]
    assert estimate(loaded(gpus=4)).seconds["learn"] < estimate(loaded()).seconds["learn"]
    files = loaded(sampler=replace(ENGINE, kind="servers"))
    assert estimate(files).seconds["sync"] > plain.seconds["sync"]
    assert estimate(replace(files, by_nccl=True)).seconds["sync"] < estimate(files).seconds["sync"]
    adapted = replace(files, whole=False, policy=replace(PASSES, rank=16))
    assert estimate(adapted).seconds["sync"] < estimate(files).seconds["sync"]
    assert estimate(loaded()).seconds["play"] == 0
    model = estimate(loaded(sampler=replace(ENGINE, kind="model", rows=16)))
    assert model.seconds["play"] > 5 * plain.seconds["play"], "sampling without vLLM"


def test_the_smallest_change_comes_first() -> None:
    crowded = of("qwen3-1.7b")
    crowded = replace(crowded, policy=replace(crowded.policy, recompute=False))
    assert not memory_of(crowded).fits
    found = change_that_fits(crowded)
    assert found is not None
    assert found[0] == "optimizer.recompute=true"
    assert memory_of(found[1]).fits


def test_several_changes_are_named_together_and_adapters_before_more_gpus() -> None:
    both = of("qwen3-4b", sampler=ENGINE)
    found = change_that_fits(both)
    assert found is not None
    assert found[0].startswith("lora.rank=16 dtype=bfloat16")
    assert memory_of(found[1]).fits
    small = change_that_fits(loaded(gpu=replace(GPUS["h100"], gib=14), policy=replace(PASSES, recompute=False)))
    assert small is not None
    assert {word.partition("=")[0] for word in small[0].split()} >= {
        "optimizer.recompute",
        "optimizer.microbatch_tokens",
    }


def test_a_model_that_nothing_saves_is_for_more_gpus_or_none() -> None:
    huge = of("qwen2.5-72b")
    adapted = replace(huge, policy=replace(huge.policy, rank=16, width=2))
    found = change_that_fits(adapted)
    assert found is not None
    assert found[0].startswith("4 GPUs"), "no GPU ever holds the whole model"
    assert change_that_fits(replace(adapted, alone=True)) is None
    middle = of("qwen3-14b")
    found = change_that_fits(replace(middle, policy=replace(middle.policy, rank=None)))
    assert found is not None
    assert change_that_fits(replace(adapted, alone=True)) is None


def test_more_gpus_are_suggested_with_the_copy_that_samples_there() -> None:
    """No shard of a model samples; so more GPUs bring a whole copy, which must fit as well."""
    alone = of("qwen3-8b", sampler=replace(ENGINE, kind="model", replicas=0))
    several = dict(_larger(alone))
    assert {name for name in several if "GPUs" in name} >= {"2 GPUs", "8 GPUs"}
    assert all(load.sampler.kind == "copy" for name, load in several.items() if "GPUs" in name)
    assert memory_of(several["8 GPUs"]).peak > memory_of(replace(several["8 GPUs"], sampler=alone.sampler)).peak


def trial(folder: Path, **changes: object) -> Path:
    line = {"part": "speed", "name": "update, 8k x 2, autocast", "device": "NVIDIA H100 80GB HBM3", "plan": False}
    line |= {"ok": True, "tokens_per_second": 20_000.0, "peak_gib": 60.0} | changes
    (folder / "lines.jsonl").write_text(json.dumps(line) + "\n" + json.dumps({"part": "x", "name": "y"}) + "\n[1]\n")
    return folder


def test_a_trial_corrects_the_seconds_of_learning(tmp_path: Path) -> None:
    slow, fast = (calibration(trial(tmp_path, tokens_per_second=rate), GPUS["h100"]) for rate in (10_000, 40_000))
    assert slow.updates == 1
    assert slow.seconds == pytest.approx(4 * fast.seconds)
    assert slow.applied({"learn": 2.0, "play": 3.0}) == {"learn": 2.0 * slow.seconds, "play": 3.0}
    assert 0.5 < slow.memory < 2
    assert Calibration().applied({"learn": 1.0}) == {"learn": 1.0}


def test_a_variant_that_the_estimate_does_not_know_corrects_nothing(tmp_path: Path) -> None:
    """Weights in bfloat16 were once compared with the estimate of 32 bits, and canceled all other errors."""
    folder = trial(tmp_path)
    known = calibration(folder, GPUS["h100"])
    with (folder / "lines.jsonl").open("a") as lines:
        for variant in ("bf16 weights", "autocast, whole logits", "bf16 weights, compiled"):
            line = json.loads((folder / "lines.jsonl").read_text().splitlines()[0])
            lines.write(json.dumps(line | {"name": f"update, 8k x 2, {variant}", "tokens_per_second": 1.0}) + "\n")
    assert calibration(folder, GPUS["h100"]) == known
    assert known.worst == known.seconds, "there is one update"


TRIALS = Path(__file__).parents[3] / "benchmarks" / "results"


def test_updates_on_an_h200_took_the_estimated_seconds_and_memory() -> None:
    """Every update that both trials measured, compiled or not; docs/hardware.md states these limits."""
    worst, compiled = {"gpu-trial-h200": 1.25, "gpu-trial-h200-2026-11-28": 1.30}, 0
    for name, limit in worst.items():
        known = calibration(TRIALS / name, GPUS["h200"])
        assert known.seconds == pytest.approx(1, abs=0.1)
        assert known.memory == pytest.approx(0.9, abs=0.05)
        assert known.worst < limit
        for line, passes in _updates(TRIALS / name, GPUS["h200"]):
            if not passes.fused:
                continue
            compiled += 1
            rate = passes.read / learning_seconds(passes, GPUS["h200"], 1)
            assert rate == pytest.approx(line["tokens_per_second"], rel=0.1), line["name"]
            peak = memory_of(Workload("trial", GPUS["h200"], 1, passes, NOTHING, 0)).peak / GIB
            assert 0.65 < line["peak_gib"] / peak < 1.02, line["name"]
    assert compiled == 7


def test_compiled_layers_keep_less_and_take_less_time_where_that_was_measured() -> None:
    compiled = replace(PASSES, compiled=True)
    for recompute in (False, True):
        plain, fused = (estimate(loaded(policy=replace(each, recompute=recompute))) for each in (PASSES, compiled))
        assert fused.memory.peak < plain.memory.peak
        assert 1.5 < plain.seconds["learn"] / fused.seconds["learn"] < 2.2
    for rank, width, autocast in ((16, 2, True), (None, 4, False)):
        own = [replace(each, rank=rank, width=width, autocast=autocast) for each in (PASSES, compiled)]
        plain, fused = (estimate(loaded(policy=each)) for each in own)
        assert fused.memory.peak == plain.memory.peak, "an upper limit"
        assert fused.seconds == plain.seconds


@pytest.mark.parametrize("changes", [{"device": "NVIDIA H200"}, {"plan": True}, {"tokens_per_second": None}])
def test_a_trial_of_another_gpu_or_of_a_cpu_does_not_count(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = trial(tmp_path, **changes)
    if changes == {"tokens_per_second": None}:
        (folder / "lines.jsonl").write_text("not json")
    with pytest.raises(UsageError, match="gpu-trial") as said:
        calibration(folder, GPUS["h100"])
    assert "\n" not in str(said.value)
