"""Prefix trees: sequences that begin alike, laid out so that a causal model reads each shared token once.

The states of an episode are prefixes of one row, and several utterances in a state are branches of it. A tree holds its
tokens in the order of a depth-first walk. A token attends to its ancestors alone and has the position of its depth, so
every sequence is read as if it stood alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ..learning.parallel import ALONE, ProcessGroup
from .divided import divided
from .sequences import batches, refuse_longer, right_padded

Ids = tuple[int, ...]
Forward = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
"""A causal model: ids, the pairs of tokens that may attend, and positions; the last two are ``None`` for plain rows."""
LINEAR_PER_WIDTH = 6
"""A token costs some 13 H² multiplications per layer, and 2 H per token that it attends to."""


@dataclass(slots=True)
class Tree:
    """Sequences with a common beginning.

    Args:
        ids: tokens, in depth-first order.
        depth: number of tokens before each one in its sequence.
        end: index after the last descendant of each token.
    """

    ids: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)

    @property
    def branches(self) -> bool:
        """Whether it is more than one row."""
        return len(self.ids) > self.depth[-1] + 1


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees, and where each of B sequences ends in them.

    Args:
        trees: the trees.
        tree_of: index of the tree of each sequence.
        place_of: index of the last token of each sequence in its tree.
    """

    trees: list[Tree]
    tree_of: list[int]
    place_of: list[int]

    def passes(self, tokens: int | None) -> list[list[int]]:
        """Split the trees into forward passes of at most ``tokens`` padded tokens; plain rows need no mask.

        With ``None``, all trees are in one pass.
        """
        if tokens is None:
            return [list(range(len(self.trees)))]
        parts: list[list[int]] = []
        for branches in (False, True):
            numbers = [number for number, tree in enumerate(self.trees) if tree.branches is branches]
            parts += [[numbers[n] for n in part] for part in batches([self.trees[n].ids for n in numbers], tokens)]
        return parts

    def members(self, part: Sequence[int]) -> list[int]:
        """Return the indices of the sequences in some of the trees."""
        chosen = set(part)
        return [index for index, tree in enumerate(self.tree_of) if tree in chosen]


def forest(sequences: Sequence[Ids], *, linear: int) -> Forest:
    """Lay out sequences as trees. A sequence joins the tree before it as long as a tree of its own would cost more.

    Args:
        sequences: B sequences in any order; they may repeat.
        linear: length of a sequence at which attention costs as much as all else; it bounds the size of a tree.

    Raises:
        UsageError: a sequence is empty.
    """
    if not all(sequences):
        raise UsageError("an empty sequence has no last token to read a value at")
    trees: list[Tree] = []
    tree_of, place_of = [0] * len(sequences), [0] * len(sequences)
    before: Ids = ()
    path: list[int] = []
    for index in sorted(range(len(sequences)), key=sequences.__getitem__):  # depth first
        ids = sequences[index]
        shared = _shared(before, ids)
        if not shared or not _joins(len(trees[-1].ids), len(ids) - shared, shared, linear):
            _close(trees, path, 0)
            trees.append(Tree())
            shared = 0
        _close(trees, path, shared)
        tree, new = trees[-1], len(ids) - shared
        path += range(len(tree.ids), len(tree.ids) + new)
        tree.ids += ids[shared:]
        tree.depth += range(shared, len(ids))
        tree.end += [0] * new
        tree_of[index], place_of[index] = len(trees) - 1, path[-1]
        before = ids
    _close(trees, path, 0)
    return Forest(trees, tree_of, place_of)


def read(
    sequences: Sequence[Ids],
    forward: Forward,
    *,
    linear: int,
    tokens: int | None,
    world: ProcessGroup = ALONE,
) -> Tensor:
    """Return what a causal model computes at the last token of each of B sequences, ``[B, H]``.

    Args:
        sequences: sequences in any order; they may repeat.
        forward: the model.
        linear: see ``forest``.
        tokens: padded tokens in one forward pass; a single tree may exceed it. ``None`` for a single pass.
        world: processes that divide the passes; several compute no gradient.
    """
    found = forest(sequences, linear=linear)
    budget = None if tokens is None else world.fair(tokens, sum(len(tree.ids) for tree in found.trees))
    passes = found.passes(budget)
    pass_of = {number: part for part in passes for number in part}

    def vectors(members: Sequence[int]) -> Tensor:
        part = pass_of[found.tree_of[members[0]]]
        trees = [found.trees[number] for number in part]
        ids_BL, _ = right_padded([tree.ids for tree in trees])
        layout = _layout(trees) if any(tree.branches for tree in trees) else (None, None)
        hidden_XH = forward(ids_BL, *layout).flatten(0, 1)
        row = {number: row for row, number in enumerate(part)}
        places = [row[found.tree_of[index]] * ids_BL.shape[1] + found.place_of[index] for index in members]
        return hidden_XH[torch.tensor(places, device=hidden_XH.device)]

    parts = [found.members(part) for part in passes]
    read_BH = divided(parts, vectors, world)
    order = torch.tensor([index for part in parts for index in part])
    return read_BH[torch.argsort(order).to(read_BH.device)]


class TreeEncoder(nn.Module):
    """Base of the encoders that read prefix trees: the vector of a sequence is its last hidden state.

    A subclass has ``_hidden``, and says which sequences to read.

    Args:
        width: size H of the vectors.
        context: longest sequence, in tokens; ``None`` for no limit.
    """

    def __init__(self, width: int, context: int | None) -> None:
        super().__init__()
        self.width = width
        self.context = context

    def forward(self, sequences: Sequence[Ids]) -> Tensor:
        """See ``Encoder``."""
        return self.read(sequences)

    def read(self, sequences: Sequence[Ids], *, tokens: int | None = 16384, world: ProcessGroup = ALONE) -> Tensor:
        """See ``PrefixEncoder``."""
        refuse_longer(max(map(len, sequences), default=0), self.context)
        return read(sequences, self._hidden, linear=self._linear, tokens=tokens, world=world)

    def parts(self, sequences: Sequence[Ids], *, tokens: int) -> list[list[int]]:
        """See ``PrefixEncoder``."""
        found = forest(sequences, linear=self._linear)
        return [found.members(part) for part in found.passes(tokens)]

    @property
    def _linear(self) -> int:
        return LINEAR_PER_WIDTH * self.width

    def _hidden(self, ids_BL: Tensor, attends_BLL: Tensor | None, position_BL: Tensor | None) -> Tensor:
        """Return the last hidden states, ``[B, L, H]``; see ``Forward``."""
        raise NotImplementedError


def additive_mask(attends_BLL: Tensor | None, like: Tensor) -> Tensor | None:
    """Return which pairs attend as what attention adds, ``[B, 1, L, L]``, of the type and device of ``like``."""
    if attends_BLL is None:
        return None
    never = torch.finfo(like.dtype).min
    mask_BLL = torch.zeros(attends_BLL.shape, dtype=like.dtype).masked_fill_(~attends_BLL, never)
    return mask_BLL[:, None].to(like.device)


def _layout(trees: Sequence[Tree]) -> tuple[Tensor, Tensor]:
    """Return which pairs of tokens attend, ``[B, L, L]``, and positions, ``[B, L]``; padding attends to itself."""
    longest = max(len(tree.ids) for tree in trees)
    index_L = torch.arange(longest)
    end_BL = (index_L + 1).repeat(len(trees), 1)
    depth_BL = torch.zeros_like(end_BL)
    for row, tree in enumerate(trees):
        end_BL[row, : len(tree.ids)] = torch.tensor(tree.end)
        depth_BL[row, : len(tree.ids)] = torch.tensor(tree.depth)
    attends_BLL = (index_L[:, None] >= index_L) & (index_L[:, None] < end_BL[:, None, :])
    return attends_BLL, depth_BL


def _close(trees: Sequence[Tree], path: list[int], shared: int) -> None:
    """End the tokens of the path that the next sequence does not share."""
    for place in path[shared:]:
        trees[-1].end[place] = len(trees[-1].ids)
    del path[shared:]


def _joins(size: int, new: int, shared: int, linear: int) -> bool:
    """Whether ``new`` tokens cost less in a tree of ``size`` than ``shared + new`` tokens in a tree of their own."""

    def cost(length: int) -> int:
        return length * (linear + length)

    return cost(size + new) - cost(size) <= cost(shared + new)


def _shared(one: Ids, other: Ids) -> int:
    """Return the length of the common prefix, by bisection: comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low
