"""``TurnWrapper``: a Gymnasium wrapper that keeps forks, tools, oracles and both API forms working."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from ...errors import ContractError
from ...tasks.score import Score
from ..background import resolve
from ..base import Reset, Stepped, TurnEnv
from ..contract import Contract
from ..deprecated import LIMITS, with_old_limits
from ..messages import ActionLike, Observation

SHARED = ("_cached_spec", "_saved_kwargs", "_action_space", "_observation_space", "_metadata")
"""Attributes of Gymnasium's wrappers that never change in place, so that a fork may share them."""


@dataclass(frozen=True, slots=True)
class Resetting:
    """Ask the wrapped environment to reset."""

    seed: int | None = None
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Stepping:
    """Ask the wrapped environment to step."""

    action: ActionLike


@dataclass(frozen=True, slots=True)
class Judging:
    """Ask the wrapped environment for its current ``Score``."""


Request = Resetting | Stepping | Judging
Resets = Generator[Request, Any, Reset]
Steps = Generator[Request, Any, Stepped]


class TurnWrapper(gymnasium.Wrapper[Observation, ActionLike, Observation, ActionLike], RecordConstructorArgs):
    """The base of wrappers. A wrapper writes ``resetting`` or ``stepping``, once, for both API forms.

    They are generators: where Gymnasium's wrapper would write ``self.env.step(action)``, they write
    ``yield Stepping(action)``. Their state is plain attributes, which a fork copies. Whatever else an environment
    has (``tools``, ``task``, ``oracle``, …) is that of the wrapped one. Turns are counted here, and a step beyond
    the end that this wrapper reported is refused.

    >>> class Whisper(TurnWrapper):
    ...     def stepping(self, action):
    ...         observation, reward, terminated, truncated, info = yield Stepping(action)
    ...         quiet = [message.with_text(message.text.lower()) for message in observation.messages]
    ...         return Observation.of(quiet), reward, terminated, truncated, info
    """

    constant: ClassVar[tuple[str, ...]] = ()
    """Attributes of a subclass that never change in place, so that a fork may share them."""

    _steps: int = 0
    _ended: bool = True

    def __init__(self, env: gymnasium.Env[Any, Any], **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, TurnEnv):
            raise ContractError(f"{type(self).__name__} wraps turn environments; got a {type(env.unwrapped).__name__}")

    # -- what a wrapper writes ----------------------------------------------------------------------------------

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Start an episode; ``yield Resetting(…)`` returns observation and info."""
        reset: Reset = yield Resetting(seed, options)
        return reset

    def stepping(self, action: ActionLike) -> Steps:
        """Take one action; ``yield Stepping(…)`` returns observation, reward, terminated, truncated and info."""
        stepped: Stepped = yield Stepping(action)
        return stepped

    # -- Gymnasium's form, and the async form -------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see ``TurnEnv.reset``."""
        reset: Reset = self._drive(self.resetting(seed, options))
        return self._begun(reset)

    def step(self, action: ActionLike) -> Stepped:
        """Take one action; see ``TurnEnv.step``."""
        self._enter()
        stepped: Stepped = self._drive(self.stepping(action))
        return self._left(stepped)

    async def areset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see ``TurnEnv.areset``."""
        return self._begun(await self._adrive(self.resetting(seed, options)))

    async def astep(self, action: ActionLike) -> Stepped:
        """Take one action; see ``TurnEnv.astep``."""
        self._enter()
        return self._left(await self._adrive(self.stepping(action)))

    # -- what the runner, trainers and certification ask ---------------------------------------------------------

    @property
    def contract(self) -> Contract:
        """The contract of the wrapped environment; a wrapper that changes a limit overrides this."""
        return with_old_limits(self, self.env.get_wrapper_attr("contract"))

    @property
    def turn(self) -> int:
        """Number of actions taken in this episode."""
        return self._steps

    def fork(self) -> Self:
        """Return an independent copy in the same state: the environment forks by its means, the wrapper by copying."""
        fork = getattr(self.env, "fork", None)
        return self._around(copy.deepcopy(self.env) if fork is None else fork(), {})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._around(copy.deepcopy(self.env, memo), memo)  # also before the first reset, where nothing forks

    def __getattr__(self, name: str) -> Any:
        # Only what this object lacks comes here. Private names do not pass, so that copying and pickling see what is.
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.contract, name) if name in LIMITS else self.env.get_wrapper_attr(name)

    # -- the inside ---------------------------------------------------------------------------------------------

    def _around(self, inner: gymnasium.Env[Any, Any], memo: dict[int, Any]) -> Self:
        """Return a copy of this wrapper around another environment."""
        clone = object.__new__(type(self))
        memo |= {id(self): clone, id(self.env): inner}
        for name, value in vars(self).items():
            setattr(clone, name, value if name in SHARED or name in self.constant else copy.deepcopy(value, memo))
        return clone

    def _drive(self, script: Generator[Request, Any, Any]) -> Any:
        try:
            request = next(script)
            while True:
                match request:
                    case Resetting(seed, options):
                        answer: Any = self.env.reset(seed=seed, options=cast("dict[str, Any] | None", options))
                    case Stepping(action):
                        answer = self.env.step(action)
                    case Judging():
                        answer = Score.of(resolve(self.judge()))
                request = script.send(answer)
        except StopIteration as stop:
            return stop.value

    async def _adrive(self, script: Generator[Request, Any, Any]) -> Any:
        try:
            request = next(script)
            while True:
                match request:
                    case Resetting(seed, options):
                        answer: Any = await self._inner("reset", seed=seed, options=options)
                    case Stepping(action):
                        answer = await self._inner("step", action)
                    case Judging():
                        answer = self.judge()
                        answer = Score.of(await answer if inspect.isawaitable(answer) else answer)
                request = script.send(answer)
        except StopIteration as stop:
            return stop.value

    async def _inner(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The wrapped environment's async form; its sync form in a thread where a foreign wrapper hides that."""
        if hasattr(self.env, f"a{name}"):
            return await getattr(self.env, f"a{name}")(*args, **kwargs)
        return await asyncio.to_thread(getattr(self.env, name), *args, **kwargs)

    def _begun(self, reset: Reset) -> Reset:
        self._steps, self._ended = 0, False
        return reset

    def _enter(self) -> None:
        if self._ended:
            raise ContractError("step() was called before reset() or after the end of the episode; call reset() first")
        self._steps += 1

    def _left(self, stepped: Stepped) -> Stepped:
        observation, reward, terminated, truncated, info = stepped
        self._ended = terminated or truncated
        return observation, float(reward), terminated, truncated, {**info, "turn": self._steps}
