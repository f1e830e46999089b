"""The oracle of the apps' tasks: it makes the calls of the solution, and logs in or waits where an app demands it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...tasks.apps.simulators.world import World
from ...tasks.apps.templates.plan import Act
from ...tasks.apps.templates.play import ENDS
from ..messages import ActionLike, ToolCall
from ..tools import Tool


@dataclass(frozen=True)
class Tried:
    """A call or message that came through to the world.

    Args:
        name: name of the call; ``say`` for a message.
        arguments: its arguments as JSON.
        again: whether the app refused it until the agent logs in or waits.
    """

    name: str
    arguments: str
    again: bool = False

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any], again: bool = False) -> Tried:
        """Return the record of a call with these arguments."""
        return cls(name, json.dumps(dict(arguments), sort_keys=True), again)


def next_action(acts: Sequence[Act], tried: Sequence[Tried], offered: Sequence[Tool], world: World) -> ActionLike:
    """Return the first action that was not tried yet, or the login or the wait that must precede it.

    Args:
        acts: the solution, or another way to play.
        tried: the calls of the episode so far, in any order.
        offered: the tools of the episode, which fill in the defaults of arguments.
        world: the present world.
    """
    past = [(one.name, one.arguments) for one in tried if not one.again]
    known = {one.name: one for one in offered}
    for act in acts:
        filled = known[act.name].validate(act.arguments) if act.name in known else act.arguments
        said = Tried.of(act.name, filled)
        if (said.name, said.arguments) in past:
            past.remove((said.name, said.arguments))
            continue
        wanted = None if act.name.startswith(("docs_", "say", *ENDS)) else world.wanted(act.name)
        return ToolCall(act.name, act.arguments) if wanted is None else ToolCall(*wanted)
    return "Done."
