"""Floating-point operations of updates, from the shape of a model."""

from __future__ import annotations

from .shapes import ModelShape


def update_flops(shape: ModelShape, *, tokens: float, sampled: float, squares: float, adapters: bool = False) -> float:
    """Return the FLOPs that updates need; padding, recomputation and scoring without a gradient do not count.

    A product of a token with a matrix takes 2 FLOPs per weight in the forward pass. The two gradients of the backward
    pass take twice as many; with adapters, the frozen matrices have no gradient of their own. Causal attention
    takes 2 FLOPs per pair of tokens and width of the queries. As in PaLM (arXiv 2204.02311, appendix B), but with half
    of full attention, and with the output layer on sampled tokens alone.

    Args:
        shape: shape of the model.
        tokens: tokens read.
        sampled: tokens whose log-probability is computed.
        squares: sum over rows of the squared number of tokens.
        adapters: whether only adapters are trained.
    """
    passes = 2 if adapters else 3
    products = 2 * shape.layers * shape.block_matrices * tokens + 2 * shape.embedding * sampled
    return passes * products + 3 * 2 * shape.layers * shape.queries * squares
