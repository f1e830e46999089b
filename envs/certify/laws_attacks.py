"""The law that nobody can opt out of being counted: nothing that an agent sends or does makes the environment fail."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TurnEnv
from ..messages import Action, ActionLike, ToolCall
from .attacks import attempts
from .findings import OutOfTime, blaming
from .lab import Lab
from .law import Law

CURE = "answer it, or end the episode as a failure: what an agent does is scored, and never an error"


def no_way_out(lab: Lab) -> str | None:
    """Play calls with hostile values, and the ways that the author knows to break the environment."""
    spec, tried = lab.few[0], 0
    try:
        for name, actions in _attacks(lab):
            env = lab.subject.make()
            env.reset(options={"task": spec})
            try:
                for action in (*actions, "", *ending(env)):
                    with blaming(f"after {name!r}, step()", spec, cure=CURE):
                        _, _, terminated, truncated, _ = lab.answer(env, ("step", {"action": action}))
                    if terminated or truncated:
                        break
                tried += 1
            finally:
                env.close()
    except OutOfTime:
        if not tried:
            raise
        return f"tried {tried} attempts in the time that there was; allow more --minutes for all"
    return None


def _attacks(lab: Lab) -> Sequence[tuple[str, Sequence[ActionLike]]]:
    """What to play, that of the author first; asked for on a task that has begun, for it is the task that has tools."""
    env = lab.subject.make()
    try:
        env.reset(options={"task": lab.few[0]})
        return [*env.attacks().items(), *((name, [action]) for name, action in attempts(env))][:: lab.effort.every]
    finally:
        env.close()


def ending(env: TurnEnv) -> list[Action]:
    """Return the call that ends an episode, if there is one that needs no arguments."""
    ends = [tool for tool in env.tools if tool.ends and not tool.parameters.get("required")]
    return [Action.of(ToolCall(tool.name)) for tool in ends[:1]]


ATTACK_LAWS = (
    Law(
        "no_way_out",
        "nothing that an agent sends or does makes the environment fail, so that it is not scored",
        no_way_out,
    ),
)
"""Laws of attacks."""
