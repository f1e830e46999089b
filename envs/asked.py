"""Actions that an author's own methods choose, of any environment."""

from __future__ import annotations

import inspect
from typing import Any

from ..errors import UsageError
from .author_line import method_at
from .base import TurnEnv
from .messages import Action
from .remote.wire import wire_of


def has_oracle(env: TurnEnv) -> bool:
    """Return whether an environment, or the one in its wrappers, has an oracle; see ``TurnEnv.has_oracle``."""
    inner: TurnEnv = env.unwrapped  # type: ignore[assignment]
    return inner.has_oracle


def refuse_missing_oracle(env: TurnEnv, id: str, instead: str) -> None:
    """Check that this client has an oracle to ask.

    Args:
        env: the environment.
        id: its id.
        instead: remedy without an oracle, as the end of the message.

    Raises:
        UsageError: the environment has none for this client; the message says why.
    """
    if has_oracle(env):
        return
    wire = wire_of(env)
    if wire and wire.no_oracle:
        raise UsageError(f"{id}: {wire.no_oracle}; or {instead}")
    inner: TurnEnv = env.unwrapped  # type: ignore[assignment]
    reason = inner.contract.exempt.get("oracle_solves", "")
    raise UsageError(f"{id} has no oracle{f' ({reason})' if reason else ''}; {instead}")


def asked(env: Any, method: str, *arguments: Any) -> Action:
    """Return the action that an author's ``oracle`` or ``random_action`` chooses.

    Raises:
        TypeError: it returned something else; the message names its line.
    """
    chooses = env.get_wrapper_attr(method)
    if not callable(chooses):
        where = method_at(env.unwrapped, method)
        raise TypeError(f"{method} is {chooses!r:.80}, not a method; write def {method}(self, ...){where}")
    returned = chooses(*arguments)
    try:
        return Action.of(returned)
    except TypeError as error:
        if inspect.iscoroutine(returned):
            returned.close()  # or Python warns of it, too
        raise TypeError(f"{method}() is wrong: {error}{method_at(env.unwrapped, method)}") from None
