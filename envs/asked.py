"""Actions that an author's own methods choose, of any environment."""

from __future__ import annotations

from typing import Any

from .author_line import method_at
from .base import TurnEnv
from .messages import Action


def has_oracle(env: TurnEnv) -> bool:
    """Return whether an environment, or the one in its wrappers, has an oracle; see ``TurnEnv.has_oracle``."""
    inner: TurnEnv = env.unwrapped  # type: ignore[assignment]
    return inner.has_oracle


def asked(env: Any, method: str, *arguments: Any) -> Action:
    """Return the action that an author's ``oracle`` or ``random_action`` chooses.

    Raises:
        TypeError: it returned something else; the message names its line.
    """
    returned = env.get_wrapper_attr(method)(*arguments)
    try:
        return Action.of(returned)
    except TypeError as error:
        raise TypeError(f"{method}() is wrong: {error}{method_at(env.unwrapped, method)}") from None
