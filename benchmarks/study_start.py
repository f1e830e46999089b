"""Whether a study starts fairly: its clone reads what the environment answers, and is neither hopeless nor done.

A clone reads if it earns more than a blind player, in the study's own units of return, which its learners optimize.
The blind player is the clone itself: a ``Shadow`` shows it the answers that its actions, or the oracle's, would get in
another task, while rewards and ends are those of its own. What it sees looks as it always does, and does not help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Literal

import gymnasium
import pydantic
from study_config import StartConfig

from turnwise import Episode, Observation, TaskSpec, TurnEnv
from turnwise.agents import Agent
from turnwise.envs import TurnWrapper
from turnwise.envs.wrappers.base import Resets, Resetting, Stepping, Steps
from turnwise.errors import UsageError
from turnwise.evals.statistics import student
from turnwise.rollouts import run

FEWEST_TASKS = 8
"""Fewer tasks have no interval of a difference per task: over five that are rarely solved, it covers 89 %."""


class Shadow(TurnWrapper):
    """Shows the answers of another task's episode, in which the same actions are taken, or the oracle's.

    The first observation is the episode's own: it states the rules. If the other episode ends first, its last answer
    before the end is repeated.

    Args:
        env: the environment.
        other: another instance of it, unwrapped.
        tasks: the tasks; the other episode has another one of the same split and level.
        oracle: whether the oracle acts in the other episode.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], other: TurnEnv, tasks: Sequence[TaskSpec], *, oracle: bool = False
    ) -> None:
        super().__init__(env, other=other, tasks=tasks, oracle=oracle)
        self._oracle = oracle
        self._other, self._follower = other, _followers(tasks)
        self._shown, self._over = Observation(), False

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Start both episodes."""
        observation, info = yield Resetting(seed, options)
        follower = self._follower.get(self.task.digest)
        if follower is None:
            raise UsageError(f"task {self.task} is not one of the tasks that this shadow was made for")
        self._shown, self._over = self._other.reset(options={"task": follower})[0], False
        return observation, info

    def stepping(self, action: Any) -> Steps:
        """Act in both episodes, and show the other one's answer."""
        _, reward, terminated, truncated, info = yield Stepping(action)
        if not self._over:
            answer, _, *ends, _ = self._other.step(self._other.oracle() if self._oracle else action)
            self._over = any(ends)
            if not self._over:
                self._shown = answer
        return self._shown, reward, terminated, truncated, info


def _followers(tasks: Sequence[TaskSpec]) -> dict[str, TaskSpec]:
    """Return another task of the same split and level, half of them further on, for each that has one, by digest."""
    cells: dict[tuple[Any, ...], list[TaskSpec]] = {}
    for task in tasks:
        cells.setdefault((task.split, task.level), []).append(task)
    found: dict[str, TaskSpec] = {}
    for cell in cells.values():
        half = len(cell) // 2
        if half:
            found |= {task.digest: other for task, other in zip(cell, cell[half:] + cell[:half], strict=True)}
    return found


class Play(pydantic.BaseModel):
    """How a player does: mean return and share of solved tasks."""

    reward: float
    success: float


class Start(pydantic.BaseModel):
    """Measurements of a clone from which learners start.

    Args:
        plays: results by player: ``T=1``, ``T=0.5``, ``T=0``, ``blind`` (at temperature 1) and ``oracle``.
        reads: mean over tasks of what reading adds to the return at temperature 1.
        low: lower end of its 95 % interval (Student's, over tasks).
        high: upper end.
    """

    plays: dict[str, Play]
    reads: float
    low: float
    high: float

    def faults(self, rules: StartConfig) -> list[str]:
        """Return why learners should not start here, as sentences; empty if they may."""
        found = []
        if self.low <= 0:
            found.append(
                f"it does not read: with the answers of another task it earns as much (difference "
                f"{self.reads:.2f} of return, 95 % interval {self.low:.2f} … {self.high:.2f})"
            )
        least, most = rules.success
        now, greedy = self.plays["T=1"].success, self.plays["T=0"].success
        if not least <= now <= most:
            found.append(f"it solves {now:.0%} of the episodes at temperature 1, not {least:.0%} to {most:.0%}")
        if greedy - now > rules.sharper:
            found.append(
                f"at temperature 0 it solves {greedy:.0%}, at temperature 1 {now:.0%}: a learner would only sharpen it"
            )
        return found


def measure_start(
    make: Callable[[], TurnEnv],
    agent_at: Callable[[float], Agent],
    oracle: Agent,
    tasks: Sequence[TaskSpec],
    *,
    attempts: int,
    shadow: Literal["actions", "oracle"] = "actions",
    seed: int = 0,
) -> Start:
    """Play the tasks with a clone at three temperatures, blind, and with the oracle.

    Args:
        make: creates the environment.
        agent_at: creates the clone's agent at a temperature.
        oracle: agent of the oracle.
        tasks: tasks, two or more of each split and level.
        attempts: episodes per task.
        shadow: the one who acts in the other task, whose answers the blind player sees: the player, or the oracle.
        seed: seed of the play.

    Raises:
        UsageError: there are too few tasks to tell whether the clone reads.
    """
    tasks = [task for task in tasks if task.digest in _followers(tasks)]
    if len(tasks) < FEWEST_TASKS:
        raise UsageError(f"{len(tasks)} tasks cannot show whether a clone reads; use at least {FEWEST_TASKS}")

    def play(agent: Agent, env: Callable[[], TurnEnv], number: int) -> list[Episode]:
        return run(env, agent, tasks, group_size=number, seed=seed)

    played = {f"T={temperature:g}": play(agent_at(temperature), make, attempts) for temperature in (1.0, 0.5, 0.0)}
    blinded = partial(Shadow, tasks=tasks, oracle=shadow == "oracle")
    played["blind"] = play(agent_at(1.0), lambda: blinded(make(), make()), attempts)  # type: ignore[arg-type,return-value]
    played["oracle"] = play(oracle, make, 1)
    gain = student([_mean(played["T=1"], task) - _mean(played["blind"], task) for task in tasks])
    assert gain.low is not None
    assert gain.high is not None
    plays = {name: _play(episodes) for name, episodes in played.items()}
    return Start(plays=plays, reads=gain.value, low=gain.low, high=gain.high)


def _mean(episodes: Sequence[Episode], task: TaskSpec) -> float:
    return fmean(one.total_reward for one in episodes if one.scored and one.task.digest == task.digest)


def _play(episodes: Sequence[Episode]) -> Play:
    kept = [one for one in episodes if one.scored]
    return Play(reward=fmean(one.total_reward for one in kept), success=fmean(one.success for one in kept))
