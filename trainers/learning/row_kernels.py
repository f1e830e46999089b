"""Triton kernels for rows of logits: what ``token_logprobs`` computes with torch, in one pass over the vocabulary.

Triton comes with torch's builds for GPUs. Without it, importing this module fails, and torch computes the same.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
"""Ids that a program reads at once; a power of 2."""


def measure(logits_NV: Tensor, ids_N: Tensor, temperature: float) -> Tensor:
    """See ``token_logprobs.measure``."""
    count, vocabulary = logits_NV.shape
    found_3N = torch.empty(3, count, device=logits_NV.device)
    logits_NV = logits_NV.contiguous()
    _launch(_measure, (count,), logits_NV, ids_N.contiguous(), found_3N, temperature, count, vocabulary)
    return found_3N


def slope(
    logits_NV: Tensor,
    ids_N: Tensor,
    norm_N: Tensor,
    entropy_N: Tensor,
    by_logp_N: Tensor | None,
    by_entropy_N: Tensor | None,
    temperature: float,
) -> Tensor:
    """See ``token_logprobs.slope``. The result takes the place of the logits."""
    logits_NV = logits_NV.contiguous()
    zero_N = torch.zeros_like(norm_N)
    by_logp_N = zero_N if by_logp_N is None else by_logp_N.float().contiguous()
    by_entropy_N = zero_N if by_entropy_N is None else by_entropy_N.float().contiguous()
    count, vocabulary = logits_NV.shape
    given = logits_NV, ids_N.contiguous(), norm_N.contiguous(), entropy_N.contiguous(), by_logp_N, by_entropy_N
    _launch(_slope, (count, triton.cdiv(vocabulary, BLOCK)), *given, temperature, vocabulary)
    return logits_NV


def _launch(kernel: Any, grid: tuple[int, ...], *arguments: Any) -> None:
    """Start a kernel, unless it has nothing to do."""
    if grid[0]:
        kernel[grid](*arguments, BLOCK)


@triton.jit  # type: ignore[untyped-decorator]
def _measure(logits, ids, found, temperature, count, vocabulary: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Measure one row. With m the largest z/τ so far: total = Σ exp(z/τ − m), moment = Σ exp(z/τ − m) (z/τ − m)."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * vocabulary
    largest = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    moment = tl.zeros((), tl.float32)
    for first in range(0, vocabulary, block):
        place = first + tl.arange(0, block)
        z = tl.load(start + place, mask=place < vocabulary, other=float("-inf")).to(tl.float32) / temperature
        now = tl.maximum(largest, tl.max(z, 0))
        known = tl.where(now == float("-inf"), 0.0, now)
        shift = tl.where(total > 0, largest - known, 0.0)
        scale = tl.exp(shift)
        weight = tl.exp(z - known)
        moment = scale * (moment + total * shift) + tl.sum(tl.where(weight > 0, weight * (z - known), 0.0), 0)
        total = scale * total + tl.sum(weight, 0)
        largest = now
    norm = largest + tl.log(total)
    chosen = tl.load(start + tl.load(ids + row)).to(tl.float32) / temperature
    tl.store(found + row, norm)
    tl.store(found + count + row, chosen - norm)
    tl.store(found + 2 * count + row, tl.log(total) - moment / total)


@triton.jit  # type: ignore[untyped-decorator]
def _slope(  # type: ignore[no-untyped-def]
    logits, ids, norms, entropies, by_logp, by_entropy, temperature, vocabulary: tl.constexpr, block: tl.constexpr
):
    """Replace a block of a row of logits by its gradient."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * block + tl.arange(0, block)
    inside = place < vocabulary
    z = tl.load(logits + row * vocabulary + place, mask=inside, other=float("-inf")).to(tl.float32) / temperature
    logp = z - tl.load(norms + row)
    p = tl.exp(logp)
    spread = tl.where(p > 0, p * (logp + tl.load(entropies + row)), 0.0)
    hit = tl.where(place == tl.load(ids + row), 1.0, 0.0)
    found = (tl.load(by_logp + row) * (hit - p) - tl.load(by_entropy + row) * spread) / temperature
    tl.store(logits + row * vocabulary + place, found, mask=inside)
