"""How well steps used the machine: counts are exact, formulas are counted by hand, and a trace is a file."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.meter import Meter, Work
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.utterances import Utterance, pack_utterances
from turnwise.trainers.loop import train
from turnwise.trainers.planning.flops import update_flops
from turnwise.trainers.planning.shapes import shape_from
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.performance import Performance, memory

from .. import small

SIZES = [(3, 5), (9, 2), (4, 4)]
"""Context and sampled tokens of each row."""
ROWS: Any = pack_utterances([Utterance((1,) * prompt_len, (2,) * said, (-1.0,) * said) for prompt_len, said in SIZES])
LENGTHS = [prompt_len + said for prompt_len, said in SIZES]


def nano() -> Any:
    tokenizer = build_tokenizer("byte")
    return build_model(NanoConfig(tokenizer="byte", size="0.1M", layers=2, hidden=32, context_length=128), tokenizer)


def worked(**options: Any) -> tuple[Learner, Work]:
    learner = Learner(nano(), OptimizerConfig(**options))
    rows = ROWS.with_advantage(torch.tensor([1.0, -1.0, 0.5])).with_weight(torch.where(ROWS.mask, 0.1, 0.0))
    learner.recompute_old(rows)
    assert learner.scorer.meter.take() == Work(), "scoring records no gradient, so it is no work of updates"
    learner.step(rows, Objective(ratio_level="token", clip=(0.8, 1.2)))
    return learner, learner.scorer.meter.take()


@pytest.mark.parametrize(
    ("options", "computed"),
    [({}, 3 * 11), ({"layout": "packed"}, sum(LENGTHS)), ({"microbatch_tokens": 8}, sum(LENGTHS))],
)
def test_the_work_of_an_update_is_counted_exactly(options: dict[str, Any], computed: int) -> None:
    learner, work = worked(**options)
    assert work.tokens == sum(LENGTHS)
    assert work.computed == computed, "padding is what the layout and the micro-batches make it"
    assert work.sampled == sum(said for _, said in SIZES)
    assert work.squares == sum(length * length for length in LENGTHS)
    assert work.seconds > 0
    assert learner.scorer.meter.take() == Work(), "what was taken is not counted again"


def test_flops_are_those_that_torch_counts() -> None:
    model, length, said = nano(), 24, 10
    shape = shape_from(model.config.to_dict(), "nano")
    model.set_attn_implementation("eager")  # torch does not count the fused kernel of a CPU
    ids = torch.randint(1, 100, (1, length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=False, logits_to_keep=said).logits.sum().backward()
    products = 3 * (2 * shape.layers * shape.block_matrices * length + 2 * shape.embedding * said)
    found = update_flops(shape, tokens=length, sampled=said, squares=length**2)
    assert found == products + 3 * 2 * shape.layers * shape.queries * length**2
    whole = counter.get_total_flops() - products
    assert whole == 2 * (found - products), "causal attention needs half of what attention without a mask computes"
    frozen = update_flops(shape, tokens=length, sampled=said, squares=length**2, adapters=True)
    assert found - frozen == products / 3, "frozen matrices need no gradient of their own"


def test_utilization_is_work_over_time_and_peak() -> None:
    _learner, work = worked()
    shape = shape_from(nano().config.to_dict(), "nano")

    class Counted(Meter):
        def take(self) -> Work:
            return Work(work.tokens, work.computed, work.sampled, work.squares, 2.0)

    numbers = Performance(Counted(), torch.device("cpu"), shape=shape, tflops=1e-6).metrics()
    flops = update_flops(shape, tokens=work.tokens, sampled=work.sampled, squares=work.squares)
    assert numbers["perf/trained_tokens_per_second"] == work.tokens / 2
    assert numbers["perf/padding"] == pytest.approx(1 - sum(LENGTHS) / 33)
    assert numbers["perf/mfu"] == pytest.approx(flops / 2 / 1e6)
    assert "perf/mfu" not in Performance(Counted(), torch.device("cpu"), shape=shape).metrics(), "a CPU has no peak"
    assert "perf/tflops" not in Performance(Counted(), torch.device("cpu")).metrics(), "an unknown shape has no FLOPs"


def test_memory_is_that_of_this_process() -> None:
    before = memory(torch.device("cpu"))
    held = torch.ones(60_000_000)
    after = memory(torch.device("cpu"))
    grown = after["memory/rss_gib"] - before["memory/rss_gib"]
    assert grown == pytest.approx(held.numel() * 4 / 2**30, rel=0.1)
    assert after["memory/rss_peak_gib"] >= 0.99 * after["memory/rss_gib"], "the kernel counts both with some delay"


@pytest.mark.slow
def test_every_step_of_a_run_has_the_numbers_and_a_chosen_one_a_trace(cloned: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    hardware = {"peak_tflops": 0.1}
    held_out = {"split": "train", "episodes": 2, "every": 0}
    train(small.looping(out, cloned / "model", steps=2, profile_steps=[2], hardware=hardware, eval=held_out))
    lines = read_metrics(out / "metrics.jsonl")
    steps = [line for line in lines if "seconds/step" in line]
    for line in steps:
        assert line["perf/trained_tokens"] >= line["tokens"] > 0
        assert 0 <= line["perf/padding"] < 1
        assert 0 < line["perf/mfu"] < 1
        assert line["memory/rss_peak_gib"] > 0
    assert all("seconds/evaluate" in line for line in lines if line not in steps)
    assert [path.name for path in (out / "profiles").iterdir()] == ["step-2.json.gz"]
    assert json.loads(gzip.decompress((out / "profiles" / "step-2.json.gz").read_bytes()))["traceEvents"]


@pytest.mark.slow
@pytest.mark.shift
def test_a_trace_writes_nothing_but_json_to_standard_error_in_json(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, torch\nfrom turnwise.logs import log_to_stderr\n"
        "from turnwise.trainers.learning.meter import Meter\n"
        "from turnwise.trainers.run.performance import Performance\n"
        "with log_to_stderr('json'):\n"
        "    one = Performance(Meter(), torch.device('cpu'), profile_steps=(1,), folder=pathlib.Path(sys.argv[1]))\n"
        "    one.begin(1)\n    one.metrics()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert (tmp_path / "step-1.json.gz").is_file()
    assert (done.stdout, done.stderr) == ("", ""), "libkineto has lines of its own"


def test_steps_to_trace_belong_to_the_run(tmp_path: Path) -> None:
    with pytest.raises(pydantic.ValidationError, match="profile_steps names step 9, and the run ends with step 3"):
        small.looping(tmp_path, tmp_path / "model", steps=3, profile_steps=[1, 9])


def test_a_trace_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    performance = Performance(Meter(), torch.device("cpu"), profile_steps=(1,), folder=blocked)
    performance.begin(1)
    torch.ones(2).sum()
    assert "memory/rss_gib" in performance.metrics()
