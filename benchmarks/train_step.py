"""Compare the speed and memory of one optimizer step with TRL's ``GRPOTrainer``.

Both sides take the same model, the same rows of several turns, the same loss (clipped ratios per token, a mean over
tokens, no KL) and AdamW in one process with one thread each; they alternate. That they do the same is checked: loss and
gradient norm of the first step must agree. Seconds are of processor time on a CPU, so that neighbors count little, and
of wall time on a GPU. Memory is what a process takes on top of what its imports do: the model, its optimizer, the
batch and the activations. TRL has gradient checkpointing on by default, which is slower and smaller: it is off here on
both sides, and on for TRL with ``--checkpointing``.

Run: python benchmarks/train_step.py --setup .trl          # makes an environment with TRL, once
     python benchmarks/train_step.py --trl-python .trl/bin/python
     python benchmarks/train_step.py --device cuda --dtype bfloat16 --sizes 0.5B --peak-tflops 989
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, Size, build_model, build_tokenizer

WORKER = Path(__file__).with_name("train_step_worker.py")
LARGE = "0.5B"


def rows(count: int, vocabulary: int, scale: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return conversations: a prompt, then turns of observation and response."""
    rng = random.Random(seed)

    def some(low: int, high: int) -> list[int]:
        return [rng.randrange(10, vocabulary) for _ in range(rng.randint(low * scale, high * scale))]

    made = []
    for _ in range(count):
        turns = [(some(8, 32), some(8, 24)) for _ in range(rng.randint(2, 6))]
        made.append({"prompt": some(16, 48), "turns": [[context, action, []] for context, action in turns]})
    return made


@torch.no_grad()
def judge(model: Any, batch: list[dict[str, Any]], seed: int = 0) -> None:
    """Old log-probabilities: the model's own, moved a little, so that ratios are not all 1 and some are clipped."""
    noise = torch.Generator().manual_seed(seed)
    for row in batch:
        ids = [*row["prompt"], *(token for turn in row["turns"] for token in (*turn[0], *turn[1]))]
        logits = model(torch.tensor([ids], device=model.device)).logits[0].float().cpu()
        logp = logits[:-1].log_softmax(-1).gather(-1, torch.tensor(ids)[1:, None])[:, 0]
        logp = logp + 0.15 * torch.randn(logp.shape, generator=noise)
        place = len(row["prompt"])
        for turn in row["turns"]:
            place += len(turn[0])
            turn[2] = logp[place - 1 : place - 1 + len(turn[1])].tolist()
            place += len(turn[1])


def large(tokenizer: Any) -> Any:
    """A random Qwen3 of half a billion weights, embeddings tied as in those of its size."""
    config = Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=3072,
        tie_word_embeddings=True,
        max_position_embeddings=32_768,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config).eval()


def flops(model: Any, lengths: list[int]) -> float:
    """Floating-point operations of forward and backward: 6 per weight and token, and those of causal attention.

    Embedding lookups cost none; the output embedding does (Kaplan et al., arXiv 2001.08361, with 12·L·H·S per token of
    full attention, half of it where attention is causal).
    """
    config = model.config
    weights = sum(p.numel() for p in model.parameters())
    if not config.tie_word_embeddings:
        weights -= config.vocab_size * config.hidden_size
    attention = 6 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
    return float(sum(6 * weights * length + attention * length * length for length in lengths))


class Side:
    """One of the two, waiting in its process."""

    def __init__(self, name: str, python: str, folder: Path) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(WORKER), name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TQDM_DISABLE": "1"},
        )

    def load(self) -> None:
        """Wait until it has its model."""
        self._answer()

    def steps(self, count: int) -> dict[str, float]:
        """Take so many steps."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.name} ended: its last words are above")
        return cast(dict[str, float], json.loads(line))


def made(size: str, tokenizer: Any, device: str) -> Any:
    """A random model, made on the device: a large one costs a second there on a GPU."""
    with torch.device(device):
        if size == LARGE:
            return large(tokenizer)
        return build_model(NanoConfig(tokenizer="byte", size=cast(Size, size)), tokenizer)


def alternate(folder: Path, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, list[dict[str, float]]]]:
    """Let the sides take turns: the first step of each by its name, and what their rounds took."""
    ours = dict.fromkeys(arguments.layouts.split(","), sys.executable)
    pythons = {**ours, "trl": arguments.trl_python}
    sides = [Side(name, python, folder) for name, python in pythons.items() if python]
    for side in sides:
        side.load()
    first = {side.name: side.steps(1) for side in sides}
    taken: dict[str, list[dict[str, float]]] = {side.name: [] for side in sides}
    for _ in range(arguments.rounds):
        for side in sides:
            taken[side.name].append(side.steps(arguments.steps))
    for side in sides:
        side.close()
    return first, taken


def compare(size: str, arguments: argparse.Namespace) -> None:
    """One model: medians over interleaved repetitions, and the ratio."""
    tokenizer = build_tokenizer("byte")
    model = made(size, tokenizer, arguments.device)
    batch = rows(arguments.rows, model.config.vocab_size, arguments.scale)
    lengths = [len(row["prompt"]) + sum(len(turn[0]) + len(turn[1]) for turn in row["turns"]) for row in batch]
    judge(model.to(arguments.device), batch)
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        save_model(model.to("cpu", getattr(torch, arguments.dtype)), tokenizer, folder / "model")
        torch.save({"rows": batch, "advantages": [generator.gauss(0, 1) for _ in batch]}, folder / "batch.pt")
        settings = {
            "device": arguments.device,
            "dtype": arguments.dtype,
            "threads": arguments.threads,
            "checkpointing": arguments.checkpointing,
            "microbatch_tokens": arguments.microbatch_tokens,
            "options": json.loads(arguments.options),
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        first, taken = alternate(folder, arguments)
    tokens = sum(lengths)
    sampled = sum(len(turn[1]) for row in batch for turn in row["turns"])
    print(
        f"\n{size} model, {arguments.dtype}, {arguments.device}: {len(batch)} rows of {min(lengths)} to {max(lengths)} "
        f"tokens, {tokens} in all, {sampled} of them sampled; {arguments.rounds} rounds of {arguments.steps} steps"
    )
    middles = {}
    for name, started in first.items():
        seconds = [found["seconds"] / arguments.steps for found in taken[name]]
        middles[name] = middle = statistics.median(seconds)
        most = max(found["peak"] for found in [started, *taken[name]])
        line = f"  {name:9} {tokens / middle:9.0f} tok/s ({tokens / max(seconds):.0f} … {tokens / min(seconds):.0f})"
        line += f"   peak {most / 2**20:7.0f} MiB   loss {started['loss']:+.6f}   gradient {started['norm']:.5f}"
        if arguments.peak_tflops:
            line += f"   MFU {flops(model, lengths) / middle / arguments.peak_tflops / 1e12:.1%}"
        print(line)
    if "trl" not in first:
        return
    for name in arguments.layouts.split(","):
        each = [theirs["seconds"] / ours["seconds"] for ours, theirs in zip(taken[name], taken["trl"], strict=True)]
        ratios = ", ".join(f"{ratio:.2f}" for ratio in each)
        print(f"  {name} : trl   {middles['trl'] / middles[name]:.2f} × the speed (by rounds {ratios})")
        tolerance = 1e-4 if arguments.dtype == "float32" else 5e-2
        for what in ("loss", "norm"):
            ours, theirs = first[name][what], first["trl"][what]
            if not math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-6):
                raise SystemExit(f"the two do not compute the same: {what} {ours} and {theirs}")


def setup(folder: Path) -> None:
    """An environment with TRL and this very torch."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    torch_here = f"torch=={torch.__version__.partition('+')[0]}"
    for words in ([torch_here], [torch_here, "trl"]):
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", *words], check=True)


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", type=Path, metavar="FOLDER", help="make an environment with TRL there, and end")
    parser.add_argument("--trl-python", help="of that environment; without it only Turnwise is measured")
    parser.add_argument("--sizes", default="0.5M,8M", help="with commas: of nano models, or 0.5B")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--scale", type=int, default=1, help="all lengths times this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps per round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--microbatch-tokens", type=int, default=16384, help="of Turnwise; TRL takes all rows at once")
    parser.add_argument("--layouts", default="padded", help="of Turnwise's rows; with a comma, both in the same rounds")
    parser.add_argument("--options", default="{}", help="more of Turnwise's OptimizerConfig, as JSON")
    parser.add_argument("--checkpointing", action="store_true", help="TRL's default: recompute activations")
    parser.add_argument("--peak-tflops", type=float, help="of the device, in this precision, for the MFU")
    arguments = parser.parse_args()
    if arguments.setup is not None:
        setup(arguments.setup)
        return
    for size in arguments.sizes.split(","):
        compare(size, arguments)


if __name__ == "__main__":
    main()
