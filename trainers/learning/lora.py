"""LoRA: a frozen model with a trainable low-rank difference beside each of its linear layers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import peft
import pydantic
import torch
from peft.tuners.lora import LoraLayer
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ...config import Config
from ...errors import CheckpointError, UsageError
from ...inference.value_guided import ValueGuidedModel

NAME = "default"
WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
PREFIX = "base_model.model."
"""Prefix of every name in peft's own files."""


class LoraConfig(Config):
    """Layers with a low-rank difference, and its rank (arXiv 2106.09685): W + (alpha / rank) · B A."""

    rank: int = pydantic.Field(default=16, ge=1)
    """Rank of the difference."""
    alpha: float = pydantic.Field(default=32.0, gt=0)
    """Scale of the difference; its factor is alpha / rank."""
    targets: list[str] | None = pydantic.Field(default=None, min_length=1)
    """Names of the layers, such as ``q_proj`` (default: every linear layer but the output). Experts of a mixture are
    one tensor per layer, and take no adapters."""
    dropout: float = 0.0
    """Must be 0: with dropout the policy differs from itself, and every ratio from 1, before a single update."""

    @pydantic.model_validator(mode="after")
    def _no_dropout(self) -> Self:
        if self.dropout != 0:
            raise ValueError(
                f"lora.dropout = {self.dropout} would make the learner score other tokens than the policy sampled; "
                "leave it 0, and lower rank or optimizer.lr against overfitting"
            )
        return self


def attach(model: Any, config: LoraConfig, *, seed: int = 0) -> Any:
    """Freeze a model and give its layers adapters, in place; at first they have no effect, since B is 0.

    The model keeps its class and its ``forward``. Adapters are 32-bit in a model of any precision.

    Args:
        model: a model of transformers.
        config: settings of the adapters.
        seed: seed of A; the global generator keeps its state.

    Raises:
        UsageError: the model has no linear layers of one of these names, or is guided by values.
    """
    if isinstance(model, ValueGuidedModel):
        raise UsageError(
            "adapters are for a plain language model, and this one is guided by values of tokens: name the model that "
            "it was made from, or leave lora out"
        )
    _refuse_absent(model, config.targets or [])
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,  # type: ignore[arg-type]  # peft multiplies by it: any number will do
        target_modules=config.targets or _linear_layers(model),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            peft.inject_adapter_in_model(settings, model, adapter_name=NAME)
        except ValueError as error:
            raise UsageError(f"{type(model).__name__} takes no adapters: {error}") from error
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if "lora_" in name:
            parameter.data = parameter.data.float()
    return model.eval()


def _linear_layers(model: Any) -> str | list[str]:
    """Return peft's word for every linear layer; for a mixture, their names, since peft would wrap experts too."""
    if not _has_experts(model):
        return "all-linear"
    output = model.get_output_embeddings()
    layers = {name.rpartition(".")[2] for name, each in model.named_modules() if _linear(each) and each is not output}
    return sorted(layers)


def _has_experts(model: Any) -> bool:
    return any(each.ndim == 3 and ".experts." in name for name, each in model.named_parameters())


def _refuse_absent(model: Any, targets: Sequence[str]) -> None:
    """Refuse names of layers that the model does not have, which peft would ignore beside others.

    Raises:
        UsageError: it lacks one.
    """
    layers = [name for name, each in model.named_modules() if _linear(each)]
    missing = [target for target in targets if not any(f".{name}".endswith(f".{target}") for name in layers)]
    if not missing:
        return
    known = ", ".join(sorted({name.rpartition(".")[2] for name in layers})) or "(there are none)"
    text = f"lora.targets = {targets} does not fit {type(model).__name__}: its linear layers are called {known}"
    if _has_experts(model):
        text += (
            f". Its experts are one tensor per layer, and take no adapters: leave {', '.join(missing)} out, or train "
            "all weights"
        )
    raise UsageError(text)


def adapted(model: Any) -> bool:
    """Whether a model has adapters."""
    return any(isinstance(module, LoraLayer) for module in model.modules())


def merged(model: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of an ordinary model that computes the same as the adapted one.

    Args:
        model: model with adapters; only its structure is used.
        state: its weights, unsharded.
    """
    found = {name: value for name, value in state.items() if "lora_" not in name and ".base_layer." not in name}
    for name, layer in model.named_modules():
        if not isinstance(layer, LoraLayer):
            continue
        found[f"{name}.weight"] = base = state[f"{name}.base_layer.weight"]
        if NAME in layer.lora_A:  # a critic that shares the model may have adapters where the policy has none
            b, a = state[f"{name}.lora_B.{NAME}.weight"], state[f"{name}.lora_A.{NAME}.weight"]
            change = layer.scaling[NAME] * (b.float() @ a.float())
            change = change.T if getattr(layer, "fan_in_fan_out", False) else change
            found[f"{name}.weight"] = (base.float() + change).to(base.dtype)
        if f"{name}.base_layer.bias" in state:
            found[f"{name}.bias"] = state[f"{name}.base_layer.bias"]
    return {name: value.contiguous() for name, value in found.items()}


def of_policy(model: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a policy without the adapters of a critic that shares its model.

    Args:
        model: model with adapters; only its structure is used.
        state: its weights, unsharded.
    """
    found = {name: value for name, value in state.items() if "lora_" not in name or _own(name)}
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLayer) and NAME not in layer.lora_A:  # adapted for the critic alone
            for kind in ("weight", "bias"):
                if f"{name}.base_layer.{kind}" in found:
                    found[f"{name}.{kind}"] = found.pop(f"{name}.base_layer.{kind}")
    return found


def save_adapter(model: Any, state: Mapping[str, Tensor], folder: Path, *, base: Mapping[str, str]) -> None:
    """Write the adapters alone, as ``peft.PeftModel.from_pretrained`` reads them.

    Args:
        model: model with adapters; only its structure is used.
        state: its weights, unsharded.
        folder: output folder; it is created.
        base: where the frozen part came from: its ``path`` and the ``digest`` of its weights.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = adapter_weights(state)
    save_file({PREFIX + _public(name): value.contiguous() for name, value in own.items()}, folder / WEIGHTS)
    settings = json.loads(json.dumps(model.peft_config[NAME].to_dict(), default=sorted))
    settings |= {"base_model_name_or_path": base["path"], "inference_mode": True}
    (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n")
    (folder / "base.json").write_text(json.dumps(dict(base), indent=1) + "\n")


def adapter_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the policy's adapters among those of an adapted model."""
    return {name: value for name, value in state.items() if _own(name)}


def is_adapter(folder: Path | str) -> bool:
    """Whether ``save_adapter`` wrote this folder."""
    return Path(folder, SETTINGS).is_file() and Path(folder, "base.json").is_file()


def base_of(folder: Path | str) -> dict[str, str]:
    """Return what ``save_adapter`` recorded of the frozen part: its ``path`` and ``digest``."""
    found: dict[str, str] = json.loads(Path(folder, "base.json").read_text())
    return found


def load_adapter(model: Any, folder: Path | str) -> None:
    """Give the adapters of a model, made by ``attach``, the weights in a folder.

    Raises:
        CheckpointError: they are adapters of another shape, or cannot be read.
    """
    try:
        saved = load_file(Path(folder, WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the adapters in {folder} cannot be read: {error}") from error
    own = {name: parameter for name, parameter in model.named_parameters() if _own(name)}
    shapes = {PREFIX + _public(name): tuple(parameter.shape) for name, parameter in own.items()}
    if shapes != {name: tuple(value.shape) for name, value in saved.items()}:
        raise CheckpointError(f"the adapters in {folder} are not of the rank and targets in [lora]; set these back")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(saved[PREFIX + _public(name)])


def _own(name: str) -> bool:
    """Whether a weight belongs to the policy's adapter; a critic that shares the model keeps its own."""
    return "lora_" in name and f".{NAME}." in name


def _public(name: str) -> str:
    return name.replace(f".{NAME}.", ".")


def _linear(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
