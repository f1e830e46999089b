"""One side of ``train_step.py`` in a process of its own: it loads model and batch, then makes steps on command.

Run by either interpreter: that of Turnwise, or one with TRL and without Turnwise.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PAGE = os.sysconf("SC_PAGE_SIZE")
LEARNING_RATE, CLIP, MAX_NORM = 1e-5, 0.2, 1.0
Step = Callable[[], tuple[float, float]]
"""One optimizer step; the loss and the norm of the gradient."""


def turnwise_step(folder: Path, settings: dict[str, Any], layout: str) -> Step:
    """A step of Turnwise's learner in one layout: PPO's clipped ratios per token, a mean over tokens."""
    from turnwise import Action, Episode, Outcome, Score, TaskSpec, Turn
    from turnwise.envs.messages import Observation
    from turnwise.trainers.learning.learner import Learner, OptimizerConfig
    from turnwise.trainers.learning.normalizers import normalizer
    from turnwise.trainers.learning.objective import Objective
    from turnwise.trainers.learning.rows import pack

    data = torch.load(folder / "batch.pt")
    episodes = []
    for number, row in enumerate(data["rows"]):
        turns, ids = [], list(row["prompt"])
        for context, action, logprobs in row["turns"]:
            ids += context
            turns.append(
                Turn(
                    Observation.of(""),
                    Action(""),
                    0.0,
                    prompt_ids=tuple(ids),
                    action_ids=tuple(action),
                    logprobs=tuple(logprobs),
                    versions=(0,) * len(action),
                )
            )
            ids += action
        episodes.append(
            Episode(
                episode_id=f"e{number}",
                env_id="bench",
                task=TaskSpec("bench"),
                group_id=f"g{number}",
                turns=tuple(turns),
                outcome=Outcome.COMPLETED,
                score=Score(False),
            )
        )
    rows = pack(episodes).with_advantage(torch.tensor(data["advantages"]))
    rows = rows.with_weight(normalizer(rows, "token_mean"))
    options: dict[str, Any] = {"lr": LEARNING_RATE, "betas": (0.9, 0.999), "max_grad_norm": MAX_NORM}
    options |= {"microbatch_tokens": settings["microbatch_tokens"], "layout": layout, **settings["options"]}
    learner = Learner(_model(folder, settings), OptimizerConfig(**options))
    objective = Objective(ratio_level="token", clip=(1 - CLIP, 1 + CLIP))

    def step() -> tuple[float, float]:
        metrics = learner.step(rows, objective).metrics
        return metrics["loss"], metrics["grad_norm"]

    return step


def trl_step(folder: Path, settings: dict[str, Any]) -> Step:
    """A step of TRL's ``GRPOTrainer``: its own ``training_step`` on prepared inputs, then what its loop does."""
    data = torch.load(folder / "batch.pt")
    trainer = _trl_trainer(folder, settings, len(data["rows"]))
    if settings["checkpointing"]:  # what its own loop does first, which is not run
        trainer.model.gradient_checkpointing_enable()
    trainer.create_optimizer()
    model, optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    trainer.model_wrapped, trainer.optimizer = model, optimizer
    trainer.current_gradient_accumulation_steps = 1
    trainer._buffered_inputs = [{name: value.to(settings["device"]) for name, value in _trl_inputs(data).items()}]
    trainer._step = 1

    def step() -> tuple[float, float]:
        loss = trainer.training_step(model, [], None)
        norm = trainer.accelerator.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        model.zero_grad()
        return float(loss), float(norm)

    return step


def _trl_trainer(folder: Path, settings: dict[str, Any], batch: int) -> Any:
    """Return TRL's trainer with the loss and the optimizer of Turnwise's side; it never samples."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    arguments: dict[str, Any] = {
        "output_dir": str(folder / "trl"),
        "per_device_train_batch_size": batch,
        "num_generations": 2,
        "num_iterations": 1_000_000,  # the inputs that are put into its buffer are used for every step
        "learning_rate": LEARNING_RATE,
        "beta": 0.0,
        "epsilon": CLIP,
        "max_grad_norm": MAX_NORM,
        "gradient_checkpointing": settings["checkpointing"],
        "bf16": settings["device"] != "cpu" and settings["dtype"] == "bfloat16",
        "use_cpu": settings["device"] == "cpu",
        "report_to": [],
        "disable_tqdm": True,
    }
    return GRPOTrainer(
        model=_model(folder, settings),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(**arguments),
        train_dataset=Dataset.from_dict({"prompt": ["a"] * batch}),
        processing_class=AutoTokenizer.from_pretrained(folder / "model"),
    )


def _trl_inputs(data: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The batch as ``GRPOTrainer`` has it after sampling: everything behind the first prompt is a completion."""
    prompts = [row["prompt"] + row["turns"][0][0] for row in data["rows"]]
    completions, sampled, old = [], [], []
    for row in data["rows"]:
        ids, mask, logp = list(row["turns"][0][1]), [1] * len(row["turns"][0][1]), list(row["turns"][0][2])
        for context, action, logprobs in row["turns"][1:]:
            ids += context + action
            mask += [0] * len(context) + [1] * len(action)
            logp += [0.0] * len(context) + list(logprobs)
        completions.append(ids)
        sampled.append(mask)
        old.append(logp)
    tools = _padded(sampled, 0)
    return {
        "prompt_ids": _padded(prompts, 0, left=True),
        "prompt_mask": _padded([[1] * len(ids) for ids in prompts], 0, left=True),
        "completion_ids": _padded(completions, 0),
        "completion_mask": _padded([[1] * len(ids) for ids in completions], 0),
        "tool_mask": tools,
        "advantages": torch.tensor(data["advantages"]),
        "old_per_token_logps": _padded(old, 0.0),
        "num_items_in_batch": tools.sum().float(),
    }


def _model(folder: Path, settings: dict[str, Any]) -> Any:
    dtype = getattr(torch, settings["dtype"])
    return AutoModelForCausalLM.from_pretrained(folder / "model", dtype=dtype).to(settings["device"])


def _padded(rows: list[list[Any]], value: float, *, left: bool = False) -> torch.Tensor:
    longest = max(map(len, rows))
    filled = [[value] * (longest - len(row)) for row in rows]
    return torch.tensor([gap + row if left else row + gap for gap, row in zip(filled, rows, strict=True)])


class Peak:
    """The most memory in use, in bytes: of the accelerator, or resident, looked at every few milliseconds."""

    def __init__(self, device: str) -> None:
        self.device, self.most = device, 0
        if device == "cpu":
            threading.Thread(target=self._watch, daemon=True).start()

    def now(self) -> int:
        """In use at this moment."""
        if self.device != "cpu":
            return int(torch.cuda.memory_allocated())
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE

    def reset(self) -> None:
        """Forget what was."""
        self.most = self.now()
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats()

    def read(self) -> int:
        """The most since the last ``reset``."""
        return self.most if self.device == "cpu" else int(torch.cuda.max_memory_allocated())

    def _watch(self) -> None:
        while True:
            time.sleep(0.005)
            self.most = max(self.most, self.now())


def main(side: str, folder: Path) -> None:
    """Answer each line of standard input, a number of steps, by a line of what they took."""
    settings = json.loads((folder / "settings.json").read_text())
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever libraries print must not stand among the answers
    torch.set_num_threads(settings["threads"])
    clock = time.process_time if settings["device"] == "cpu" else time.perf_counter
    peak = Peak(settings["device"])
    before = peak.now()
    step = trl_step(folder, settings) if side == "trl" else turnwise_step(folder, settings, side)
    print(json.dumps({"loaded": peak.now() - before}), file=answers)
    for line in sys.stdin:
        peak.reset()
        began = clock()
        for _ in range(int(line)):
            loss, norm = step()
        if settings["device"] != "cpu":
            torch.cuda.synchronize()
        seconds = clock() - began
        answer = {"seconds": seconds, "loss": loss, "norm": norm, "peak": peak.read() - before}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
