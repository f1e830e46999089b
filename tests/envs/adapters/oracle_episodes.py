"""Episodes that an oracle plays to their end."""

from __future__ import annotations

from typing import Any


def played(env: Any, seed: int, **options: Any) -> tuple[list[tuple[str, str, float]], dict[str, Any]]:
    """The observation, action and reward of each turn, and the last info."""
    seen, info = env.reset(seed=seed, options=options)[0].text, {}
    turns, over = [], False
    while not over:
        action = env.oracle()
        observation, reward, over, truncated, info = env.step(action)
        assert not truncated
        turns.append((seen, action, reward))
        seen = observation.text
    return turns, info
