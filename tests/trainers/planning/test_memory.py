"""Predicted memory against the bytes that the learner's forward pass saves on this machine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from turnwise.inference.hardware import GPUS
from turnwise.trainers.planning.memory import GIB, memory_of, saved_bytes, saved_logits
from turnwise.trainers.planning.shapes import KNOWN, ModelShape
from turnwise.trainers.planning.workload import Passes, Sampler, Workload

from ...shifts import core_sample

SHAPES = {
    "qwen3": ModelShape(2, 96, 6, 2, 24, 160, 300, True, head_norms=True),
    "qwen2": ModelShape(3, 64, 4, 2, 16, 160, 300, True, biased=True),
    "llama": ModelShape(2, 64, 4, 4, 16, 96, 300, False),
}
PASSES = Passes(KNOWN["qwen3-0.6b"], 4, None, True, True, False, 16_384, 8192, 64, 2.0, 1.0, 0.5)
NOTHING = Sampler("none", 0, 0.0, 0, 0, True, 0, 0)


def loaded(**changes: object) -> Workload:
    plain = Workload("test", GPUS["h100"], 1, PASSES, NOTHING, 64)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def saved() -> Iterator[ModuleType]:
    folder = str(Path(__file__).parents[3] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("saved_bytes")
    finally:
        sys.path.remove(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", core_sample([*SHAPES], 1, key="saved bytes"))
def test_saved_bytes_are_predicted_within_a_tenth(name: str, saved: ModuleType) -> None:
    count = 0
    for passes, found, predicted in saved.compared(SHAPES[name], 128):
        assert predicted == pytest.approx(found, rel=0.1), passes
        count += 1
    assert count == 48, "precisions, adapters, recomputation, layouts, logits"


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_products_that_are_not_computed_save_the_same_bytes(packed: bool, recompute: bool, saved: ModuleType) -> None:
    shape = SHAPES["qwen3"]
    model = saved.built(shape, 4, None)
    for logits in ("whole", "chunked"):
        passes = replace(PASSES, shape=shape, packed=packed, recompute=recompute, logits=logits)
        found = [saved.measured(model, passes, 96, computed=computed) for computed in (False, True)]
        assert found[0] == found[1] > 0, logits


def test_the_arithmetic_by_hand_of_a_model_of_0_6_billion() -> None:
    """32-bit weights, gradients and moments are 16 bytes each; a token keeps 80.2 KiB a layer, or 4 KiB."""
    memory = memory_of(loaded())
    weights = 596_049_920
    assert memory.always["weights"] == 4 * weights
    assert memory.always["optimizer"] == 8 * weights
    assert memory.moments["learn"]["gradients"] == 4 * weights
    plain = replace(PASSES, recompute=False)
    assert saved_bytes(plain, 16_384) / GIB == pytest.approx(36.1, abs=0.5)
    assert saved_bytes(PASSES, 16_384) / GIB == pytest.approx(3.2, abs=0.2)
    whole = replace(PASSES, logits="whole")
    assert saved_logits(whole, 8192) < saved_logits(whole, 16_384) / 3, "one row needs its sampled columns only"
    assert saved_logits(PASSES, 16_384) == 8192 * (4 * 1024 + 12), "by chunks, its inputs are all that is kept"
    assert memory.worst == "learn"
    assert memory.fits
    assert 15 < memory.peak / GIB < 25


def test_what_is_sharded_is_divided_and_what_is_not_is_not() -> None:
    one, four = memory_of(loaded()), memory_of(loaded(gpus=4))
    assert four.always["optimizer"] == one.always["optimizer"] // 4
    assert four.always["gathered weights"] > 0
    assert four.loading < 0.6 * one.loading, "a GPU gets the model block by block, and the embeddings at once"
    assert four.host < one.host, "a process writes its own shards, and process 0 alone gathers weights"
    pairs = memory_of(loaded(gpus=4, replicas=2))
    assert pairs.always["optimizer"] == one.always["optimizer"] // 2
    assert "temporary" in memory_of(loaded()).moments["optimizer step"]
    assert memory_of(loaded(fused=True)).moments["optimizer step"]["temporary"] == 0
    away = memory_of(loaded(gpus=4, offload=True))
    assert away.always["weights"] == away.always["optimizer"] == away.moments["learn"]["gradients"] == 0
    assert away.host > 16 * PASSES.shape.weights
    critic = replace(PASSES, judged=0.0, autocast=False, recompute=False)
    with_critic = memory_of(loaded(gpus=4, critic=critic))
    assert with_critic.always["critic"] == 12 * PASSES.shape.weights // 4, "a language model is sharded"
    assert with_critic.worst == "critic"
    adapters = memory_of(loaded(gpus=4, critic=replace(critic, rank=8)))
    assert adapters.always["critic"] == 12 * replace(critic, rank=8).trained, "every process has all of the adapters"
    assert memory_of(loaded(reference=True)).always["reference"] == 4 * PASSES.shape.weights
    assert memory_of(loaded(reference=True, gpus=4)).always["reference"] == PASSES.shape.weights


def test_servers_take_their_share_only_where_they_share_a_gpu() -> None:
    sampler = Sampler("servers", 4, 0.4, 64, 8192, False, 1, 1)
    assert "vLLM" not in memory_of(loaded(sampler=sampler, gpus=8)).always
    shared = loaded(sampler=sampler, gpus=2)
    assert (shared.learners, shared.sampling_gpus) == (2, 0)
    assert memory_of(shared).always["vLLM"] == int(2 * 0.4 * GPUS["h100"].gib * GIB)
    apart = loaded(sampler=sampler, gpus=8)
    assert (apart.learners, apart.sampling_gpus) == (4, 4)
    inside = memory_of(loaded(sampler=Sampler("model", 0, 0.0, 64, 8192, True, 1, 1)))
    assert inside.moments["play"]["keys and values"] / GIB == pytest.approx(112, rel=0.01)
    assert inside.worst == "play"


def test_memory_of_sleeping_servers_counts_in_play_alone() -> None:
    awake = loaded(sampler=Sampler("engine", 1, 0.4, 64, 8192, False, 100, 100))
    asleep = replace(awake, sampler=replace(awake.sampler, sleeps=True))
    assert memory_of(asleep).moments["play"]["vLLM"] == memory_of(awake).always["vLLM"]
    assert memory_of(asleep).peak < memory_of(awake).peak
