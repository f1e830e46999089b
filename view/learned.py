"""The learner's numbers for one episode, as its page shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..rollouts.episode import Episode, Turn
from ..rollouts.learner_records import LearnerTurn, read_record
from .episode_index import step_in

BARS = "▁▂▃▄▅▆▇█"
TRAINED = "The trained tokens are the sampled ones; prompts are masked."
NOT_STORED = (
    "Advantages, entropies and the values of critics (ArCHer, PPO) are not stored for this episode. Training runs "
    f"store them for the episodes that keep_episodes keeps; evaluations have none. {TRAINED}"
)


@dataclass(frozen=True, slots=True)
class Learned:
    """The learner's numbers for an episode, and a note on them.

    Args:
        turns: one entry per turn of the episode; empty if nothing is stored.
        note: one or two sentences for readers.
        updates: number of updates in which clipped tokens were counted; ``None`` if nothing is stored.
    """

    turns: tuple[LearnerTurn, ...] = ()
    note: str = NOT_STORED
    updates: int | None = None

    def value(self, turn: int) -> float | None:
        """Return the critic's value of the state before a turn; ``None`` if there is none."""
        return self.turns[turn].value if self.turns else None

    def tokens(self, number: int, turn: Turn) -> dict[str, Any]:
        """Return the numbers of a turn's sampled tokens, each ``None`` if it is not stored.

        ``mismatch`` is the sampler's log-probability minus the trainer's.
        """
        own = self.turns[number] if self.turns else LearnerTurn()
        pairs = zip(turn.logprobs, own.logprobs, strict=False)
        return {
            "advantages": own.advantages or None,
            "entropies": own.entropies or None,
            "clipped_low": own.clipped_low if self.updates else None,
            "clipped_high": own.clipped_high if self.updates else None,
            "mismatch": [sampler - trainer for sampler, trainer in pairs] if own.logprobs else None,
        }

    def in_words(self, turn: int) -> str:
        """Return the numbers of a turn in one line; empty if nothing is stored."""
        own = self.turns[turn] if self.turns else LearnerTurn()
        value = [f"critic {own.value:.3g}"] if own.value is not None else []
        named = (("advantage", own.advantages), ("entropy", own.entropies))
        spans = [f"{name} {_span(numbers)}" for name, numbers in named if numbers]
        clipped = sum(map(bool, map(sum, zip(own.clipped_low, own.clipped_high, strict=True))))
        clips = [f"{clipped} of {len(own.clipped_low)} tokens clipped"] if self.updates and own.clipped_low else []
        return " · ".join([*value, *spans, *clips])

    def bars(self) -> str:
        """Return the critic's values along the turns as a line of bars, ``·`` where there is none; or empty."""
        values = [each.value if each.value is not None and math.isfinite(each.value) else None for each in self.turns]
        known = [value for value in values if value is not None]
        if not known:
            return ""
        low, size = min(known), max(known) - min(known) or 1.0
        drawn = "".join(
            "·" if value is None else BARS[round((len(BARS) - 1) * (value - low) / size)] for value in values
        )
        return f"{drawn} critic's value before each turn, {min(known):.3g} to {max(known):.3g}"


def _span(numbers: Sequence[float]) -> str:
    """Return the mean of some numbers, with the smallest and largest where they differ."""
    low, high = min(numbers), max(numbers)
    mean = f"{sum(numbers) / len(numbers):.3g}"
    return mean if low == high else f"{mean} ({low:.3g} to {high:.3g})"


def learned(store: Path, episode: Episode) -> Learned:
    """Return the learner's numbers for an episode of a store.

    Args:
        store: folder of the store.
        episode: an episode in it.
    """
    step = step_in(episode.fingerprints.get("step"))
    if step is None:
        return Learned()
    try:
        record = read_record(store, episode.episode_id, step)
    except StoreError as error:
        return Learned(note=f"The learner's numbers cannot be shown: {error}. {TRAINED}")
    if record is None:
        return Learned()
    if not _fits(record.turns, episode):
        return Learned(note=f"The learner's numbers beside this store belong to other tokens. {TRAINED}")
    before = f"The learner's numbers are those before the updates of step {step}."
    return Learned(record.turns, f"{before} {_clips(record.updates)} {TRAINED}", record.updates)


def _clips(updates: int | None) -> str:
    """Say what is known of the tokens that the loss clipped."""
    if updates is None:
        return "Which tokens the loss clipped is not stored."
    if not updates:
        return "No update used this episode, for example since its advantage was 0."
    counted = "the only update" if updates == 1 else f"the {updates} updates"
    return f"Clipped tokens are counted over {counted} that used this episode."


def _fits(turns: tuple[LearnerTurn, ...], episode: Episode) -> bool:
    """Return whether there is one number per sampled token, or none, in each turn."""
    if len(turns) != len(episode.turns):
        return False
    return all(
        len(column) in (0, len(turn.action_ids))
        for own, turn in zip(turns, episode.turns, strict=True)
        for column in (own.advantages, own.entropies, own.logprobs, own.clipped_low, own.clipped_high)
    )
