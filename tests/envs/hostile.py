"""Play attempts to break an environment, and return those that were not scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from turnwise.envs.base import TurnEnv
from turnwise.envs.certify.attacks import attempts
from turnwise.envs.certify.laws_attacks import ending
from turnwise.envs.messages import ActionLike
from turnwise.rollouts.options import ENV_TIMEOUT
from turnwise.tasks.spec import TaskSpec

Attempts = Mapping[str, Sequence[ActionLike]]


def all_attempts(env: TurnEnv) -> dict[str, Sequence[ActionLike]]:
    """Return the attempts that the environment declares, and the generic ones, for the present task."""
    return {**env.attacks(), **{name: [action] for name, action in attempts(env)}}


def started(make: Callable[[], Any], spec: TaskSpec) -> TurnEnv:
    """Return an environment at the beginning of a task."""
    env: TurnEnv = make().unwrapped
    env.reset(options={"task": spec})
    return env


def unscored(env: TurnEnv, tries: Attempts) -> dict[str, str]:
    """Play each attempt in an episode of the present task, and then nothing until the episode ends.

    Args:
        env: environment at the beginning of a task.
        tries: the actions of each attempt, by name.

    Returns:
        Why each attempt that was not scored was not, by name: an exception, or a step that a run would not wait for.
    """
    spec, found = env.task, {}
    for name, actions in tries.items():
        try:
            env.reset(options={"task": spec})
            played(env, actions)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"[:300]
    return found


def played(env: TurnEnv, actions: Sequence[ActionLike]) -> dict[str, Any]:
    """Return the info of the step that ends the episode."""
    for action in (*actions, "", *ending(env), *[""] * env.max_turns):
        began = perf_counter()
        _, _, terminated, truncated, info = env.step(action)
        if perf_counter() - began > ENV_TIMEOUT:
            raise TimeoutError(f"a step took longer than {ENV_TIMEOUT:g} s, which no run waits for")
        if terminated or truncated:
            assert isinstance(info["success"], bool)
            return info
    raise AssertionError("the episode does not end")
