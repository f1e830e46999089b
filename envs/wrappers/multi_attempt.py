"""``MultiAttempt``: after a failed attempt, tell the agent and let it try the same task again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import gymnasium

from ...errors import UsageError
from ..contract import Contract
from ..messages import ActionLike, Observation, message
from ..step import OUT_OF_TURNS
from .base import Resets, Resetting, Stepping, Steps, TurnWrapper


class MultiAttempt(TurnWrapper):
    """After a failure, reset to the same task and go on in the same episode, up to ``attempts`` times.

    The agent sees the end of the failed attempt, reads which attempt comes next, and sees the task again. Rewards
    are given as they come and corrected where an attempt ends, so that those of the whole episode sum to the return
    of the last attempt, or of the best one.

    Args:
        env: the environment.
        attempts: how many there are in all.
        reward: the attempt whose return is that of the episode.

    Raises:
        UsageError: there would be no attempt.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], attempts: int, reward: Literal["last", "best"] = "last") -> None:
        super().__init__(env, attempts=attempts, reward=reward)
        if attempts < 1:
            raise UsageError(f"attempts must be at least 1; got {attempts}")
        if reward not in ("last", "best"):
            raise UsageError(f"the reward of several attempts is that of the 'last' or the 'best'; got {reward!r}")
        self._attempts, self._reward = attempts, reward
        self._attempt = 1
        self._return = 0.0  # of the present attempt
        self._given = 0.0  # in this episode so far
        self._best: float | None = None  # of the attempts that have ended

    @property
    def max_turns(self) -> int:
        """Most actions of an episode: those of all attempts together."""
        return self._attempts * int(self.env.get_wrapper_attr("max_turns"))

    @property
    def contract(self) -> Contract:
        """The environment's contract, where one observation may contain both an end and a beginning."""
        inner: Contract = super().contract
        return replace(inner, max_observation_chars=2 * inner.max_observation_chars + 100)

    @property
    def attempt(self) -> int:
        """Number of the current attempt: 1, 2, 3, …"""
        return self._attempt

    def state_key(self) -> str | None:
        """Return a key that includes the attempt, since fewer attempts are left in a later one."""
        return self._keyed(self.env.get_wrapper_attr("state_key")())

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Start the first attempt."""
        self._attempt, self._return, self._given, self._best = 1, 0.0, 0.0, None
        observation, info = yield Resetting(seed, options)
        return observation, {**info, "attempt": 1}

    def stepping(self, action: ActionLike) -> Steps:
        """Take one action; start the next attempt if one fails."""
        observation, reward, terminated, truncated, info = yield Stepping(action)
        info = {**info, "attempt": self._attempt, "obs_key": self._keyed(info["obs_key"])}
        self._return += reward
        if not (terminated or truncated):
            self._given += reward
            return observation, reward, terminated, truncated, info
        again = not info["success"] and self._attempt < self._attempts
        reward += self._correction(reward, again)
        if again:
            self._attempt, self._return = self._attempt + 1, 0.0
            first, first_info = yield Resetting(options={"task": self.task})
            info["failed_checks"] = dict(info.pop("score").checks)
            info["obs_key"] = self._keyed(first_info["obs_key"])
            del info["success"]
            info.pop(OUT_OF_TURNS, None)  # of the attempt, not of the episode
            notice = message("user", f"That attempt failed. Attempt {self._attempt} of {self._attempts} begins.")
            observation = Observation((*observation.messages, notice, *first.messages))
            terminated = truncated = False
        return observation, reward, terminated, truncated, info

    def _keyed(self, key: str | None) -> str | None:
        return key if key is None or self._attempt == 1 else f"attempt {self._attempt}: {key}"

    def _correction(self, reward: float, again: bool) -> float:
        """Return the correction of an attempt's last reward, with which all rewards sum to the episode's return."""
        best = self._return if self._best is None else max(self._best, self._return)
        self._best = best
        if self._reward == "best":
            worth = best
        else:
            worth = 0.0 if again else self._return
        correction = worth - (self._given + reward)
        self._given = worth
        return correction
