"""``ObservationBudget``: cut the middle of long observations, and mark the cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from ...errors import UsageError
from ..messages import ActionLike, Observation
from .base import Resets, Resetting, Stepping, Steps, TurnWrapper

Count = Callable[[str], int]


def mark(characters: int) -> str:
    """Return the mark that replaces text that was cut."""
    return f"\n[… {characters:,} characters cut …]\n"


LONGEST_MARK = mark(10**12)


class ObservationBudget(TurnWrapper):
    """Keep head and tail of what is too long, and mark what was cut: ``[… 1,234 characters cut …]``.

    The budget is for all messages of one observation together; short messages stay whole, and the long ones share
    what is left. Text that fits is untouched, and so are images.

    Args:
        env: the environment.
        limit: the largest size of an observation, in units of ``count``.
        count: the size of a text: characters by default, or e.g. ``lambda text: len(tokenizer.encode(text))``.
            Longer texts must not count for less.
        head: the share of the kept text that comes from the beginning, in [0, 1].

    Raises:
        UsageError: the limit has no room for a mark, or ``head`` is not between 0 and 1.
    """

    constant = ("_count",)

    def __init__(self, env: gymnasium.Env[Any, Any], limit: int, count: Count = len, head: float = 0.5) -> None:
        super().__init__(env, limit=limit, count=count, head=head)
        least = count(LONGEST_MARK)
        if limit < least:
            raise UsageError(
                f"an observation budget of {limit} has no room for the truncation mark; use {least} or more"
            )
        if not 0 <= head <= 1:
            raise UsageError(f"head must be a share between 0 and 1; got {head}")
        self._limit, self._count, self._head = limit, count, head

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Cut the first observation."""
        observation, info = yield Resetting(seed, options)
        return self.fitted(observation), info

    def stepping(self, action: ActionLike) -> Steps:
        """Cut the next observation."""
        observation, *rest = yield Stepping(action)
        return self.fitted(observation), *rest

    def fitted(self, observation: Observation) -> Observation:
        """Return the observation, cut to the budget."""
        sizes = [self._count(message.text) for message in observation.messages]
        if sum(sizes) <= self._limit:
            return observation
        messages = []
        for message, size, share in zip(observation.messages, sizes, shares(sizes, self._limit), strict=True):
            if size > share:
                text = cut(message.text, share, self._count, self._head)
                if text is None:
                    return self._latest(observation, sizes)
                message = message.with_text(text)
            messages.append(message)
        return Observation(tuple(messages))

    def _latest(self, observation: Observation, sizes: list[int]) -> Observation:
        """Keep the latest messages whole and one mark for all others, if there are too many for a mark in each.

        No message is left out, since each answers a call; those without room lose their text.
        """
        left = self._limit - self._count(LONGEST_MARK)
        emptied = []
        for i in reversed(range(len(sizes))):
            if sizes[i] <= left:
                left -= sizes[i]
            else:
                emptied.append(i)
        lost = sum(len(observation.messages[i].text) for i in emptied)
        texts = {i: mark(lost) if i == emptied[-1] else "" for i in emptied}
        return Observation(
            tuple(m.with_text(texts[i]) if i in texts else m for i, m in enumerate(observation.messages))
        )


def cut(text: str, limit: int, count: Count = len, head: float = 0.5) -> str | None:
    """Return the longest head and tail of ``text`` that fit into ``limit`` together with the mark between them.

    ``None`` where not even the mark fits.
    """

    def with_kept(kept: int) -> str:
        first = round(kept * head)
        return text[:first] + mark(len(text) - kept) + text[len(text) - (kept - first) :]

    if count(text) <= limit:
        return text
    low, high = 0, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(with_kept(middle)) <= limit else (low, middle - 1)
    while low and count(with_kept(low)) > limit:  # a count that is not quite monotonic
        low -= 1
    result = with_kept(low)
    return result if count(result) <= limit else None


def shares(sizes: list[int], limit: int) -> list[int]:
    """Return how much of ``limit`` each size gets: all it needs if that is little, else an equal share of the rest."""
    left, result = limit, [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, i in enumerate(order):
        result[i] = min(sizes[i], left // (len(order) - done))
        left -= result[i]
    return result
