"""Log-probabilities of given tokens under a model: the one forward pass that every trainer uses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...inference.attention import rows_apart
from ...inference.precision import autocast_to
from .activations import layers_as
from .head_logprobs import head_logp
from .output_layer import output_layer, replaced
from .rows import Layout, Rows
from .token_logprobs import chosen_logp
from .utterances import Utterance, pack_utterances

Logits = Literal["auto", "whole", "chunked"]
"""Whether logits exist as a whole, or a chunk of tokens at a time; ``auto`` is by chunks from ``LARGE`` ids on."""
LARGE = 8192
"""Size of a vocabulary from which on logits take more memory than a product of the output layer is worth."""


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
    logits: Logits = "auto",
    head: torch.dtype | None = None,
    compiled: bool = False,
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
        layout: ``"packed"`` puts all rows in one sequence, without padding. Attention then computes each row alone
            (``inference/attention.py``), or the model has to tell rows apart by ``position_ids`` that restart at 0.
        autocast: precision of matrix products, in a model of any precision.
        logits: whether logits exist as a whole, see ``Logits``.
        head: precision of the output layer's product; ``None`` is that of the others.
        compiled: whether layers run as compiled code; see ``activations.layers_as``.

    Raises:
        UsageError: the layout is packed, and the model takes no ``position_ids``; or the output layer is not a plain
            one, and ``logits`` or ``head`` need one.
    """
    device, temperature = next(model.parameters()).device, temperature or 1.0
    layer = _plain_layer(model, logits, head)
    chunked = layer is not None and logits != "whole" and (logits == "chunked" or layer.out_features >= LARGE)
    arguments, place_N = _arguments(model, rows, layout, every_position=chunked)
    place_N, ids_N, mask = place_N.to(device), rows.ids[rows.mask].to(device), rows.mask.to(device)

    def measured(hidden_BLH: Tensor) -> Tensor:
        assert layer is not None
        dtype, hidden_NH = head or autocast or layer.weight.dtype, hidden_BLH.flatten(0, 1)[place_N]
        options: dict[str, Any] = {"bias_V": layer.bias, "dtype": dtype, "entropy_gradient": entropy_gradient}
        return torch.stack(head_logp(hidden_NH, layer.weight, ids_N, temperature, **options))

    instead = measured if chunked else None if head is None else _product_in(layer, head)
    standing_in: AbstractContextManager[None] = (
        replaced(layer, instead) if layer is not None and instead is not None else nullcontext()
    )
    with autocast_to(autocast, device), standing_in, _running(model, rows, layout, compiled) as separating:
        found = model(**arguments, **separating).logits
    if chunked:
        logp_N, entropy_N = found.unbind()
        entropy_N = entropy_N if entropy_gradient else entropy_N.detach()
    else:
        found_PV, gradient = found.flatten(0, 1), entropy_gradient
        logp_N, entropy_N = chosen_logp(found_PV, place_N, ids_N, temperature, entropy_gradient=gradient)
    blank = torch.zeros(len(rows), device=device)
    return Scores(blank.masked_scatter(mask, logp_N), blank.masked_scatter(mask, entropy_N))


def _arguments(model: Any, rows: Rows, layout: Layout, *, every_position: bool) -> tuple[dict[str, Any], Tensor]:
    """Return the model's arguments, and the output index that predicts each sampled token.

    Args:
        model: the model.
        rows: rows to read.
        layout: their layout.
        every_position: whether the output layer sees every position, and not only columns with a sampled token.

    Raises:
        UsageError: the layout is packed, and the model takes no ``position_ids``.
    """
    known = inspect.signature(model.forward).parameters
    inputs, place_N, kept = _laid_out(rows, layout)
    if "logits_to_keep" in known and not every_position:
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
    device = next(model.parameters()).device
    arguments: dict[str, Any] = {name: value.to(device) for name, value in inputs.items()}
    if "use_cache" in known:
        arguments["use_cache"] = False
    return arguments, place_N


def _plain_layer(model: Any, logits: Logits, head: torch.dtype | None) -> nn.Linear | None:
    """Return the output layer if something may stand in for it, and that is wanted.

    Raises:
        UsageError: a setting needs a plain layer, and the model has none.
    """
    if logits == "whole" and head is None:
        return None
    layer = output_layer(model, least=LARGE if logits == "auto" and head is None else 0)
    if layer is None and (logits == "chunked" or head is not None):
        setting = "logits = chunked" if logits == "chunked" else "head = float32"
        raise UsageError(
            f"optimizer.{setting} needs an output layer whose product is the logits, and {type(model).__name__} caps, "
            "scales or adapts it: leave the setting out"
        )
    return layer


@contextmanager
def _running(model: Any, rows: Rows, layout: Layout, compiled: bool) -> Iterator[dict[str, Any]]:
    """Yield arguments that keep packed rows apart, and run layers as compiled code if wanted, within the block."""
    running = layers_as(model, compiled=True) if compiled else nullcontext()
    apart: AbstractContextManager[Any] = rows_apart(model, row_lengths(rows)) if layout == "packed" else nullcontext({})
    with running, apart as separating:
        try:
            yield separating
        except RuntimeError as error:
            if not compiled or not type(error).__module__.startswith(("torch._inductor", "torch._dynamo")):
                raise
            raise UsageError(
                f"torch cannot compile the model's layers here ({str(error).partition(chr(10))[0]}): it needs a C "
                "compiler, and its cache (TORCHINDUCTOR_CACHE_DIR) to be whole; or set optimizer.compiled=false"
            ) from error


def _product_in(layer: nn.Linear | None, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return a linear layer's function in another precision."""
    assert layer is not None
    weight, bias = layer.weight, layer.bias

    def product(hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            return nn.functional.linear(hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))

    return product


def hidden_states(
    backbone: Any,
    rows: Rows,
    *,
    layout: Layout = "padded",
    autocast: torch.dtype | None = None,
    compiled: bool = False,
) -> Tensor:
    """Return the last hidden states that predict the sampled tokens, ``[N, H]``, in one forward pass.

    Args:
        backbone: causal model ``backbone(input_ids=).last_hidden_state``.
        rows: rows that fit in memory together.
        layout: their layout; see ``score``.
        autocast: precision of matrix products.
        compiled: whether layers run as compiled code.
    """
    device = next(backbone.parameters()).device
    inputs, place_N, _ = _laid_out(rows, layout)
    arguments = {name: each.to(device) for name, each in inputs.items()}
    with autocast_to(autocast, device), _running(backbone, rows, layout, compiled) as separating:
        found = backbone(**arguments, **separating, use_cache=False).last_hidden_state
    hidden_NH: Tensor = found.flatten(0, 1)[place_N.to(device)]
    return hidden_NH


@torch.no_grad()
def refuse_unless_packable(model: Any, autocast: torch.dtype | None = None) -> None:
    """Check that the model separates packed rows: some take ``position_ids`` and still attend across rows.

    Args:
        model: a causal language model.
        autocast: precision of matrix products, as it will be used.

    Raises:
        UsageError: the content of one row changes the model's output in the next.
    """
    one, other = (_behind(model, first, autocast) for first in (0, 1))
    rounding = 1e-5 if (autocast or next(model.parameters()).dtype) == torch.float32 else 0.02
    if float((one - other).abs().max()) > rounding * float(one.abs().max()):
        raise UsageError(
            f"{type(model).__name__} reads across rows that stand in one sequence, whatever position_ids say: it would "
            'be trained on what the policy never saw; use optimizer.layout = "padded"'
        )


def _behind(model: Any, first: int, autocast: torch.dtype | None) -> Tensor:
    """Return log-probabilities of the same few tokens in a row after another one, all of whose tokens are ``first``."""
    rows = (Utterance((first,), (first,) * 3, (0.0,) * 3), Utterance((0,), (1, 0, 1), (0.0,) * 3))
    return score(model, pack_utterances(rows), layout="packed", autocast=autocast).logp[-3:]


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


def row_lengths(rows: Rows) -> list[int]:
    """Return the number of tokens of each row, in order."""
    lengths: list[int] = torch.unique_consecutive(rows.row, return_counts=True)[1].tolist()
    return lengths
