"""Log-probabilities and entropies from hidden states and the output layer's weights: logits never exist as a whole.

Logits of 16,384 tokens over 151,936 ids are 4.6 GiB in 16 bits, and their gradient as much again. Here a chunk of
tokens is multiplied by the output layer, measured and dropped; the backward pass multiplies it again. That is a fourth
product beside three. On a GPU with Triton, ``row_kernels.py`` measures a chunk in one pass over it.

Liger's fused kernels were the alternative. Its cross entropy has neither temperature nor entropy, and its GRPO loss
contains the loss itself, so that ratios of turns, clips and corrections would have to be written again inside of it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from . import token_logprobs
from .token_logprobs import chunks

CHUNK_ON_GPU = 1 << 27
"""Numbers of a chunk of logits on a GPU: 883 tokens of 151,936 ids, enough for fast matrix products."""


def head_logp(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    ids_N: Tensor,
    temperature: float,
    *,
    bias_V: Tensor | None = None,
    dtype: torch.dtype | None = None,
    entropy_gradient: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of tokens and entropies in nats of their distributions, both ``[N]`` and 32-bit.

    The same as ``token_logprobs.chosen_logp`` of the product. Gradients of the weights are summed in 32 bits.

    Args:
        hidden_NH: hidden state of the position that predicts each token.
        weight_VH: weights of the output layer.
        ids_N: token ids.
        temperature: sampling temperature τ.
        bias_V: its biases.
        dtype: precision of the product (default: that of the weights).
        entropy_gradient: whether the entropies have a gradient.
    """
    dtype = dtype or weight_VH.dtype
    logp_N, entropy_N = _HeadLogp.apply(  # type: ignore[no-untyped-call]
        hidden_NH, weight_VH, bias_V, ids_N, temperature, dtype, entropy_gradient
    )
    return logp_N, entropy_N


class _HeadLogp(torch.autograd.Function):
    """The autograd function of ``head_logp``, with gradients written by hand."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        ids_N: Tensor,
        temperature: float,
        dtype: torch.dtype,
        entropy_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        found_3N = torch.zeros(3, ids_N.numel(), device=hidden_NH.device)
        with torch.autocast(hidden_NH.device.type, enabled=False):
            head = _Head(weight_VH, bias_V, dtype)
            for part in head.chunks(ids_N.numel()):
                logits_NV = head(hidden_NH[part])
                found_3N[:, part] = _rows(logits_NV).measure(logits_NV, ids_N[part], temperature)
        norm_N, logp_N, entropy_N = found_3N.unbind()
        ctx.save_for_backward(hidden_NH, weight_VH, bias_V, ids_N, norm_N, entropy_N)
        ctx.temperature, ctx.dtype = temperature, dtype
        ctx.set_materialize_grads(False)
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropy_N)
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden_NH, weight_VH, bias_V, ids_N, norm_N, entropy_N = ctx.saved_tensors
        needed = ctx.needs_input_grad
        by_hidden_NH = torch.zeros_like(hidden_NH) if needed[0] else None
        by_weight_VH = torch.zeros_like(weight_VH, dtype=torch.float32) if needed[1] else None
        by_bias_V = torch.zeros_like(bias_V, dtype=torch.float32) if needed[2] else None
        with torch.autocast(hidden_NH.device.type, enabled=False):
            head = _Head(weight_VH, bias_V, ctx.dtype)
            for part in head.chunks(ids_N.numel()):
                logits_NV = head(hidden_NH[part])
                by = [None if each is None else each[part] for each in gradients]
                by_logits_NV = _rows(logits_NV).slope(
                    logits_NV, ids_N[part], norm_N[part], entropy_N[part], by[0], by[1], ctx.temperature
                )
                if by_hidden_NH is not None:
                    by_hidden_NH[part] = (by_logits_NV @ head.weight_VH).to(hidden_NH.dtype)
                if by_weight_VH is not None:
                    _add_product(by_weight_VH, by_logits_NV.T, hidden_NH[part].to(ctx.dtype))
                if by_bias_V is not None:
                    by_bias_V += by_logits_NV.sum(0, dtype=torch.float32)
        # A gradient has the precision of its parameter.
        by_weight_VH = None if by_weight_VH is None else by_weight_VH.to(weight_VH.dtype)
        by_bias_V = None if by_bias_V is None else by_bias_V.to(bias_V.dtype)
        return by_hidden_NH, by_weight_VH, by_bias_V, None, None, None, None


class _Head:
    """The output layer in the precision of the product."""

    def __init__(self, weight_VH: Tensor, bias_V: Tensor | None, dtype: torch.dtype) -> None:
        self.weight_VH = weight_VH.to(dtype)
        self.bias_V = None if bias_V is None else bias_V.to(dtype)

    def __call__(self, hidden_NH: Tensor) -> Tensor:
        return nn.functional.linear(hidden_NH.to(self.weight_VH.dtype), self.weight_VH, self.bias_V)

    def chunks(self, count: int) -> list[slice]:
        """Split so many tokens into parts."""
        numbers = CHUNK_ON_GPU if self.weight_VH.is_cuda else token_logprobs.CHUNK
        return chunks(count, len(self.weight_VH), numbers)


def _add_product(total_VH: Tensor, left_VN: Tensor, right_NH: Tensor) -> None:
    """Add a matrix product to a sum of 32 bits."""
    if left_VN.dtype == total_VH.dtype:
        total_VH.addmm_(left_VN, right_NH)
    else:
        total_VH += left_VN @ right_NH


def _rows(logits_NV: Tensor) -> ModuleType:
    """Return the module that measures rows of logits: kernels on a GPU, if Triton is there."""
    if logits_NV.is_cuda:
        try:
            from . import row_kernels
        except ImportError:
            return token_logprobs
        return row_kernels
    return token_logprobs
