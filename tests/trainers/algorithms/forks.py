"""Trees of episodes written by hand: who left whom where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from turnwise import Episode
from turnwise.rollouts.episode import Fork

from ..fakes import episode as record
from ..fakes import turn
from .batches import reward


@dataclass(frozen=True)
class Leaf:
    """An episode in short.

    Args:
        parent: index of the leaf that it left; ``None`` if it started with a reset.
        at: the turn at which it left.
        paid: the rewards of its own turns.
    """

    parent: int | None
    at: int
    paid: tuple[float, ...]


@st.composite
def trees(draw: st.DrawFn) -> list[Leaf]:
    """Any tree: each leaf starts with a reset, or leaves an earlier one after one of its turns."""
    leaves: list[Leaf] = []
    lengths: list[int] = []
    for _ in range(draw(st.integers(1, 6))):
        parents = [None, *(place for place, length in enumerate(lengths) if length > 1)]
        parent = draw(st.sampled_from(parents))
        at = draw(st.integers(1, lengths[parent] - 1)) if parent is not None else 0
        paid = tuple(draw(st.lists(reward, min_size=1, max_size=3)))
        leaves.append(Leaf(parent, at, paid))
        lengths.append(at + len(paid))
    return leaves


def grown(leaves: Sequence[Leaf], group: str = "g0") -> list[Episode]:
    """The episodes of a tree, in which every action has tokens that no other has, and 1 or 2 of them."""
    made: list[Episode] = []
    for number, leaf in enumerate(leaves):
        parent = made[leaf.parent] if leaf.parent is not None else None
        turns = list(parent.turns[: leaf.at]) if parent is not None else []
        for index, paid in enumerate(leaf.paid, len(turns)):
            said = [turns[-1].prompt_ids, turns[-1].action_ids] if turns else []
            prompt = [token for ids in said for token in ids] + [1]
            action = [100 * (number + 1) + index] * (1 + (number + index) % 2)
            turns.append(turn(prompt, action, paid))
        owners: tuple[str, ...] = ()
        if parent is not None:
            before = parent.fork.owners[: leaf.at] if parent.fork is not None else ()
            owners = (*before, *(parent.episode_id,) * (leaf.at - len(before)))
        made.append(
            replace(
                record(turns, group=group, name=f"{group}-{number}"),
                fork=Fork(parent.episode_id, owners) if parent is not None else None,
            )
        )
    return made
