"""Log-probability of a chosen token and entropy of its distribution, without keeping a softmax of the vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 1 << 24
"""Numbers in the largest temporary array (64 MiB of 32 bits), to bound the memory of a softmax over a vocabulary."""


def chosen_logp(
    logits_PV: Tensor, place_N: Tensor, ids_N: Tensor, temperature: float, *, entropy_gradient: bool = False
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of tokens and entropies in nats of their distributions, both ``[N]`` and 32-bit.

    With p = softmax(z/τ) and H = −Σ p log p: ∂ log p_a / ∂z_v = (1[v = a] − p_v) / τ and
    ∂H / ∂z_v = −p_v (log p_v + H) / τ. The backward pass computes p again from the logits, chunk by chunk. So no array
    of their size is kept beside the logits and their gradient.

    Args:
        logits_PV: logits of every position, in any precision; −inf is probability 0.
        place_N: index of the position that predicts each token; all different.
        ids_N: token ids.
        temperature: sampling temperature τ.
        entropy_gradient: whether the entropies have a gradient; without it they are detached.
    """
    logp_N, entropy_N = _Chosen.apply(logits_PV, place_N, ids_N, temperature)  # type: ignore[no-untyped-call]
    return logp_N, entropy_N if entropy_gradient else entropy_N.detach()


class _Chosen(torch.autograd.Function):
    """The autograd function of ``chosen_logp``, with gradients written by hand."""

    @staticmethod
    def forward(
        ctx: Any, logits_PV: Tensor, place_N: Tensor, ids_N: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        found_3N = torch.zeros(3, place_N.numel(), device=logits_PV.device)
        for part in chunks(place_N.numel(), logits_PV.shape[-1]):
            found_3N[:, part] = measure(logits_PV[place_N[part]], ids_N[part], temperature)
        norm_N, logp_N, entropy_N = found_3N.unbind()
        ctx.save_for_backward(logits_PV, place_N, ids_N, norm_N, entropy_N)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        logits_PV, place_N, ids_N, norm_N, entropy_N = ctx.saved_tensors
        gradient_PV = torch.zeros_like(logits_PV)
        for part in chunks(place_N.numel(), logits_PV.shape[-1]):
            by = [None if each is None else each[part] for each in gradients]
            logits_NV = logits_PV[place_N[part]]
            gradient_PV[place_N[part]] = slope(
                logits_NV, ids_N[part], norm_N[part], entropy_N[part], by[0], by[1], ctx.temperature
            )
        return gradient_PV, None, None, None


def measure(logits_NV: Tensor, ids_N: Tensor, temperature: float) -> Tensor:
    """Return log Σ exp(z/τ), log-probability of the chosen token, and entropy for each row of logits, ``[3, N]``."""
    z_NV = logits_NV.float() / temperature
    norm_N = z_NV.logsumexp(-1)
    logp_N = z_NV.gather(-1, ids_N[:, None])[:, 0] - norm_N
    entropy_N = torch.special.entr(z_NV.sub_(norm_N[:, None]).exp_()).sum(-1)
    return torch.stack([norm_N, logp_N, entropy_N])


def slope(
    logits_NV: Tensor,
    ids_N: Tensor,
    norm_N: Tensor,
    entropy_N: Tensor,
    by_logp_N: Tensor | None,
    by_entropy_N: Tensor | None,
    temperature: float,
) -> Tensor:
    """Return the gradient of the logits in their precision, ``[N, V]``; ``None`` is a gradient of 0.

    Args:
        logits_NV: rows of logits.
        ids_N: chosen tokens.
        norm_N: log Σ exp(z/τ), from ``measure``.
        entropy_N: entropies, from ``measure``.
        by_logp_N: gradient of the log-probabilities.
        by_entropy_N: gradient of the entropies.
        temperature: sampling temperature τ.
    """
    by_logp_N, by_entropy_N = (None if each is None else each / temperature for each in (by_logp_N, by_entropy_N))
    z_NV = (logits_NV.float() / temperature).sub_(norm_N[:, None])
    slope_NV = torch.zeros_like(z_NV) if by_logp_N is None else z_NV.exp() * -by_logp_N[:, None]
    if by_logp_N is not None:
        slope_NV.scatter_add_(-1, ids_N[:, None], by_logp_N[:, None])
    if by_entropy_N is not None:
        p_NV = z_NV.exp_()
        slope_NV += by_entropy_N[:, None] * (torch.special.entr(p_NV) - p_NV * entropy_N[:, None])
    return slope_NV.to(logits_NV.dtype)


def chunks(count: int, vocabulary: int, numbers: int | None = None) -> list[slice]:
    """Split rows of logits into parts of at most so many numbers (default: ``CHUNK``), or of one row."""
    size = max(1, (numbers or CHUNK) // vocabulary)
    return [slice(first, first + size) for first in range(0, count, size)]
