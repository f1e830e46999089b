"""Agents that need no model: functions, the oracle, random play, silence, and mixtures of skill."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..envs.author_line import at, defined_at
from ..envs.messages import Action, ActionLike, Observation
from ..errors import UsageError
from ..tasks.rng import stable_hash, unit_hash
from .agent import Decision, EpisodeContext, Session

Reply = ActionLike | Awaitable[ActionLike]
Function = Callable[[Any], Reply]


class FunctionAgent:
    """A plain function as an agent.

    A function that is not ``async`` runs in the event loop, and every other episode waits for it.

    Args:
        function: takes the observation and returns an action, sync or async. Its parameter is the observation's
            text, unless it is annotated with ``Observation``.
        factory: instead of ``function``, opens one function per episode, so that it may keep state:
            ``factory(context) -> function``.

    Raises:
        UsageError: not exactly one of the two is given.
    """

    def __init__(
        self, function: Function | None = None, *, factory: Callable[[EpisodeContext], Function] | None = None
    ) -> None:
        if (function is None) == (factory is None):
            raise UsageError("a FunctionAgent needs either a function, or factory= to create one per episode")
        self._open = factory if factory is not None else lambda context: function

    def start(self, context: EpisodeContext) -> Session:
        """A session that calls the function once a turn."""
        function = self._open(context)
        if not callable(function):
            raise UsageError(f"a FunctionAgent's factory returned {function!r}, which is not callable")
        return _FunctionSession(function, _wants_observation(function))


class OracleAgent:
    """Does what the environment's oracle says: the best there is."""

    def start(self, context: EpisodeContext) -> Session:
        """A session that asks the oracle every turn."""
        return _AskingSession(context.oracle)


class RandomAgent:
    """Acts at random among what the rules allow, reproducibly from the episode's generator."""

    def start(self, context: EpisodeContext) -> Session:
        """A session that draws every turn."""
        return _AskingSession(lambda: context.random(context.rng.getrandbits(31)))


class NullAgent:
    """Says nothing, every turn: an environment must not pay for that."""

    def start(self, context: EpisodeContext) -> Session:
        """A session of empty actions."""
        return _NullSession()


class MixedAgent:
    """Demonstrators of mixed skill, as LMRL-Gym's datasets were made (2311.18232, §4).

    Each episode draws a skill; each of its turns then takes the oracle's action with that probability, and a
    random one otherwise. Random mistakes average out: a clone of them is nearly perfect at temperature 0. Habits do
    not: they are the same mistake whenever the same message is read.

    Args:
        skills: the mixture; each in [0, 1].
        weights: relative frequency of each skill; equal when omitted.
        habits: share of messages, chosen by their hash, at which skill does not help: one legal action, chosen by the
            same hash, replaces the oracle's.

    Raises:
        UsageError: no skills, a skill or a share outside [0, 1], or weights that do not fit the skills.
    """

    def __init__(self, skills: Sequence[float], weights: Sequence[float] | None = None, habits: float = 0.0) -> None:
        if not 0.0 <= habits <= 1.0:
            raise UsageError(f"habits {habits} must be a share in [0, 1]")
        if not skills or not all(0.0 <= skill <= 1.0 for skill in skills):
            raise UsageError(f"skills {list(skills)} must be one or more probabilities in [0, 1]")
        chances = [1.0] * len(skills) if weights is None else list(weights)
        if len(chances) != len(skills) or not all(chance >= 0 for chance in chances) or sum(chances) <= 0:
            raise UsageError(f"weights {chances} must have one non-negative number per skill, and not only zeros")
        self.skills, self.weights, self.habits = tuple(skills), tuple(chances), habits

    def start(self, context: EpisodeContext) -> Session:
        """A session of one skill."""
        return _MixedSession(context, context.rng.choices(self.skills, self.weights)[0], self.habits)


@dataclass(frozen=True, slots=True)
class _FunctionSession:
    function: Function
    wants_observation: bool

    async def act(self, observation: Observation) -> Decision:
        began = perf_counter()
        reply: Any = self.function(observation if self.wants_observation else observation.text)
        action = await reply if inspect.isawaitable(reply) else reply
        try:
            return Decision(Action.of(action), seconds=perf_counter() - began)
        except TypeError as error:
            name = getattr(self.function, "__name__", "the function")
            raise TypeError(f"{name}() is wrong: {error}{at(defined_at(self.function))}") from None


@dataclass(frozen=True, slots=True)
class _AskingSession:
    ask: Callable[[], Awaitable[Action]]

    async def act(self, observation: Observation) -> Decision:
        return Decision(Action.of(await self.ask()))


@dataclass(frozen=True, slots=True)
class _MixedSession:
    context: EpisodeContext
    skill: float
    habits: float

    async def act(self, observation: Observation) -> Decision:
        rng = self.context.rng
        seed = rng.getrandbits(31)  # drawn in either case, so that skills share their random actions
        if rng.random() >= self.skill:
            return Decision(Action.of(await self.context.random(seed)))
        text = observation.messages[-1].text if observation.messages else ""  # without rules that came before it
        if unit_hash("habit", text) < self.habits:
            fixed = int.from_bytes(stable_hash("habitual action", text)[:3], "big")
            return Decision(Action.of(await self.context.random(fixed)))
        return Decision(Action.of(await self.context.oracle()))


@dataclass(frozen=True, slots=True)
class _NullSession:
    async def act(self, observation: Observation) -> Decision:
        return Decision(Action())


def _wants_observation(function: Function) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters:
        return False
    annotation = parameters[0].annotation  # text in modules that postpone the evaluation of annotations
    return annotation is Observation or (isinstance(annotation, str) and annotation.split(".")[-1] == "Observation")
