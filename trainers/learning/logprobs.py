"""Log-probabilities of given tokens under a model: the one forward pass that every trainer uses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import UsageError
from ...inference.precision import autocast_to
from .rows import Layout, Rows
from .token_logprobs import chosen_logp
from .utterances import Utterance, pack_utterances


@dataclass(frozen=True, slots=True)
class Scores:
    """A model's scores of the tokens of some rows, on the model's device.

    Args:
        logp: log-probability of each sampled token, 0 on context, ``[T]``; with gradient if it was recorded.
        entropy: entropy in nats of the distribution each sampled token was drawn from, 0 on context.
    """

    logp: Tensor
    entropy: Tensor


def score(
    model: Any,
    rows: Rows,
    *,
    temperature: float = 1.0,
    entropy_gradient: bool = False,
    layout: Layout = "padded",
    autocast: torch.dtype | None = None,
) -> Scores:
    """Score the sampled tokens of ``rows`` in one forward pass.

    A token sees every token before it in its row, trained on or not (traps.md, trap 27), and no other row.
    Logits become 32-bit before the softmax and are divided by the sampling temperature, so that trainer and sampler
    have the same distribution (trap 17).

    Args:
        model: a causal language model, ``model(input_ids=).logits``.
        rows: rows that fit in memory together; see ``Rows.microbatches``.
        temperature: sampling temperature; 0 (greedy) counts as 1.
        entropy_gradient: keep the entropies' graph; without it they are detached.
        layout: ``"packed"`` puts all rows in one sequence, without padding. The model then has to tell rows apart by
            ``position_ids`` that restart at 0, as those of transformers do.
        autocast: precision of matrix products, in a model of any precision.

    Raises:
        UsageError: the layout is packed, and the model takes no ``position_ids``.
    """
    device = next(model.parameters()).device
    known = inspect.signature(model.forward).parameters
    inputs, place_N, kept = _laid_out(rows, layout)
    if "logits_to_keep" in known:
        inputs["logits_to_keep"] = kept
        rank = torch.zeros(int(kept[-1]) + 1 if kept.numel() else 0, dtype=torch.long)
        rank[kept] = torch.arange(kept.numel())
        longest = inputs["input_ids"].shape[1]
        place_N = place_N // longest * kept.numel() + rank[place_N % longest]
    if layout == "packed" and "position_ids" not in known:
        raise UsageError(
            f"{type(model).__name__} takes no position_ids, so rows in one sequence would see each other; "
            'use layout "padded"'
        )
    arguments: dict[str, Any] = {name: value.to(device) for name, value in inputs.items()}
    if "use_cache" in known:
        arguments["use_cache"] = False
    with autocast_to(autocast, device):
        logits = model(**arguments).logits.flatten(0, 1)
    ids_N, mask = rows.ids[rows.mask].to(device), rows.mask.to(device)
    logp_N, entropy_N = chosen_logp(
        logits, place_N.to(device), ids_N, temperature or 1.0, entropy_gradient=entropy_gradient
    )
    blank = torch.zeros(len(rows), device=device)
    return Scores(blank.masked_scatter(mask, logp_N), blank.masked_scatter(mask, entropy_N))


@torch.no_grad()
def refuse_unless_packable(model: Any) -> None:
    """Check that the model separates packed rows: some take ``position_ids`` and still attend across rows.

    Raises:
        UsageError: the content of one row changes the model's output in the next.
    """
    one, other = (_behind(model, first) for first in (0, 1))
    rounding = 1e-5 if next(model.parameters()).dtype == torch.float32 else 0.02
    if float((one - other).abs().max()) > rounding * float(one.abs().max()):
        raise UsageError(
            f"{type(model).__name__} reads across rows that stand in one sequence, whatever position_ids say: it would "
            'be trained on what the policy never saw; use optimizer.layout = "padded"'
        )


def _behind(model: Any, first: int) -> Tensor:
    """Return log-probabilities of the same few tokens in a row after another one, all of whose tokens are ``first``."""
    rows = (Utterance((first,), (first,) * 3, (0.0,) * 3), Utterance((0,), (1, 0, 1), (0.0,) * 3))
    return score(model, pack_utterances(rows), layout="packed").logp[-3:]


def _laid_out(rows: Rows, layout: Layout) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return the model's inputs, the output index that predicts each sampled token, and the columns of these tokens.

    The logits at position p predict the token at p + 1; a row's first token is context, so p is never −1. Padding is
    on the right, where a causal model cannot see it, so no attention mask is needed. Without a mask, attention skips
    everything above the diagonal instead of computing and masking it.
    """
    if layout == "packed":
        place_N = rows.mask.nonzero()[:, 0] - 1
        return {"input_ids": rows.ids[None], "position_ids": rows.positions()[None]}, place_N, place_N
    padded = rows.padded()
    place_N = padded.flat_T[rows.mask] - 1
    return {"input_ids": padded.ids_BL}, place_N, torch.unique(place_N % padded.ids_BL.shape[1])
