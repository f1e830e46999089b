"""Near misses of BFCL's tasks: announcing the calls, and making them in another turn than the user asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tasks.bfcl.suite import UserTurn
from ..base import NearMiss
from ..messages import ToolCall


def near_misses(turns: Sequence[UserTurn]) -> Mapping[str, NearMiss]:
    """Return ways to play that must not succeed, by name.

    Args:
        turns: all turns of the user.
    """
    calls = [ToolCall(call.function, call.arguments) for turn in turns for call in turn.answer]
    last = max(i for i, turn in enumerate(turns) if turn.answer)
    found: dict[str, NearMiss] = {
        "no call in the last turn": lambda env: env.oracle() if env.at < last else "Done.",
        "words instead of calls": [str(call) for call in calls][: len(turns)],
    }
    if sum(bool(turn.answer) for turn in turns) > 1:
        found["all calls in the first turn"] = [*calls, *["Done."] * len(turns)]
    return found
