"""Forking an environment: an independent one in the same state, by a declared means."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from ..errors import ContractError
from ..tasks.spec import TaskSpec
from .messages import Action

SHARED = ("spec", "observation_space", "action_space", "metadata", "_init", "_task", "_actions")
"""Attributes that never change in place, so that a copy may share them."""


class Forks(StrEnum):
    """How an environment forks."""

    COPY = "copy"
    """Deep-copy the instance. For state that lives in Python objects."""
    SNAPSHOT = "snapshot"
    """``restore(snapshot())`` on a new instance. For state that lives elsewhere: a database, a directory."""
    REPLAY = "replay"
    """Reset a new instance to the same task and repeat the actions. For any deterministic environment."""


class Forkable(Protocol):
    """The parts of an environment that forking uses: constructor arguments, means of forking, the episode's state."""

    spec: Any
    _init: tuple[tuple[Any, ...], dict[str, Any]]
    _task: TaskSpec | None
    _turn: int
    _over: bool
    _actions: tuple[Action, ...]
    _np_random: Any

    @property
    def forks(self) -> Forks:
        """How it forks."""

    @property
    def family(self) -> Any:
        """The family of its tasks; shared, never copied."""

    def reset(self, *, options: Mapping[str, Any]) -> Any:
        """Begin an episode."""

    def step(self, action: Action) -> Any:
        """Take one action."""

    def state_key(self) -> str | None:
        """A name for the present state."""

    def snapshot(self) -> Any:
        """The state as a value."""

    def restore(self, snapshot: Any) -> None:
        """Enter the state of a snapshot."""


E = TypeVar("E", bound=Forkable)


def fork_env(env: E) -> E:
    """An independent environment in the state of ``env``.

    Raises:
        ContractError: there is no episode to fork, or a replay came out differently.
    """
    if env._task is None:
        raise ContractError("fork() needs an episode; call reset() first")
    if env.forks is Forks.COPY:
        return forked(env, {})
    clone = _fresh(env)
    if env.forks is Forks.SNAPSHOT:
        vars(clone).update(_task=env._task, _turn=env._turn, _over=env._over, _actions=env._actions)
        clone._np_random = copy.deepcopy(env._np_random)
        clone.restore(env.snapshot())
        return clone
    clone.reset(options={"task": env._task})
    for action in env._actions:
        clone.step(action)
    if clone._over != env._over or clone.state_key() != env.state_key():
        raise ContractError(f"{type(env).__name__} forks by replay, but a replay of its actions ended differently")
    clone._np_random = copy.deepcopy(env._np_random)
    return clone


def forked(env: E, memo: dict[int, Any]) -> E:
    """A deep copy of an environment that shares what cannot change: spaces, task, family, constructor arguments."""
    clone = _blank(env)
    memo[id(env)] = clone
    for shared in (*(getattr(env, name, None) for name in SHARED), env.family):
        if shared is not None:
            memo[id(shared)] = shared
    for name, value in vars(env).items():
        try:
            copied = copy.deepcopy(value, memo)
        except (TypeError, copy.Error, pickle.PicklingError) as error:
            raise ContractError(
                f"{type(env).__name__} forks by copy, but its {name!r} cannot be copied ({error}); declare "
                "forks = Forks.REPLAY, or Forks.SNAPSHOT with snapshot() and restore()"
            ) from error
        vars(clone)[name] = copied
    return clone


def _blank(env: E) -> E:
    args, kwargs = env._init
    return type(env).__new__(type(env), *args, **kwargs)


def _fresh(env: E) -> E:
    args, kwargs = env._init
    clone = type(env)(*args, **kwargs)
    clone.spec = env.spec
    return clone
