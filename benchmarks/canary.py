"""Check the canary where it has to live: a deep model whose servers compute in 16 bits, and small steps of learning.

    python benchmarks/canary.py                       # 200 syncs, then every sabotage
    python benchmarks/canary.py --autocast none       # the trainer scores in 32 bits

The model is a random Qwen3 of 28 layers, narrow so that a CPU can do it, whose logits have a standard deviation of 4 as
real models' have. The trainer holds it in 32 bits and takes a step of AdamW before each sync. A stand-in for a server
holds a copy in bfloat16 and samples token by token over its cache. No sync is at fault, so every warning and every
stop is a false alarm. Then each sabotage of the tests starts after the second sync, and the canary has some syncs to
find it. Steps are larger there, since what noise hides cannot be found at once: smaller ones take more syncs to add up.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import logging
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from turnwise.errors import ContractError
from turnwise.inference.nano import NanoConfig, build_model
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.learning.utterances import Utterance, pack_utterances
from turnwise.trainers.weights.adapter import Adapter
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.diagnosis import Cause
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.vllm_transfer import Files, Native
from turnwise.trainers.weights.weight_sync import WeightSync

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.trainers.weights.fake import ANY, FakeServer, tokenizer

SIGMA = 4.0
WORDS = tokenizer()
LORA = LoraConfig(rank=2, alpha=4.0)
SABOTAGES = [
    ("native", "ignores the update", {Cause.NOT_APPLIED}),
    ("native", "ignores and says so", {Cause.NOT_SENT}),
    ("native", "applies old weights", {Cause.NOT_APPLIED}),
    ("native", "keeps its cache", {Cause.CACHED}),
    ("native", "keeps its output embedding", {Cause.OTHER_WEIGHTS}),
    ("native", "wrong log-probabilities", {Cause.LOGPROBS}),
    ("native", "ignores the temperature", {Cause.LOGPROBS}),
    ("native", "retokenizes the prompt", {Cause.RETOKENIZED}),
    ("native", "retokenizes the prompt and says so", {Cause.RETOKENIZED}),
    ("native", "retokenizes the answer", {Cause.RETOKENIZED}),
    ("native", "truncates the prompt", {Cause.TRUNCATED}),
    ("native", "truncates the prompt and says so", {Cause.TRUNCATED}),
    ("native", "cuts the answer", {Cause.TRUNCATED}),
    ("native", "misnames", {Cause.MISNAMED}),
    ("adapter", "drops the adapter", {Cause.ADAPTER_DROPPED}),
]
"""Transport, sabotage and its names. "rounds" is none here: these servers do compute in 16 bits."""


def deep_model(width: int, seed: int) -> Any:
    """Build the model, with logits of deviation ``SIGMA``."""
    shape = NanoConfig(layers=28, hidden=width, heads=2, head_dim=32, intermediate=3 * width, initializer_range=0.02)
    model: Any = build_model(shape.model_copy(update={"context_length": 512}), WORDS, seed=seed)
    with torch.no_grad():
        ids = torch.randint(1, len(WORDS), (1, 96), generator=torch.Generator().manual_seed(0))
        model.model.norm.weight.mul_(SIGMA / float(model(ids).logits.std()))
    return model


class Stage:
    """A trainer in 32 bits, a server in 16, and the transfer between them."""

    def __init__(self, model: Any, folder: Path, options: argparse.Namespace, lr: float, how: str = "native") -> None:
        self.model = copy.deepcopy(model)
        self.server = FakeServer(copy.deepcopy(model).bfloat16(), WORDS, "", replace(ANY), lora=LORA)
        if how == "adapter":
            attach(self.model, LORA)
        autocast = None if options.autocast == "none" else options.autocast
        self.learner = Learner(self.model, OptimizerConfig(lr=lr, autocast=autocast), temperature=0.7)
        policy = RemotePolicy([self.server])
        exchange = SharedFolder(folder, dtype=torch.bfloat16)
        transport: Any = Native(policy, Files(exchange))
        if how == "adapter":
            transport = Adapter(policy, exchange, self.model, rank=2, base={"path": "base", "digest": ""})
        asked = Questions.of(
            WORDS,
            context_length=512,
            temperature=0.7,
            dtypes=["float32", "bfloat16"],
            scorer=self.learner.scorer,
        )
        self.sync = WeightSync(policy, transport, self.model, replace(asked, length=options.prompt))

    def step(self, number: int) -> None:
        """Make a step of REINFORCE on random actions with random advantages."""
        rng = torch.Generator().manual_seed(number)
        words = torch.tensor(self.sync.questions.words)  # a random model has no use for the embedding of padding, 0
        ids = words[torch.randint(len(words), (4, 32), generator=rng)].tolist()
        rows = pack_utterances([Utterance(tuple(row[:16]), tuple(row[16:]), (0.0,) * 16) for row in ids])
        signs = torch.randn(4, generator=rng)[rows.episode] / 64
        self.learner.clone(rows.with_weight(torch.where(rows.mask, signs, 0.0)))


async def healthy(model: Any, folder: Path, options: argparse.Namespace, console: Console) -> int:
    """Count the false alarms of many syncs without a fault."""
    stage, seen, stops = Stage(model, folder, options, options.lr), [], 0
    began, start = time.perf_counter(), {n: p.detach().clone() for n, p in stage.model.named_parameters()}
    for number in range(options.syncs):
        try:
            await stage.sync.send(number)
        except ContractError as error:
            stops += 1
            console.print(f"sync {number}: {error}")
        seen.append(dict(stage.sync.metrics))
        stage.step(number)
        if number % 20 == 19:
            warned = sum(each["canary/warnings"] > 0 for each in seen)
            console.print(f"{number + 1} syncs, {stops} stops, {warned} warnings, {time.perf_counter() - began:.0f} s")
    measured = stage.sync.noise.measured
    assert measured is not None

    def top(name: str) -> float:
        return max(each[name] for each in seen)

    changed = sum(float((p - start[n]).square().sum()) for n, p in stage.model.named_parameters()) ** 0.5
    whole = sum(float(p.square().sum()) for p in start.values()) ** 0.5
    warnings = sum(each["canary/warnings"] > 0 for each in seen)
    table = Table(
        title=f"{options.syncs} syncs without a fault, {time.perf_counter() - began:.0f} s", show_header=False
    )
    rows = {
        "false alarms": f"{stops + warnings} of {options.syncs} ({stops} stops, {warnings} warnings)",
        "asked again": f"{sum(each['canary/asked_again'] for each in seen):.0f}",
        "noise at sync 0": f"mean {measured.mean:.4f}, rms {measured.rms:.4f}, p99 {measured.p99:.4f}",
        "limit": f"mean {seen[-1]['canary/limit_mean']:.4f}, p99 {seen[-1]['canary/limit_p99']:.4f}",
        "largest of a sync": f"mean {top('canary/gap_mean'):.4f}, p99 {top('canary/gap_p99'):.4f}",
        "beyond 0.1, the rule before": f"{sum(each['sync/canary_gap_max'] > 0.1 for each in seen)}",
        "weights changed by": f"{changed / whole:.4f} of their norm",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    return stops + warnings


async def caught(model: Any, folder: Path, options: argparse.Namespace, how: str, sabotage: str) -> tuple[str, int]:
    """Return what the canary calls a sabotage, and the number of syncs that it needed; an empty name if it did not."""
    stage = Stage(model, folder, options, options.large_lr, how)
    for number in range(2):
        await stage.sync.send(number)
        stage.step(number)
    stage.server.sabotage = sabotage
    for number in range(2, 2 + options.patience):
        try:
            await stage.sync.send(number)
        except ContractError as error:
            return str(error).split("serves: ")[-1].split(":")[0], number - 1
        if stage.sync._warned:
            return next(iter(stage.sync._warned.values())).value, number - 1
        stage.step(number)
    return "", options.patience


async def main() -> int:
    """Run both parts, and return the number of failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--syncs", type=int, default=200, help="Syncs without a fault; 0 skips them.")
    parser.add_argument("--patience", type=int, default=10, help="Syncs to find a sabotage in; 0 skips them.")
    parser.add_argument("--lr", type=float, default=1e-5, help="Learning rate of the syncs without a fault.")
    parser.add_argument(
        "--large-lr", type=float, default=1e-3, help="Of sabotaged syncs: steps that noise cannot hide."
    )
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--prompt", type=int, default=96, help="Tokens of a long prompt.")
    parser.add_argument("--autocast", choices=["bfloat16", "none"], default="bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("turnwise").addHandler(logging.NullHandler())
    torch.set_num_threads(options.threads)
    console, model = Console(width=110), deep_model(options.width, options.seed)
    count = sum(each.numel() for each in model.parameters())
    console.print(f"28 layers, width {options.width}, {count / 1e6:.1f}M weights, {vars(options)}")
    with tempfile.TemporaryDirectory() as scratch:
        failures = await healthy(model, Path(scratch, "healthy"), options, console) if options.syncs else 0
        found, tried = 0, SABOTAGES if options.patience else []
        table = Table("sabotage", "named", "syncs", title="Sabotages, each after two healthy syncs")
        for number, (how, sabotage, names) in enumerate(tried):
            name, syncs = await caught(model, Path(scratch, str(number)), options, how, sabotage)
            found += name in {cause.value for cause in names}
            table.add_row(sabotage, name or "not found", str(syncs))
        console.print(table)
        console.print(f"caught and named: {found} of {len(tried)}")
    return failures + len(tried) - found


if __name__ == "__main__":
    sys.exit(min(asyncio.run(main()), 1))
