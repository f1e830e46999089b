"""Rows of many episodes as tensors, for one forward pass after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ...rollouts.episode import Episode
from ...rollouts.rows import CONTEXT
from ...rollouts.rows import merge as merge  # also for the facade, which shows its own folder only

Unit = Literal["row", "episode"]
Layout = Literal["padded", "packed"]
"""Layout of rows in a forward pass: one beside another, padded to the longest, or all in one sequence."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A micro-batch as a model reads it: B rows, right-padded to L tokens.

    Args:
        ids_BL: token ids, 0 in the padding.
        attention_BL: 1 on every real token, *trained on or not*; this is not the loss mask.
        flat_T: index of each packed token in the flattened ``[B·L]`` array.
    """

    ids_BL: Tensor
    attention_BL: Tensor
    flat_T: Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Many rows packed into one-dimensional tensors of T tokens; the tokens of a row are contiguous and in order.

    Episode, turn and group indices are those of the whole batch, also after ``select()`` and ``microbatches()``.

    Args:
        ids: token ids.
        mask: true on sampled tokens.
        logp_behave: log-probability under the policy that sampled.
        logp_old: log-probability under the policy before this update (the proximal one); at first the behavior
            policy's, until the trainer's own evaluation replaces it.
        logp_ref: log-probability under a frozen reference policy; 0 until one has scored the rows.
        entropy: entropy in nats of the distribution that each sampled token was drawn from; 0 until the trainer has
            computed it with ``logp_old``.
        version: policy version, ``CONTEXT`` outside actions.
        turn: index of the turn among all turns of the batch, ``CONTEXT`` outside actions.
        row: index of the row.
        episode: index of the episode. Rows of a forked episode share it.
        group: index of the group.
        advantage: credit; 0 outside actions.
        weight: weight of a token in the loss; 0 outside actions.
    """

    ids: Tensor
    mask: Tensor
    logp_behave: Tensor
    logp_old: Tensor
    logp_ref: Tensor
    entropy: Tensor
    version: Tensor
    turn: Tensor
    row: Tensor
    episode: Tensor
    group: Tensor
    advantage: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return int(self.ids.numel())

    @property
    def tokens(self) -> int:
        """Number of sampled tokens."""
        return int(self.mask.sum())

    def with_advantage(self, advantage_E: Tensor) -> Rows:
        """Return the same rows with one advantage per episode, on each of its sampled tokens in all of its rows."""
        return replace(self, advantage=torch.where(self.mask, advantage_E.float()[self.episode], 0.0))

    def with_turn_advantage(self, advantage_U: Tensor) -> Rows:
        """Return the same rows with one advantage per turn, for all U turns of the batch in order."""
        return replace(self, advantage=torch.where(self.mask, advantage_U.float()[self.turn.clamp_min(0)], 0.0))

    def with_weight(self, weight_T: Tensor) -> Rows:
        """Return the same rows with the weights of a normalizer."""
        return replace(self, weight=weight_T)

    def with_token_advantage(self, advantage_T: Tensor) -> Rows:
        """Return the same rows with an advantage for every sampled token, and 0 elsewhere."""
        return replace(self, advantage=torch.where(self.mask, advantage_T.float(), 0.0))

    def with_logp_old(self, logp_T: Tensor, entropy_T: Tensor | None = None) -> Rows:
        """Return the same rows with the trainer's own log-probabilities and entropies before the update."""
        entropy = self.entropy if entropy_T is None else torch.where(self.mask, entropy_T, 0.0)
        return replace(self, logp_old=torch.where(self.mask, logp_T, 0.0), entropy=entropy)

    def with_logp_ref(self, logp_T: Tensor) -> Rows:
        """Return the same rows with log-probabilities under a reference policy."""
        return replace(self, logp_ref=torch.where(self.mask, logp_T, 0.0))

    def select(self, wanted: Iterable[int] | Tensor, *, unit: Unit = "episode") -> Rows:
        """Return some episodes or rows, by index, with unchanged indices and weights."""
        index = torch.as_tensor(list(wanted) if not isinstance(wanted, Tensor) else wanted, dtype=torch.long)
        return self._take(torch.isin(self.row if unit == "row" else self.episode, index))

    def to(self, device: torch.device | str) -> Rows:
        """Return the same rows on a device."""
        return Rows(**{name: column.to(device) for name, column in self.columns().items()})

    def columns(self) -> dict[str, Tensor]:
        """Return all tensors of the tokens, by field name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def microbatches(self, budget: int, *, whole: Unit = "row", layout: Layout = "padded") -> list[Rows]:
        """Split into parts of at most ``budget`` tokens (a single unit may exceed it), longest first.

        Args:
            budget: number of tokens that a model computes, including padding.
            whole: unit that must not be divided: ``"episode"`` for a ratio over whole trajectories.
            layout: layout of the forward pass.
        """
        return [part for part, _ in self.numbered_microbatches(budget, whole=whole, layout=layout)]

    def numbered_microbatches(
        self, budget: int, *, whole: Unit = "row", layout: Layout = "padded"
    ) -> list[tuple[Rows, Tensor]]:
        """Like ``microbatches``, each with the indices of its tokens among these rows'."""
        if not len(self):
            return []
        units, inverse_T = torch.unique(self.row if whole == "row" else self.episode, return_inverse=True)
        sizes, starts = self._extents()
        by_unit: list[list[int]] = [[] for _ in range(units.numel())]
        for unit, size in zip(inverse_T[starts].tolist(), sizes.tolist(), strict=True):
            by_unit[unit].append(size)
        part_of, part = [0] * len(by_unit), -1
        count = longest = total = 0
        for unit in sorted(range(len(by_unit)), key=lambda unit: -max(by_unit[unit])):
            count, longest = count + len(by_unit[unit]), max(longest, *by_unit[unit])
            total += sum(by_unit[unit])
            if part < 0 or (count * longest if layout == "padded" else total) > budget:
                part, count, longest = part + 1, len(by_unit[unit]), max(by_unit[unit])
                total = sum(by_unit[unit])
            part_of[unit] = part
        part_T = torch.tensor(part_of)[inverse_T]
        places = torch.split(torch.argsort(part_T, stable=True), torch.bincount(part_T).tolist())
        return [(self._take(place), place) for place in places]

    def padded(self) -> Padded:
        """Return these rows as a right-padded batch."""
        sizes, starts = self._extents()
        count, longest = sizes.numel(), int(sizes.max()) if sizes.numel() else 0
        b_T = torch.repeat_interleave(torch.arange(count), sizes)
        flat_T = b_T * longest + torch.arange(len(self)) - starts[b_T]
        ids = torch.zeros(count * longest, dtype=torch.long)
        attention = torch.zeros(count * longest, dtype=torch.long)
        ids[flat_T] = self.ids
        attention[flat_T] = 1
        return Padded(ids.view(count, longest), attention.view(count, longest), flat_T)

    def positions(self) -> Tensor:
        """Index of each token in its row, ``[T]``, which tells rows apart in a packed sequence."""
        sizes, starts = self._extents()
        return torch.arange(len(self)) - starts.repeat_interleave(sizes)

    def _extents(self) -> tuple[Tensor, Tensor]:
        """Return the length and the first token's index of each row."""
        _, sizes = torch.unique_consecutive(self.row, return_counts=True)
        return sizes, torch.cumsum(sizes, 0) - sizes

    def _take(self, chosen_T: Tensor) -> Rows:
        return Rows(**{name: column[chosen_T] for name, column in self.columns().items()})


def pack(episodes: Sequence[Episode]) -> Rows:
    """Merge episodes and pack their rows; indices follow the order of ``episodes``.

    Raises:
        UnscoredEpisodeError: one of them was not played to an end.
    """
    groups = {group: index for index, group in enumerate(dict.fromkeys(e.group_id for e in episodes))}
    ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []
    version: list[int] = []
    places: list[tuple[int, int, int]] = []
    turn: list[int] = []
    sizes: list[int] = []
    first_turn = 0
    for number, episode in enumerate(episodes):
        for row in merge(episode):
            ids += row.ids
            mask += row.mask
            logprobs += row.logprobs
            version += row.versions
            turn += [first_turn + index if index != CONTEXT else CONTEXT for index in row.turn_index]
            places.append((len(sizes), number, groups[episode.group_id]))
            sizes.append(len(row.ids))
        first_turn += len(episode.turns)
    place_T3 = torch.tensor(places, dtype=torch.long).view(-1, 3).repeat_interleave(torch.tensor(sizes).long(), 0)
    logp = torch.tensor(logprobs, dtype=torch.float32)
    return Rows(
        ids=torch.tensor(ids, dtype=torch.long),
        mask=torch.tensor(mask, dtype=torch.bool),
        logp_behave=logp,
        logp_old=logp,
        logp_ref=torch.zeros_like(logp),
        entropy=torch.zeros_like(logp),
        version=torch.tensor(version, dtype=torch.long),
        turn=torch.tensor(turn, dtype=torch.long),
        row=place_T3[:, 0].clone(),
        episode=place_T3[:, 1].clone(),
        group=place_T3[:, 2].clone(),
        advantage=torch.zeros_like(logp),
        weight=torch.zeros_like(logp),
    )
