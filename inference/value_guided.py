"""A language model guided by token values, ``log π_β + β·(min(Q₁, Q₂) − V)``, that samples like any other model."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.cache_utils import Cache

from ..errors import ModelError
from .kv_cache import cache_argument, empty_cache

GUIDE, VALUES = "value_guided.json", "values.safetensors"
"""Files beside a model's weights that turn its folder into that of a guided model."""
FORMAT = "turnwise-value-guided/1"


class ValueHeads(nn.Module):
    """One or two Q heads over the vocabulary and a V head on hidden states, of two layers each; they start at 0.

    Args:
        hidden: width H of the hidden states.
        vocabulary: vocabulary size V.
        critics: number of Q heads; their minimum guides the policy (ILQL has 2, Monte-Carlo regression 1).
        states: whether there is a V head; without one V is 0, which changes no distribution.
        seed: seed of the weights; the global generator is unchanged.
    """

    def __init__(self, hidden: int, vocabulary: int, *, critics: int = 2, states: bool = True, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.q = nn.ModuleList(_head(hidden, vocabulary) for _ in range(critics))
            self.v = _head(hidden, 1) if states else None

    @torch.no_grad()
    def start_at(self, value: float) -> None:
        """Initialize every Q and V of new heads to ``value``.

        With the smallest return of the data, actions that the data lack look no better than any that it has. With 0
        and negative returns, they would look better than all others.
        """
        for head in (*self.q, *([] if self.v is None else [self.v])):
            head[-1].bias.fill_(value)

    def action_values(self, hidden: Tensor) -> Tensor:
        """Return Q of every next token, ``[critics, …, V]`` in 32 bits, for hidden states ``[…, H]``."""
        return torch.stack([head(hidden.float()) for head in self.q])

    def state_values(self, hidden: Tensor) -> Tensor:
        """Return V of hidden states ``[…, H]``, as ``[…]`` in 32 bits."""
        if self.v is None:
            return torch.zeros(hidden.shape[:-1], device=hidden.device)
        return self.v(hidden.float())[..., 0]  # type: ignore[no-any-return]


class ActionValues(nn.Module):
    """Value heads and the backbone whose last hidden states they read.

    Args:
        heads: Q and V heads.
        backbone: separate transformer like ``policy.base_model``; ``None`` to read the policy's hidden states.
    """

    def __init__(self, heads: ValueHeads, backbone: nn.Module | None) -> None:
        super().__init__()
        self.heads = heads
        self.backbone = backbone

    @classmethod
    def of(
        cls, policy: Any, *, critics: int = 2, states: bool = True, share_backbone: bool = False, seed: int = 0
    ) -> ActionValues:
        """Create new heads on a policy's backbone, or on a copy of it that learns separately, as in LMRL-Gym.

        They are always 32-bit. Target networks move by half a percent at a time, and in 16 bits so small a change is
        less than the distance between two numbers.
        """
        vocabulary, hidden = policy.get_output_embeddings().weight.shape
        heads = ValueHeads(hidden, vocabulary, critics=critics, states=states, seed=seed)
        backbone = None if share_backbone else copy.deepcopy(policy.base_model).requires_grad_(True)
        return cls(heads, backbone).to(next(policy.parameters()).device, torch.float32).eval()


@dataclass(slots=True)
class GuidedOutput:
    """Result of a forward pass: logits ``[B, kept, V]``, the guided log-probabilities up to a constant."""

    logits: Tensor
    cache: Cache | None = None


class ValueGuidedModel(nn.Module):
    """A cloned policy whose next token is drawn from ``softmax(log π_β + β·(min(Q₁, Q₂) − V))``.

    The policy extraction of ILQL (arXiv 2206.11871, §4.3) and LMRL-Gym (arXiv 2311.18232). V shifts all logits of a
    position equally. It does not change the distribution, but keeps the logits close to those of the policy.

    Args:
        policy: causal language model π_β.
        values: Q and V.
        beta: weight β of the values; 0 is the policy itself.

    Raises:
        ModelError: β is negative.
    """

    def __init__(self, policy: Any, values: ActionValues, *, beta: float) -> None:
        super().__init__()
        if not 0 <= beta < float("inf"):
            raise ModelError(f"beta must not be negative; got {beta}")
        self.policy = policy
        self.values = values
        self.beta = beta
        self.config = policy.config
        self.generation_config = getattr(policy, "generation_config", None)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.policy.parameters()).device  # type: ignore[no-any-return]

    @property
    def all_tied_weights_keys(self) -> dict[str, str]:
        """Names of the policy's weights that share one tensor, as they are in this model."""
        tied = getattr(self.policy, "all_tied_weights_keys", None) or {}
        return {f"policy.{name}": f"policy.{other}" for name, other in dict(tied).items()}

    def get_input_embeddings(self) -> Any:
        """Return the input embeddings of the policy."""
        return self.policy.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> GuidedOutput:
        """Run policy and values, with the arguments of transformers' causal models.

        The cache has the layers of the policy, followed by those of the values' separate backbone.
        """
        shown = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        shared = self.values.backbone is None
        own, other = (cache, None) if shared else _halves(cache)
        output = self.policy(
            **shown,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            output_hidden_states=shared,
            **cache_argument(self.policy, own),
        )
        if self.values.backbone is None:
            hidden = output.hidden_states[-1]
        else:
            backbone = self.values.backbone
            hidden = backbone(**shown, use_cache=use_cache, **cache_argument(backbone, other)).last_hidden_state
        if cache is not None and own is not None and other is not None:
            cache.layers = [*own.layers, *other.layers]
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        hidden = hidden[:, kept]
        advantage = self.values.heads.action_values(hidden).amin(0) - self.values.heads.state_values(hidden)[..., None]
        logits = output.logits.float().log_softmax(-1) + self.beta * advantage
        return GuidedOutput(logits, cache)

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, state_dict: Mapping[str, Tensor] | None = None
    ) -> None:
        """Write the policy like any model, and the values beside it; ``load_model`` reads both as a guided model.

        Args:
            folder: folder to write to; created if it does not exist.
            state_dict: weights to write instead of the model's own.
        """
        own = self.state_dict() if state_dict is None else state_dict
        parts = {
            part: {name.removeprefix(part): tensor for name, tensor in own.items() if name.startswith(part)}
            for part in ("policy.", "values.")
        }
        self.policy.save_pretrained(folder, state_dict=parts["policy."])
        values = {name: tensor.detach().contiguous().clone() for name, tensor in parts["values."].items()}
        save_file(values, Path(folder, VALUES))
        described = {
            "format": FORMAT,
            "beta": self.beta,
            "critics": len(self.values.heads.q),
            "states": self.values.heads.v is not None,
            "share_backbone": self.values.backbone is None,
        }
        Path(folder, GUIDE).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


def guided(policy: Any, folder: str | os.PathLike[str]) -> Any:
    """Return the policy guided by the values that are saved beside it, or the policy itself if there are none.

    Args:
        policy: causal language model that was read from ``folder``.
        folder: folder of the model.

    Raises:
        ModelError: the folder has values that cannot be read or do not fit the policy.
    """
    path = Path(folder, GUIDE)
    if not path.is_file():
        return policy
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        if described["format"] != FORMAT:
            raise ModelError(f"{path} has format {described['format']!r}; this version reads {FORMAT}")
        values = ActionValues.of(
            policy,
            critics=int(described["critics"]),
            states=bool(described["states"]),
            share_backbone=bool(described["share_backbone"]),
        )
        values.load_state_dict(load_file(Path(folder, VALUES)))
        return ValueGuidedModel(policy, values.requires_grad_(False), beta=float(described["beta"]))
    except ModelError:
        raise
    except Exception as error:  # json's, safetensors' and torch's own
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"cannot read the values that guide the model in {folder}: {line}; export it again, or remove {GUIDE} to "
            "use the policy alone"
        ) from error


def _head(hidden: int, out: int) -> nn.Sequential:
    last = nn.Linear(hidden, out)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), last)


def _halves(cache: Cache | None) -> tuple[Cache | None, Cache | None]:
    """Split a cache between policy and values, which have equally many layers: one backbone is a copy of the other."""
    if cache is None:
        return None, None
    middle = len(cache.layers) // 2
    first, second = empty_cache(), empty_cache()
    first.layers, second.layers = cache.layers[:middle], cache.layers[middle:]
    return first, second
