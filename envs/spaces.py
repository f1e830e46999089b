"""Gymnasium spaces for messages, so that Gymnasium's checkers, wrappers and vector environments accept them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from .messages import Action, Observation, ToolCall, message

WORDS = ("1", "2", "7", "yes", "no", "left", "look", "north", "a", "is it alive?", "I do not know")


class ObservationSpace(gymnasium.Space[Observation]):
    """The space of all ``Observation`` objects."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Whether messages have a fixed-size array form, which they do not."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> Observation:
        """Return one user message of a random word."""
        return Observation((message("user", WORDS[int(self.np_random.integers(len(WORDS)))]),))

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is an observation."""
        return isinstance(x, Observation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObservationSpace)

    def __hash__(self) -> int:
        return hash(type(self))


class ActionSpace(gymnasium.Space[Action]):
    """The space of all ``Action`` objects. ``sample`` draws short texts, or calls of ``tool_names``."""

    def __init__(self, tool_names: tuple[str, ...] = (), seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)
        self.tool_names = tool_names

    @property
    def is_np_flattenable(self) -> bool:
        """Whether messages have a fixed-size array form, which they do not."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> Action:
        """Return a random action; rarely a sensible one."""
        if self.tool_names:
            return Action.of(ToolCall(self.tool_names[int(self.np_random.integers(len(self.tool_names)))]))
        return Action(WORDS[int(self.np_random.integers(len(WORDS)))])

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is an action, or text that stands for one."""
        return isinstance(x, (Action, ToolCall, str))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace) and self.tool_names == other.tool_names

    def __hash__(self) -> int:
        return hash((type(self), self.tool_names))
