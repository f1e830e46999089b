"""Attention: which kernel computes it, and how rows that share one sequence are kept apart without a mask.

A mask of T tokens has T² numbers and shuts out the fused kernels. Rows need none: a token sees what stands before it in
its row. The functions here are registered with transformers under names of their own.
They compute what ``sdpa`` computes, to the bit, unless a forward pass names the rows of its sequence (``rows_apart``).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.utils.import_utils import is_flash_attn_2_available, is_flash_attn_3_available

from ..errors import UsageError

Attention = Literal["auto", "flash", "flex", "sdpa", "eager", "flash_attention_2"]
Kernel = Literal["auto", "flash", "sdpa"]

NAMES: dict[Kernel, str] = {"auto": "turnwise", "flash": "turnwise_flash", "sdpa": "turnwise_sdpa"}
"""Names of our functions among those of transformers, by the kernel for rows in one sequence."""
SEPARABLE = {"full_attention", "sliding_attention"}
"""Kinds of layers that our functions compute for several rows; others keep the mask of transformers."""
WIDEST = 256
"""Largest width of a head in the fused kernels."""
LONG = 4096
"""Mean tokens of rows from which on they are faster alone on a Hopper GPU; see ``faster_alone``."""
_apart: ContextVar[bool] = ContextVar("rows apart", default=False)


@dataclass(frozen=True, slots=True)
class Segments:
    """The rows of one sequence.

    Args:
        lengths: tokens of each row.
        ends: 0, and the index after each row, 32-bit, on the model's device.
    """

    lengths: tuple[int, ...]
    ends: Tensor


def transformers_name(choice: Attention, device: torch.device) -> str | None:
    """Return the implementation to load a model with, as transformers calls it; ``None`` for the model's own.

    Args:
        choice: the setting.
        device: device of the model.

    Raises:
        UsageError: there is no such kernel here; the message says what to choose instead.
    """
    if choice == "flex" and device.type == "cpu":
        raise UsageError("attention = flex has no gradient on a CPU; choose auto or sdpa, which need no mask either")
    if choice == "flash_attention_2" and not is_flash_attn_2_available():
        raise UsageError("attention = flash_attention_2 needs the package flash-attn and a GPU; choose auto or sdpa")
    if choice != "flash":
        names = {"auto": None, "flex": "flex_attention"}
        return names.get(choice, choice)
    if device.type != "cuda":
        raise UsageError(f"attention = flash is for a GPU, and the device is {device}; choose auto or sdpa")
    if varlen_kernel() is not None:
        return "sdpa"
    packages: dict[str, Any] = {
        "flash_attention_3": is_flash_attn_3_available,
        "flash_attention_2": is_flash_attn_2_available,
    }
    for name, available in packages.items():
        if available():
            return name
    raise UsageError(
        f"attention = flash needs torch.nn.attention.varlen with windows, which torch {torch.__version__} does not "
        "have, or the package flash-attn; choose auto or sdpa"
    )


def settle(model: Any, choice: Attention) -> None:
    """Give a loaded model the function of the setting, where it is ours."""
    settings: Any = getattr(model, "config", None)
    if choice in ("flash", "sdpa") and getattr(settings, "_attn_implementation", None) == "sdpa":
        settings._attn_implementation = NAMES["flash" if choice == "flash" else "sdpa"]


@contextmanager
def rows_apart(model: Any, lengths: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the arguments that keep the rows of one sequence apart in the model's attention, beside ``position_ids``.

    Within the block, a model whose attention is ours builds no mask. One with ``sdpa`` gets it, if all of its layers
    are of kinds that it computes. Any other model separates rows in its own way, or not at all: see
    ``logprobs.refuse_unless_packable``.

    Args:
        model: a causal language model.
        lengths: tokens of each row, in order.
    """
    settings: Any = getattr(model, "config", None)
    if getattr(settings, "_attn_implementation", None) == "sdpa" and _separable(settings):
        settings._attn_implementation = NAMES["auto"]
    name = str(getattr(settings, "_attn_implementation", None))
    ours = name in NAMES.values() and _separable(settings)
    if not ours and not name.startswith("flash_attention"):
        yield {}
        return
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    ends = ends.to(next(model.parameters()).device)
    if not ours:
        longest = max(lengths, default=0)
        yield {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": longest, "max_length_k": longest}
        return
    token = _apart.set(True)
    try:
        yield {"row_segments": Segments(tuple(lengths), ends)}
    finally:
        _apart.reset(token)


@cache
def varlen_kernel() -> Callable[..., Tensor] | None:
    """Return torch's attention over rows of any length, or ``None`` if this torch has none that takes windows."""
    try:
        found: Callable[..., Tensor] = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    except (ImportError, AttributeError):
        return None
    return found if {"window_size", "scale"} <= set(inspect.signature(found).parameters) else None


def _separable(settings: Any) -> bool:
    """Return whether all layers of a model are of kinds that our functions compute row by row."""
    text = settings.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or SEPARABLE)
    other = ("attention_chunk_size", "use_bidirectional_attention")
    return kinds <= SEPARABLE and not any(getattr(text, name, None) for name in other)


def _mask(**arguments: Any) -> Tensor | None:
    """Build the mask of ``sdpa``; none where rows are named."""
    return None if _apart.get() else sdpa_mask(**arguments)


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    kernel: Kernel,
    row_segments: Segments | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute attention; of each row alone, if the rows are named. Queries are ``[1, heads, T, width]`` then."""
    options |= {"sliding_window": sliding_window}
    if row_segments is None or attention_mask is not None:
        found: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return found
    if not (options.get("is_causal") or getattr(module, "is_causal", True)) or options.get("position_bias") is not None:
        raise UsageError(
            f"{type(module).__name__} reads forward or has biases of positions, so rows cannot share a sequence; "
            'use optimizer.layout = "padded"'
        )
    return _apart_rows(module, query, key, value, row_segments, kernel, sliding_window, options), None


@torch.compiler.disable  # type: ignore[untyped-decorator]  # it would compile again for each number of rows
def _apart_rows(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    row_segments: Segments,
    kernel: Kernel,
    sliding_window: int | None,
    options: dict[str, Any],
) -> Tensor:
    """Compute the rows of one sequence, by torch's kernel for all of them or one by one."""
    chosen = kernel == "auto" and sliding_window is None and query.is_cuda
    alone = chosen and faster_alone(row_segments.lengths, torch.cuda.get_device_capability(query.device))
    if kernel != "sdpa" and not alone and _fits_varlen(query, required=kernel == "flash"):
        return _varlen(query, key, value, row_segments, options.get("scaling"), sliding_window)
    rows, first = [], 0
    for length in row_segments.lengths:
        row = slice(first, first + length)
        rows.append(_row(module, query[:, :, row], key[:, :, row], value[:, :, row], sliding_window, options))
        first += length
    return torch.cat(rows, 1)


def faster_alone(lengths: Sequence[int], capability: tuple[int, int]) -> bool:
    """Return whether SDPA, row by row, is faster than torch's kernel for all rows.

    From Hopper on, SDPA is cuDNN's kernel, at twice the FLOP/s. Each row is a call of its own, which short rows do not
    repay. On an H200, updates of Qwen3-0.6B read 37.9k against 31.5k tokens/s in rows of 8,192 tokens, and 37.3k
    against 40.8k in rows of 2,048 (docs/hardware.md).

    Args:
        lengths: tokens of each row.
        capability: compute capability of the GPU.
    """
    return capability >= (9, 0) and sum(lengths) >= LONG * len(lengths)


def _row(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, window: int | None, options: dict[str, Any]
) -> Tensor:
    """Compute one row, ``[1, L, heads, width]``: causal, and in blocks of a window where it is longer than that."""
    length = query.shape[2]
    if window is None or length <= window:
        whole: Tensor = sdpa_attention_forward(module, query, key, value, None, **options)[0]
        return whole
    blocks, place_L = [], torch.arange(length, device=query.device)
    for first in range(0, length, window):
        asks, seen = slice(first, first + window), slice(max(0, first - window + 1), first + window)
        behind = place_L[asks, None] - place_L[None, seen]
        mask = ((behind >= 0) & (behind < window))[None, None]
        blocks.append(
            sdpa_attention_forward(module, query[:, :, asks], key[:, :, seen], value[:, :, seen], mask, **options)[0]
        )
    return torch.cat(blocks, 1)


def _fits_varlen(query: Tensor, *, required: bool) -> bool:
    """Return whether torch's kernel computes these queries.

    Raises:
        UsageError: it does not, and the setting requires it.
    """
    half = _computed_in(query) in (torch.bfloat16, torch.float16)
    fits = half and query.shape[-1] <= WIDEST and query.shape[-1] % 8 == 0 and varlen_kernel() is not None
    if required and not fits:
        raise UsageError(
            f"attention = flash computes in 16 bits, in heads of at most {WIDEST} numbers, and here are "
            f"{str(_computed_in(query)).removeprefix('torch.')} and {query.shape[-1]}: set "
            "optimizer.autocast=bfloat16, or hardware.attention=sdpa"
        )
    return fits and query.is_cuda


def _varlen(
    query: Tensor, key: Tensor, value: Tensor, segments: Segments, scale: float | None, window: int | None
) -> Tensor:
    """Compute all rows with torch's kernel, ``[1, T, heads, width]``."""
    kernel = varlen_kernel()
    assert kernel is not None
    options: dict[str, Any] = {"scale": scale, "window_size": (-1 if window is None else window - 1, 0)}
    if "enable_gqa" in inspect.signature(kernel).parameters:
        options["enable_gqa"] = True
    else:
        groups = query.shape[1] // key.shape[1]
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    q, k, v = (each[0].transpose(0, 1).to(_computed_in(query)) for each in (query, key, value))
    longest = max(segments.lengths)
    return kernel(q, k, v, segments.ends, segments.ends, longest, longest, **options)[None]


def _computed_in(query: Tensor) -> torch.dtype:
    """Return the precision in which attention computes; the rotation of queries leaves 32 bits under autocast."""
    device = query.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype


for _kernel, _name in NAMES.items():
    AttentionInterface.register(_name, partial(_attention, kernel=_kernel))
    AttentionMaskInterface.register(_name, _mask)
