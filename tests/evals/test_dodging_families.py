"""A policy that breaks an environment of any family where it does not know the answer is reported at its true success.

``test_dodging.py`` has twenty means for the code family.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.agent import EpisodeContext
from turnwise.agents.scripted import FunctionAgent
from turnwise.envs.base import TurnEnv
from turnwise.envs.certify.laws_attacks import ending
from turnwise.envs.messages import ActionLike
from turnwise.errors import SandboxUnavailableError
from turnwise.evals.summary import summarise
from turnwise.rollouts.runner import run
from turnwise.tasks.spec import TaskSpec

from ..envs.code.tasks_of_one import DoubleEnv
from ..envs.hostile import all_attempts
from ..envs.program.worlds import Bookshops
from ..shifts import sampled

EPISODES, SOLVED = 10, 3
MAKE: dict[str, Callable[[], TurnEnv]] = {
    "code": partial(DoubleEnv, seconds=3.0, trial_seconds=3.0, grading_seconds=3.0),
    "programs": partial(Bookshops, actions="python", seconds=2.0, max_turns=6),
    "apps": lambda: tw.make("turnwise/Apps-v2").unwrapped,  # type: ignore[dict-item,return-value]
    "search": lambda: tw.make("turnwise/Search-v1").unwrapped,  # type: ignore[dict-item,return-value]
    "web": lambda: tw.make("turnwise/WebHTML-v1").unwrapped,  # type: ignore[dict-item,return-value]
}
QUICK = (
    ("code", "a command that kills everything"),
    ("code", "a command that is a command of a megabyte"),
    ("code", "write with a NUL as its path"),
    ("programs", "a program that sends brackets"),
    ("programs", "a program that has a session that ends"),
    ("apps", "a message with a megabyte"),
    ("apps", "mail labels without end"),
    ("apps", "calendar books all of time, again and again"),
    ("search", "opens every page"),
    ("search", "cites as much as it can"),
    ("web", "fills forms with 20,000 characters"),
    ("web", "opens tabs without end"),
    ("web", "sends a form again and again"),
)
SLOW = (
    ("code", "a command that never ends"),
    ("code", "a submission that stops what checks it"),
)
"""Ways to dodge, by family; those that wait for a limit take long."""


def dodging(make: Callable[[], TurnEnv], attempt: str, solved: set[str]) -> FunctionAgent:
    """Return an agent that plays an attempt, except in the tasks that it can solve."""

    def opened(context: EpisodeContext) -> Callable[[str], ActionLike | Awaitable[ActionLike]]:
        if context.task.digest in solved:
            return lambda said: context.oracle()
        left = iter(plays(make, context.task, attempt))
        return lambda said: next(left, "")

    return FunctionAgent(factory=opened)


def plays(make: Callable[[], TurnEnv], spec: TaskSpec, attempt: str) -> Sequence[ActionLike]:
    """Return the actions of an attempt in a task, and then the call that ends it, if there is one."""
    env = make()
    try:
        env.reset(options={"task": spec})
        return [*all_attempts(env)[attempt], *ending(env)]
    finally:
        env.close()


def reported(family: str, attempt: str) -> None:
    make = MAKE[family]
    try:
        tasks = make().tasks()
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED, for want of a sandbox: {error}")
    options: dict[str, Any] = {"level": 3} if family in ("apps", "search", "web") else {}
    specs = [tasks.spec(seed, **options) for seed in range(EPISODES)]
    agent = dodging(make, attempt, {spec.digest for spec in specs[:SOLVED]})
    found = summarise(run(make, agent, specs, retries=0, concurrency=2))
    assert (found.scored, found.after_action, dict(found.infrastructure)) == (EPISODES, 0, {}), "none is left out"
    assert not found.inconclusive
    low, value, high = found.success.low, found.success.value, found.success.high
    assert low is not None
    assert high is not None
    assert low < value == SOLVED / EPISODES < high, "the true success is what is reported, within the interval"


@pytest.mark.slow
@pytest.mark.parametrize(("family", "attempt"), sampled(QUICK, 5, key="dodging"))
def test_who_dodges_is_reported_at_the_true_success(family: str, attempt: str) -> None:
    reported(family, attempt)


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize(("family", "attempt"), [*QUICK, *SLOW])
def test_whoever_dodges_in_any_way_is_reported_at_the_true_success(family: str, attempt: str) -> None:
    reported(family, attempt)


def test_every_family_is_dodged() -> None:
    assert {family for family, _ in QUICK} == set(MAKE)
