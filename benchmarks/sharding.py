"""Memory and time of sharding: loading, gathering and checkpoints, against whole copies in every process.

    python benchmarks/sharding.py [--millions 64] [--processes 2]

Peaks are of resident memory (VmHWM), above what a process had before. Each measurement starts from a new peak.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes
from transformers import Qwen3Config, Qwen3ForCausalLM

from turnwise.inference.models import load_model, save_model
from turnwise.inference.nano import build_tokenizer
from turnwise.trainers.learning.learner import OptimizerConfig
from turnwise.trainers.learning.parallel import ProcessGroup, gather_on_main, process_group, shard, unsharded
from turnwise.trainers.run.background import Background
from turnwise.trainers.run.checkpoint import Checkpoints, scratch_shards
from turnwise.trainers.run.shards import copied, read_shards, shards_of, write_shards


def build(folder: Path, millions: int) -> None:
    """Write a random model of 16 layers."""
    hidden = round((millions * 1e6 / 16 / 16) ** 0.5 / 64) * 64
    config = Qwen3Config(
        vocab_size=8192,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=16,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 64,
        head_dim=64,
        max_position_embeddings=256,
    )
    save_model(Qwen3ForCausalLM(config), build_tokenizer("byte"), folder)


class Meter:
    """Measures seconds, and peaks of memory in every process."""

    def __init__(self, world: ProcessGroup) -> None:
        self.world = world

    def __call__(self, what: str, act: Callable[[], Any]) -> Any:
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # give freed memory back, or the next peak would hide in it
        self.world.broadcast(None)
        Path("/proc/self/clear_refs").write_text("5")
        before, began = resident("VmRSS"), time.perf_counter()
        found = act()
        seconds, peak = time.perf_counter() - began, resident("VmHWM") - before
        peaks = self.world.all_gather((peak, resident("VmRSS") - before))
        if self.world.is_main:
            shown = "  ".join(f"rank {rank}: {high:5.0f} (kept {kept:5.0f})" for rank, (high, kept) in enumerate(peaks))
            print(f"{what:38} {seconds:6.2f} s   MiB {shown}", flush=True)
        return found


def resident(kind: str) -> float:
    """Return resident memory in MiB: ``VmRSS`` now, ``VmHWM`` at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) / 1024
    raise LookupError(kind)


def measured(rank: int, size: int, port: int, folder: str) -> None:
    """Run one process's part."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    with process_group() as world:
        meter = Meter(world)
        path = Path(folder, "model")
        whole = meter("load: whole in every process", lambda: shard(load(path), world))
        del whole
        model = meter("load: from process 0, block by block", lambda: shard(load(path, world.is_main), world))
        meter("gather: whole in every process", lambda: len(unsharded(dict(model.state_dict()))))
        meter("gather: on process 0 alone", lambda: len(gather_on_main(model.state_dict(), world)))
        optimizer = OptimizerConfig().adamw(model.parameters())
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        checkpoints(world, model, optimizer, Path(folder), meter)


def load(path: Path, weights: bool = True) -> Any:
    """Load the model, or its structure."""
    return load_model(path, dtype=torch.float32, weights=weights)[0]


def checkpoints(world: ProcessGroup, model: Any, optimizer: Any, folder: Path, meter: Meter) -> None:
    """Measure checkpoints: as one file by process 0, in shards, and in shards in the background."""
    group = world.new_group()

    def one_file() -> None:
        state = unsharded({"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()})
        if world.is_main:
            kept = Checkpoints(folder / "one", run="x")
            kept.save(1, write_model=Path.mkdir, progress={}, tensors=state)
        world.broadcast(None)

    def sharded(name: str, later: bool) -> Background:
        kept, background = Checkpoints(folder / name, run="x"), Background(enabled=later)
        shards = shards_of(model, optimizer.state_dict()["state"], whole=True)
        scratch = world.broadcast(kept.begin() if world.is_main else Path())
        shards = copied(shards) if later else shards

        def write() -> None:
            if not world.is_main:
                write_shards(shards, scratch_shards(scratch), world, group)
                return
            kept.save(
                1,
                write_model=Path.mkdir,
                progress={},
                tensors={},
                write_shards=lambda where: write_shards(shards, where, world, group),
                scratch=scratch,
            )

        background.run(write)
        return background

    meter("checkpoint: one file by process 0", one_file)
    meter("checkpoint: shards", lambda: sharded("shards", False))
    background = meter("checkpoint: shards, background (step)", lambda: sharded("later", True))
    meter("    … until it is complete", background.wait)
    parameters = list(model.parameters())
    where = folder / "shards" / "step-00000001" / "shards"
    meter("resume: shards", lambda: read_shards(where, model, parameters, alone=False))
    if world.is_main:
        for name in ("one", "shards"):
            files = [file for file in (folder / name).rglob("*") if file.is_file()]
            print(f"bytes, {name}: {sum(file.stat().st_size for file in files) / 2**20:,.1f} MiB in {len(files)} files")
        began = time.perf_counter()
        Checkpoints(folder / "one", run="x").latest()
        one = time.perf_counter() - began
        began = time.perf_counter()
        Checkpoints(folder / "shards", run="x").latest()
        print(f"verify: one file, with reading it {one:.2f} s; shards {time.perf_counter() - began:.2f} s")
    dist.barrier()


def main() -> None:
    """Build a model and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, default=64, help="weights in the layers, in millions")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        build(Path(folder, "model"), asked.millions)
        size = sum(file.stat().st_size for file in Path(folder, "model").glob("*.safetensors"))
        print(f"a model of {size / 2**20:,.0f} MiB, {asked.processes} processes, gloo", flush=True)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        started = (asked.processes, port, folder)
        start_processes(measured, started, nprocs=asked.processes, start_method="spawn")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
