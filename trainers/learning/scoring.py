"""Log-probabilities of given tokens under a model: the one forward pass that every trainer uses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .entropy import entropy_of
from .rows import Rows


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says of the tokens of some rows, on the model's device.

    Args:
        logp: log-probability of each sampled token, 0 on context, ``[T]``; with gradient if it was recorded.
        entropy: entropy in nats of the distribution each sampled token was drawn from, 0 on context.
    """

    logp: Tensor
    entropy: Tensor


def score(model: Any, rows: Rows, *, temperature: float = 1.0, entropy_gradient: bool = False) -> Scores:
    """Score the sampled tokens of ``rows`` in one padded forward pass.

    The attention mask covers every real token: what an environment said is never trained on, but always read
    (algorithms.md, trap 27). Logits become 32-bit before the softmax, and are divided by the temperature that
    sampling used, so that both sides speak of the same distribution (trap 17).

    Args:
        model: a causal language model, ``model(input_ids=, attention_mask=).logits``.
        rows: at most as many as fit in memory; see ``Rows.microbatches``.
        temperature: of sampling; 0 (greedy) counts as 1.
        entropy_gradient: keep the entropies' graph; without it they are detached.
    """
    device = next(model.parameters()).device
    padded = rows.padded()
    longest = padded.ids_BL.shape[1]
    # The logits at position p judge the token at p + 1; a row's first token is context, so p is never −1.
    place_N = padded.flat_T[rows.mask] - 1
    kept, arguments = torch.arange(longest), {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        kept = torch.unique(place_N % longest)
        arguments = {"logits_to_keep": kept.to(device)}
    output = model(input_ids=padded.ids_BL.to(device), attention_mask=padded.attention_BL.to(device), **arguments)
    rank = torch.zeros(longest, dtype=torch.long)
    rank[kept] = torch.arange(kept.numel())
    chosen_N = place_N // longest * kept.numel() + rank[place_N % longest]
    logits_NV = output.logits.flatten(0, 1)[chosen_N.to(device)].float() / (temperature or 1.0)
    logp_NV = logits_NV.log_softmax(-1)
    mask = rows.mask.to(device)
    logp_N = logp_NV.gather(-1, rows.ids[rows.mask].to(device)[:, None])[:, 0]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropy_N = entropy_of(logp_NV)
    blank = torch.zeros(len(rows), device=device)
    return Scores(blank.masked_scatter(mask, logp_N), blank.masked_scatter(mask, entropy_N))
