"""A language model guided by token values: ``log π_β + β·(min(Q₁, Q₂) − V)``, sampled as any other model is."""

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
from .kv_cache import empty_cache

GUIDE, VALUES = "value_guided.json", "values.safetensors"
"""The files beside a model's weights that make its folder one of a guided model."""
FORMAT = "turnwise-value-guided/1"


class ValueHeads(nn.Module):
    """One or two Q heads over the vocabulary, and a V head, on hidden states: two layers each, 0 at first.

    Args:
        hidden: width H of the states.
        vocabulary: V.
        critics: how many Q heads; their minimum is what guides (ILQL has 2, Monte-Carlo regression 1).
        states: whether there is a V head; without one V is 0, which changes no distribution.
        seed: the weights are a pure function of it; the global generator is left as it was.
    """

    def __init__(self, hidden: int, vocabulary: int, *, critics: int = 2, states: bool = True, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.q = nn.ModuleList(_head(hidden, vocabulary) for _ in range(critics))
            self.v = _head(hidden, 1) if states else None

    @torch.no_grad()
    def start_at(self, value: float) -> None:
        """Let every Q and V of fresh heads be ``value``.

        At the least return of the data, what is never shown looks no better than anything that is; at 0, where returns
        are negative, it would look better than all.
        """
        for head in (*self.q, *([] if self.v is None else [self.v])):
            head[-1].bias.fill_(value)

    def action_values(self, hidden: Tensor) -> Tensor:
        """Q of every next token, ``[critics, …, V]`` in 32 bits, from states ``[…, H]``."""
        return torch.stack([head(hidden.float()) for head in self.q])

    def state_values(self, hidden: Tensor) -> Tensor:
        """V of states ``[…, H]``, ``[…]`` in 32 bits."""
        if self.v is None:
            return torch.zeros(hidden.shape[:-1], device=hidden.device)
        return self.v(hidden.float())[..., 0]  # type: ignore[no-any-return]


class ActionValues(nn.Module):
    """Value heads, and the backbone whose last hidden states they read.

    Args:
        heads: see ``ValueHeads``.
        backbone: a transformer of its own, as ``policy.base_model`` is; ``None`` to read the policy's states.
    """

    def __init__(self, heads: ValueHeads, backbone: nn.Module | None) -> None:
        super().__init__()
        self.heads = heads
        self.backbone = backbone

    @classmethod
    def of(
        cls, policy: Any, *, critics: int = 2, states: bool = True, share_backbone: bool = False, seed: int = 0
    ) -> ActionValues:
        """Fresh heads on a policy's backbone, or on a copy of it that may learn apart (as LMRL-Gym's do).

        They are 32-bit, whatever the policy is stored in: targets that follow by half a percent at a time would never
        move in 16 bits, where that much is less than the distance between two numbers.
        """
        vocabulary, hidden = policy.get_output_embeddings().weight.shape
        heads = ValueHeads(hidden, vocabulary, critics=critics, states=states, seed=seed)
        backbone = None if share_backbone else copy.deepcopy(policy.base_model).requires_grad_(True)
        return cls(heads, backbone).to(next(policy.parameters()).device, torch.float32).eval()


@dataclass(slots=True)
class GuidedOutput:
    """What a pass gives: logits ``[B, kept, V]``, the log-probabilities of the guided distribution up to a constant."""

    logits: Tensor
    past_key_values: Cache | None = None


class ValueGuidedModel(nn.Module):
    """A cloned policy whose next token is drawn from ``softmax(log π_β + β·(min(Q₁, Q₂) − V))``.

    The policy extraction of ILQL (arXiv 2206.11871, §4.3) and LMRL-Gym (arXiv 2311.18232). V shifts all logits of a
    position alike: it leaves the distribution as it is, and the numbers near those of the policy.

    Args:
        policy: π_β, a causal language model.
        values: Q and V.
        beta: β, how far values count; 0 is the policy itself.

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
        """Where the model is."""
        return next(self.policy.parameters()).device  # type: ignore[no-any-return]

    @property
    def all_tied_weights_keys(self) -> dict[str, str]:
        """Which of the policy's weights are the same tensor, by the names that they have in here."""
        tied = getattr(self.policy, "all_tied_weights_keys", None) or {}
        return {f"policy.{name}": f"policy.{other}" for name, other in dict(tied).items()}

    def get_input_embeddings(self) -> Any:
        """The policy's."""
        return self.policy.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> GuidedOutput:
        """One pass of policy and values, as transformers' causal models are called.

        The cache holds the layers of the policy, and after them those of the values' own backbone.
        """
        shown = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        shared = self.values.backbone is None
        own, other = (past_key_values, None) if shared else _halves(past_key_values)
        output = self.policy(
            **shown,
            past_key_values=own,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            output_hidden_states=shared,
        )
        if self.values.backbone is None:
            hidden = output.hidden_states[-1]
        else:
            hidden = self.values.backbone(**shown, past_key_values=other, use_cache=use_cache).last_hidden_state
        if past_key_values is not None and own is not None and other is not None:
            past_key_values.layers = [*own.layers, *other.layers]
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        hidden = hidden[:, kept]
        advantage = self.values.heads.action_values(hidden).amin(0) - self.values.heads.state_values(hidden)[..., None]
        logits = output.logits.float().log_softmax(-1) + self.beta * advantage
        return GuidedOutput(logits, past_key_values)

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, state_dict: Mapping[str, Tensor] | None = None
    ) -> None:
        """Write the policy as any model, and the values beside it; ``load_model`` makes a guided model of the two.

        Args:
            folder: a new one, or one to write into.
            state_dict: written instead of the model's own weights.
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
    """The policy, guided by the values that are saved beside it; as it is where there are none.

    Args:
        policy: as it was read from ``folder``.
        folder: a model's folder.

    Raises:
        ModelError: the values are there and cannot be read, or do not fit the policy.
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
    """The two models' parts of one cache: both have as many layers, since one's backbone is a copy of the other's."""
    if cache is None:
        return None, None
    middle = len(cache.layers) // 2
    first, second = empty_cache(), empty_cache()
    first.layers, second.layers = cache.layers[:middle], cache.layers[middle:]
    return first, second
