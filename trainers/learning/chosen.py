"""Log-probability of a chosen token and entropy of its distribution, without keeping a softmax of the vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 1 << 24
"""Numbers in the largest temporary array (64 MiB of 32 bits): what a softmax over a large vocabulary costs at once."""


def chosen_logp(
    logits_PV: Tensor, place_N: Tensor, ids_N: Tensor, temperature: float, entropy_gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of tokens and entropies in nats, both ``[N]`` and 32-bit.

    With p = softmax(z/τ): ∂ log p_a / ∂z_v = (1[v = a] − p_v) / τ. The backward pass computes p again from the logits,
    chunk by chunk, so that neither pass keeps an array of the size of the logits beside them and their gradient.

    Args:
        logits_PV: of every position, in any precision; one softmax is taken per entry of ``place_N``.
        place_N: the position that judges each token.
        ids_N: the tokens.
        temperature: τ.
        entropy_gradient: keep the entropy's graph, by plain differentiation, which costs several arrays ``[N, V]``.
    """
    if entropy_gradient:
        logp_NV = (logits_PV[place_N].float() / temperature).log_softmax(-1)
        entropy_N = -(logp_NV.exp() * logp_NV).sum(-1)
        return logp_NV.gather(-1, ids_N[:, None])[:, 0], entropy_N
    logp_N, entropy_N = _Chosen.apply(logits_PV, place_N, ids_N, temperature)  # type: ignore[no-untyped-call]
    return logp_N, entropy_N


class _Chosen(torch.autograd.Function):
    """The gradient of ``chosen_logp`` by hand; its entropy has none."""

    @staticmethod
    def forward(
        ctx: Any, logits_PV: Tensor, place_N: Tensor, ids_N: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        norms, logps, entropies = [], [], []
        for place, ids in _chunks(logits_PV, place_N, ids_N):
            z = logits_PV[place].float().div_(temperature)
            norms.append(z.logsumexp(-1))
            logps.append(z.gather(-1, ids[:, None])[:, 0] - norms[-1])
            entropies.append(norms[-1] - (z - norms[-1][:, None]).exp_().mul_(z).sum(-1))
        blank = torch.zeros(0, device=logits_PV.device)
        norm_N, logp_N, entropy_N = (torch.cat([blank, *parts]) for parts in (norms, logps, entropies))
        ctx.save_for_backward(logits_PV, place_N, ids_N, norm_N)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(entropy_N)
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, None]:
        logits_PV, place_N, ids_N, norm_N = ctx.saved_tensors
        gradient_N = gradients[0] / ctx.temperature
        gradient_PV = torch.zeros_like(logits_PV)
        for place, ids, norm, gradient in _chunks(logits_PV, place_N, ids_N, norm_N, gradient_N):
            part = logits_PV[place].float().div_(ctx.temperature).sub_(norm[:, None]).exp_().mul_(-gradient[:, None])
            part.scatter_add_(-1, ids[:, None], gradient[:, None])
            gradient_PV[place] = part.to(gradient_PV.dtype)
        return gradient_PV, None, None, None


def _chunks(logits_PV: Tensor, *arrays: Tensor) -> zip[tuple[Tensor, ...]]:
    size = max(1, CHUNK // logits_PV.shape[-1])
    return zip(*(array.split(size) for array in arrays), strict=True)
