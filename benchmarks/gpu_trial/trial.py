"""The lines of a trial, one per check and written at once, and what all parts need: a device, a model, rows."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from predictions import PREDICTIONS
from transformers import Qwen3Config, Qwen3ForCausalLM

from turnwise import Action, Episode, Outcome, Score, TaskSpec, Turn
from turnwise.envs.messages import Observation
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.rows import Rows, pack

LINES = "lines.jsonl"
SIGMA = 4.0
"""Deviation of the logits of the random model: about that of trained ones, so that rounding shows as it would there."""


class Trial:
    """Runs the checks of one part. A check that raises becomes a line, and the next one runs.

    Args:
        out: folder of the lines.
        part: name of the part.
        plan: whether to use nano shapes on the CPU.
    """

    def __init__(self, out: Path, part: str, *, plan: bool) -> None:
        self.out, self.part, self.plan = out, part, plan
        self.device = "cpu" if plan else "cuda"

    def check(self, name: str, measure: Callable[[], Mapping[str, Any]]) -> None:
        """Measure something. The result is a line; ``ok`` in it says whether it is as it should be."""
        began = time.perf_counter()
        try:
            found = {"ok": True, **measure()}
        except torch.cuda.OutOfMemoryError as error:
            found = {"ok": True, "oom": True, "note": str(error).partition(".")[0]}
        except Exception as error:
            traceback.print_exc()
            found = {"ok": False, "note": f"{type(error).__name__}: {error}".partition("\n")[0]}
        self.line(name, seconds=round(time.perf_counter() - began, 3), **found)
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def line(self, name: str, **found: Any) -> None:
        """Append a line."""
        line = {"part": self.part, "name": name, "device": device_name(self.device), "plan": self.plan, **found}
        if (predicted := PREDICTIONS.get(name)) is not None:
            line["predicted"] = predicted
        with (self.out / LINES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=float) + "\n")
        print(json.dumps(line, default=float), flush=True)


def start(part: str) -> Trial:
    """Read the command line of a part's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--plan", action="store_true")
    words = parser.parse_args()
    return Trial(words.out, part, plan=words.plan)


def device_name(device: str) -> str:
    """Return the name of the GPU, or ``cpu``."""
    return torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"


def commit() -> str:
    """Return the commit of the working directory, or ``?`` where there is no git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, timeout=10
        )
    except OSError:
        return "?"
    return done.stdout.strip() or "?"


def random_model(*, plan: bool, seed: int = 0, device: str = "cpu") -> Any:
    """Return a random Qwen3 of 0.6B (a tiny one for the plan), whose logits have the deviation ``SIGMA``.

    It is made on ``device``, where it costs a second on a GPU; only on a CPU do its weights depend on the seed alone.
    """
    shape: dict[str, int] = (
        {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 512, "intermediate_size": 128}
        if plan
        else {"hidden_size": 1024, "num_hidden_layers": 28, "vocab_size": 151_936, "intermediate_size": 3072}
    )
    heads = (
        {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
        if plan
        else {
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        }
    )
    config = Qwen3Config(
        **shape, **heads, tie_word_embeddings=True, max_position_embeddings=40_960, eos_token_id=0, pad_token_id=0
    )
    torch.manual_seed(seed)
    with torch.no_grad(), torch.device(device):
        model: Any = Qwen3ForCausalLM(config).eval()
        sample = model(torch.randint(1, config.vocab_size, (1, 64))).logits
        model.model.norm.weight.mul_(SIGMA / float(sample.std()))
    return model


def random_rows(count: int, length: int, vocabulary: int, *, turns: int = 8, seed: int = 0) -> Rows:
    """Return rows of ``count`` episodes of about ``length`` tokens, half of them sampled, with random advantages."""
    generator = torch.Generator().manual_seed(seed)
    size = max(1, length // (2 * turns))

    def some() -> list[int]:
        return torch.randint(1, vocabulary, (size,), generator=generator).tolist()

    episodes = []
    for number in range(count):
        ids: list[int] = []
        played = []
        for _ in range(turns):
            ids += some()
            action = some()
            logprobs = (-torch.rand(size, generator=generator) - 5).tolist()
            played.append(
                Turn(
                    Observation.of(""),
                    Action(""),
                    0.0,
                    prompt_ids=tuple(ids),
                    action_ids=tuple(action),
                    logprobs=tuple(logprobs),
                    versions=(0,) * size,
                )
            )
            ids += action
        episodes.append(
            Episode(
                f"e{number}",
                "trial",
                TaskSpec("trial"),
                f"g{number}",
                tuple(played),
                Outcome.COMPLETED,
                score=Score(False),
            )
        )
    rows = pack(episodes).with_advantage(torch.randn(count, generator=generator))
    return rows.with_weight(normalizer(rows, "token_mean"))


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Return the lines so far; the last of each check counts."""
    file = out / LINES
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        line = json.loads(text)
        found[line["part"], line["name"]] = line
    return list(found.values())


def write_report(out: Path, lines: Sequence[Mapping[str, Any]]) -> Path:
    """Write the lines as a page, and return its path."""
    devices = ", ".join(sorted({str(line["device"]) for line in lines}))
    text = [f"# GPU trial: {devices}", "", f"Commit {commit()}, torch {torch.__version__}.", ""]
    text += ["| part | check | ok | predicted | measured | s |", "|---|---|---|---|---|---|"]
    hidden = {"part", "name", "device", "plan", "ok", "seconds", "predicted"}
    for line in lines:
        result = ", ".join(f"{key} {_short(value)}" for key, value in line.items() if key not in hidden)
        ok = "yes" if line["ok"] else "**no**"
        predicted = ", ".join(f"{key} {value}" for key, value in line.get("predicted", {}).items())
        seconds = line.get("seconds", "")
        text.append(f"| {line['part']} | {line['name']} | {ok} | {predicted} | {result} | {seconds} |")
    path = out / "report.md"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "/")
