"""The law that every episode counts: nothing that an agent sends or does makes the environment fail."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.spec import TaskSpec
from ..base import TurnEnv
from ..messages import Action, ActionLike, ToolCall
from .attacks import attempts
from .findings import OutOfTime, blaming
from .harness import Harness
from .law import Law

CURE = "answer it, or end the episode as a failure: what an agent does is scored, and never an error"


def no_way_out(harness: Harness) -> str | None:
    """Play calls with hostile values, and the ways that the author knows to break the environment."""
    tried = 0
    try:
        for spec, name, actions in _attacks(harness):
            env = harness.make()
            env.reset(options={"task": spec})
            try:
                for action in (*actions, "", *ending(env)):
                    with blaming(f"after {name!r}, step()", spec, cure=CURE):
                        _, _, terminated, truncated, _ = harness.answer(env, ("step", {"action": action}))
                    if terminated or truncated:
                        break
                tried += 1
            finally:
                env.close()
    except OutOfTime:
        if not tried:
            raise
        return f"tried {tried} attempts in the time that there was; allow more --minutes for all"
    return "the author's own attacks stay on the server" if harness.wire is not None else None


def _attacks(harness: Harness) -> Sequence[tuple[TaskSpec, str, Sequence[ActionLike]]]:
    """Return what to play in which task, that of the author first.

    A task has to begin before it has tools. The author's own are played in an easy task and in a hard one, which often
    offers more; the others in the easy one.
    """
    found: list[tuple[TaskSpec, str, Sequence[ActionLike]]] = []
    for spec in dict.fromkeys((harness.few[-1], harness.few[0])):
        env = harness.make()
        try:
            env.reset(options={"task": spec})
            found += [(spec, name, actions) for name, actions in env.attacks().items()]
            if spec == harness.few[0]:
                found += [(spec, name, [action]) for name, action in attempts(env)]
        finally:
            env.close()
    return found[:: harness.effort.every]


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
