"""Replay: the newest transitions to sample from, in a ring that counts what it drops."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ...errors import UsageError
from ...tasks.rng import Rng
from .transitions import Transition


class Replay:
    """The newest ``capacity`` transitions, in the order in which they were added.

    A sample is a pure function of the content and of the generator, so a resumed run draws the same.

    Args:
        capacity: the most transitions; beyond it the oldest are dropped, and counted.

    Raises:
        UsageError: the capacity is below 1.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise UsageError(f"a replay of capacity {capacity} can hold nothing; set replay to 1 or more")
        self.capacity = capacity
        self.added = 0
        """Number of transitions ever added."""
        self.dropped = 0
        """Number of transitions dropped."""
        self._held: deque[Transition] = deque()
        self._view: list[Transition] | None = None  # a deque is slow to index
        self._rows: list[range] | None = None
        self._episodes: list[range] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def add(self, transitions: Iterable[Transition]) -> None:
        """Add transitions; if there is no room, drop the oldest."""
        for transition in transitions:
            self._held.append(transition)
            self.added += 1
            if len(self._held) > self.capacity:
                self._held.popleft()
                self.dropped += 1
        self._view = self._rows = self._episodes = None

    def sample(self, count: int, rng: Rng) -> list[Transition]:
        """Draw ``count`` transitions uniformly and with replacement.

        Raises:
            UsageError: the replay is empty.
        """
        view = self._viewed()
        return [rng.pick(view) for _ in range(count)]

    def sample_rows(self, count: int, rng: Rng) -> list[Transition]:
        """Draw ``count`` transitions by whole rows, so that a critic that reads rows reads each but once.

        A row is a run of turns, each of which begins with all that the turn before it read and said. The first row
        begins at a transition drawn uniformly; all others are drawn uniformly and whole, up to ``count``. As in a
        stationary renewal process, every place of the sample has every transition with equal probability. Where no turn
        continues another (``agent.context = last:1``), this draws what ``sample`` draws.

        Raises:
            UsageError: the replay is empty.
        """
        view = self._viewed()
        if self._rows is None:
            self._rows = rows_of(view)
        return _whole(view, self._rows, count, rng)

    def sample_episodes(self, count: int, rng: Rng) -> list[Transition]:
        """Draw ``count`` transitions as ``sample_rows`` does, by whole episodes: targets that look ahead need them.

        Raises:
            UsageError: the replay is empty.
        """
        view = self._viewed()
        if self._episodes is None:
            self._episodes = _runs(view, follows)
        return _whole(view, self._episodes, count, rng)

    def since(self, version: int) -> list[Transition]:
        """Return the transitions that a policy of this version or a newer one sampled, in order; no demonstrations."""
        return [each for each in self._held if each.version >= max(version, 0)]

    def _viewed(self) -> list[Transition]:
        if not self._held:
            raise UsageError(
                "the replay is empty, so there is nothing to sample: no episode was played to an end yet. Either the "
                "infrastructure failed, or the policy ran out of time or context in each (agent.context = last:K reads "
                "less)"
            )
        if self._view is None:
            self._view = list(self._held)
        return self._view

    def metrics(self) -> dict[str, float]:
        """Return its size, and the number of dropped transitions."""
        return {"replay/size": float(len(self)), "replay/dropped": float(self.dropped)}

    def state_dict(self) -> dict[str, Any]:
        """Return the content as a few tensors; loading them runs no code."""
        return {"transitions": packed(self._held), "added": self.added, "dropped": self.dropped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; of more than ``capacity`` transitions, drop the oldest."""
        self._held, self.added, self.dropped = deque(), 0, 0
        self.add(unpacked(state["transitions"]))
        self.added, self.dropped = int(state["added"]), int(state["dropped"]) + self.dropped


def rows_of(transitions: Sequence[Transition]) -> list[range]:
    """Return the indices of each row: of the turns of an episode that continue each other."""
    return _runs(transitions, continues)


def _runs(transitions: Sequence[Transition], joined: Callable[[Transition, Transition], bool]) -> list[range]:
    inside = [joined(one, other) for one, other in pairwise(transitions)]
    starts = [0, *(place + 1 for place, same in enumerate(inside) if not same)]
    return [range(start, end) for start, end in pairwise([*starts, len(transitions)])]


def _whole(view: list[Transition], runs: list[range], count: int, rng: Rng) -> list[Transition]:
    """Draw transitions by whole runs, the first from a transition on that is drawn uniformly."""
    first = rng.pick(range(len(view)))
    found = view[first : runs[bisect_right(runs, first, key=lambda run: run.start) - 1].stop]
    while len(found) < count:
        run = rng.pick(runs)
        found += view[run.start : run.stop]
    return found[:count]


def follows(one: Transition, other: Transition) -> bool:
    """Whether a turn is a later one of the same episode."""
    return one.episode_id == other.episode_id and one.turn < other.turn


def continues(one: Transition, other: Transition) -> bool:
    """Whether the prompt of a turn begins with the prompt and the utterance of the turn before it."""
    middle, end = len(one.state_ids), len(one.state_ids) + len(one.action_ids)
    return (
        follows(one, other)
        and other.state_ids[middle:end] == one.action_ids
        and other.state_ids[:middle] == one.state_ids
    )


def packed(transitions: Iterable[Transition]) -> dict[str, Any]:
    """Pack transitions into flat tensors with the lengths beside them, and a list of strings."""
    held = list(transitions)
    return {
        "ids": {name: _flat([getattr(t, name) for t in held], torch.int32) for name in ("state_ids", "action_ids")}
        | {"next_ids": _flat([t.next_ids for t in held], torch.int32)},
        "logprobs": _flat([t.logprobs for t in held], torch.float64),
        "reward": torch.tensor([t.reward for t in held], dtype=torch.float64),
        "done": torch.tensor([t.done for t in held], dtype=torch.bool),
        "mc_return": torch.tensor([t.mc_return for t in held], dtype=torch.float64),
        "version": torch.tensor([t.version for t in held], dtype=torch.int64),
        "episode_id": [t.episode_id for t in held],
        "turn": torch.tensor([t.turn for t in held], dtype=torch.int64),
        "span": torch.tensor([t.span for t in held], dtype=torch.int64),
    }


def unpacked(state: Mapping[str, Any]) -> list[Transition]:
    """Restore the transitions of ``packed``, to the last bit."""
    columns = (
        _cut(state["ids"]["state_ids"]),
        _cut(state["ids"]["action_ids"]),
        _cut(state["logprobs"]),
        state["reward"].tolist(),
        _cut(state["ids"]["next_ids"]),
        state["done"].tolist(),
        state["mc_return"].tolist(),
        state["version"].tolist(),
        state["episode_id"],
        state["turn"].tolist(),
        state.get("span", torch.ones_like(state["turn"])).tolist(),  # older checkpoints
    )
    return [Transition(*fields) for fields in zip(*columns, strict=True)]


def _flat(sequences: Sequence[Sequence[float]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    values = torch.tensor([value for sequence in sequences for value in sequence], dtype=dtype)
    return values, torch.tensor([len(sequence) for sequence in sequences], dtype=torch.int64)


def _cut(flat: tuple[Tensor, Tensor]) -> list[tuple[Any, ...]]:
    values, place, found = flat[0].tolist(), 0, []
    for size in flat[1].tolist():
        found.append(tuple(values[place : place + size]))
        place += size
    return found
