"""Shared helpers of the tests of serving."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx
import torch
from safetensors.torch import load_file, save_file


class Score(Protocol):
    """Log-probabilities of an action after a prompt."""

    def __call__(self, prompt: Sequence[int], action: Sequence[int], temperature: float = 1.0, /) -> list[float]: ...


def scores(model: Any) -> Score:
    """Log-probabilities of an action by one plain forward pass of a model."""

    def score(prompt: Sequence[int], action: Sequence[int], temperature: float = 1.0, /) -> list[float]:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *action]])).logits[0].float()
        logprobs = torch.log_softmax(logits / temperature, dim=-1)
        return [float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(action)]

    return score


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something holds; a minute at most."""
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


async def sampled(url: str) -> float:
    """How many tokens a real server has sampled so far, by its own account."""
    async with httpx.AsyncClient() as client:
        metrics = (await client.get(f"{url}/metrics")).text
    return sum(float(value) for value in re.findall(r"^vllm:generation_tokens_total\S*\s+(\S+)", metrics, re.MULTILINE))


async def until_sampled(url: str, tokens: float) -> None:
    """Wait until a real server has sampled so many tokens, a minute at most: how soon depends on the machine."""
    for _ in range(6_000):
        if await sampled(url) >= tokens:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{url} has not sampled {tokens} tokens in a minute")


def adapter(model: Any, folder: Path, *, rank: int = 4, seed: int = 0) -> Path:
    """A random adapter for a model, in PEFT's format, that changes what it says."""
    generator, tensors = torch.Generator().manual_seed(seed), {}
    for name, weight in model.state_dict().items():
        if name.endswith(("q_proj.weight", "v_proj.weight")):
            layer, (rows, columns) = name.removesuffix(".weight"), weight.shape
            for part, shape in (("A", (rank, columns)), ("B", (rows, rank))):
                tensors[f"base_model.model.{layer}.lora_{part}.weight"] = torch.randn(shape, generator=generator)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    how = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank, "lora_dropout": 0.0}
    how |= {"target_modules": ["q_proj", "v_proj"], "bias": "none", "base_model_name_or_path": ""}
    (folder / "adapter_config.json").write_text(json.dumps(how))
    return folder


def merged(model: Any, folder: Path) -> Any:
    """A copy of a model with an adapter added into its weights."""
    how, tensors = (
        json.loads((folder / "adapter_config.json").read_text()),
        load_file(folder / "adapter_model.safetensors"),
    )
    twin = copy.deepcopy(model)
    weights = twin.state_dict()
    for name, low in tensors.items():
        if "lora_A" in name:
            whole = name.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
            high = tensors[name.replace("lora_A", "lora_B")]
            weights[whole] += (high @ low) * how["lora_alpha"] / how["r"]
    return twin
