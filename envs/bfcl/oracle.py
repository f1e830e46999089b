"""The oracle of BFCL's tasks: it makes the calls of the suite's possible answer."""

from __future__ import annotations

from ...tasks.bfcl.suite import UserTurn
from ..messages import Action, ActionLike, ToolCall


def next_action(turn: UserTurn, done: int, messages: int) -> ActionLike:
    """Return the next calls of a user's turn; several at once where there are more calls than messages.

    Args:
        turn: the user's present turn.
        done: the number of calls of its answer that were made.
        messages: the number of messages with calls that the suite still allows in this turn.
    """
    left = turn.answer[done:]
    if not left:
        return "Done." if turn.answer else "I cannot do that with what I know and have."
    together = -(-len(left) // max(1, messages))
    return Action(tool_calls=tuple(ToolCall(call.function, call.arguments) for call in left[:together]))
