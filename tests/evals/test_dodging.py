"""A policy that dodges whatever it does not know is reported at its true success, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import turnwise as tw
from turnwise.agents.agent import EpisodeContext
from turnwise.agents.scripted import FunctionAgent
from turnwise.envs.code.attacks import attacks_on
from turnwise.envs.code.backends import shared_backend
from turnwise.envs.messages import ActionLike, ToolCall
from turnwise.errors import SandboxUnavailableError, StoreError, UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig
from turnwise.evals.summary import Summary
from turnwise.rollouts.store import load_episodes
from turnwise.sandboxes.loop import LOOP
from turnwise.tasks.code.task import CodeTask

from ..envs.code.tasks_of_one import RIGHT, DoubleEnv, One, task

KNOWN = 30
"""Percent of the tasks to which the policy knows the answer."""


class Fragile(tw.TurnEnv):
    """Asks for a number, and fails on request: always, or the first times."""

    blocking = False
    breaks: ClassVar[Counter[int]] = Counter()
    times: ClassVar[int] = 0

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return f"number {task.seed}"

    def act(self, action: tw.Action) -> Any:
        if action.text == "dodge" and self.breaks[self.task.seed] < self.times:
            self.breaks[self.task.seed] += 1
            raise ZeroDivisionError("broken on purpose")
        return tw.success("yes") if action.text == "known" else tw.failure("no")


DRAWN: Counter[int] = Counter()
"""Number of times that the policy started a task."""


def knows(context: EpisodeContext) -> bool:
    return context.task.seed % 100 < KNOWN


def dodger(context: EpisodeContext) -> Callable[[str], ActionLike]:
    """Says what it knows, and breaks the environment where it does not; a second draw would be right."""
    DRAWN[context.task.seed] += 1
    draw = "known" if knows(context) or DRAWN[context.task.seed] > 1 else "dodge"
    return lambda text: draw


def evaluated(folder: Path, times: int) -> Summary:
    Fragile.times, Fragile.breaks = times, Counter()
    DRAWN.clear()
    config = EvalConfig(env="test/Fragile", n=100, backoff=0, retries=2, splits=(tw.Split.TRAIN,))
    return run_evaluation(config, FunctionAgent(factory=dodger), store=folder, env=Fragile)


def solved_share(folder: Path) -> float:
    there = load_episodes(folder)
    return sum(episode.task.seed % 100 < KNOWN for episode in there) / len(there)


def test_failures_that_pass_bring_no_second_draw(tmp_path: Path) -> None:
    """The environment breaks twice and then answers: the action that is answered is the one that was sampled."""
    summary = evaluated(tmp_path, times=2)
    assert summary.scored == summary.episodes
    assert summary.success.value == pytest.approx(solved_share(tmp_path)), "the true success, no matter what broke"
    assert not summary.inconclusive, "nothing was drawn again, so nothing is in doubt"
    assert summary.after_action == 100 - sum(e.task.seed % 100 < KNOWN for e in load_episodes(tmp_path))


def test_failures_that_stay_are_no_success(tmp_path: Path) -> None:
    summary = evaluated(tmp_path, times=9)
    assert summary.success.value == 1.0, "of what is left over, and so no success at all"
    assert f"success is {100 * solved_share(tmp_path):.1f} %, and 100.0 %" in summary.inconclusive


@pytest.mark.slow
def test_resuming_draws_nothing_again_that_failed_after_an_action(tmp_path: Path) -> None:
    before = evaluated(tmp_path, times=9)
    Fragile.times = 0
    config = EvalConfig(env="test/Fragile", n=100, backoff=0, retries=2, splits=(tw.Split.TRAIN,))
    agent = FunctionAgent(factory=dodger)
    after = run_evaluation(config, agent, store=tmp_path, env=Fragile, resume=True)
    assert (after.scored, after.inconclusive) == (before.scored, before.inconclusive)
    replaced = run_evaluation(config, agent, store=tmp_path, env=Fragile, overwrite=True)
    assert replaced.scored == 100


def test_what_counts_is_not_replaced_without_being_asked(tmp_path: Path) -> None:
    Fragile.times, Fragile.breaks = 99, Counter()
    config = EvalConfig(env="test/Fragile", n=3, backoff=0, retries=0, splits=(tw.Split.TRAIN,))
    with pytest.raises(UsageError, match="none of 3 episodes is scored"):
        run_evaluation(config, FunctionAgent(lambda text: "dodge"), store=tmp_path, env=Fragile)
    with pytest.raises(StoreError, match="--overwrite"):
        run_evaluation(config, FunctionAgent(lambda text: "known"), store=tmp_path, env=Fragile)


MEANS = (
    "a command that fills the disk",
    "a command that leaves a sparse file of a terabyte",
    "a command that leaves small files and a sparse one",
    "a command that makes its file unreadable",
    "a command that removes everything",
    "a command that kills everything",
    "a command that forks without end",
    "a command that has half of a surrogate pair",
    "a program that makes empty files without end",
    "a program that makes empty files elsewhere",
    "a program that makes directories 4,000 deep",
    "a program that makes names that are no text",
    "a program that makes links with long targets",
    "a program that takes all memory",
    "a program that shares memory that outlives it",
    "a submission that is 24 MB",
    "a submission that loops",
    "a submission that kills what checks it",
    "a submission that reports nonsense",
    "a submission that makes empty files while it is graded",
)
"""Twenty ways out, each of which was one, is next to one, or looks like one."""


def by_all_means(work: CodeTask) -> Callable[[EpisodeContext], Callable[[str], ActionLike]]:
    """A policy that solves what it knows, and takes one of the twenty ways out elsewhere."""
    ways = attacks_on(work, "tools")

    def plays(context: EpisodeContext) -> Callable[[str], ActionLike]:
        right: Sequence[ActionLike] = [ToolCall("write", {"path": "solution.py", "content": RIGHT})]
        way = right if knows(context) else ways[MEANS[context.task.seed % len(MEANS)]]
        left = iter([*way, *[ToolCall("submit")] * 30])
        return lambda text: next(left)

    return plays


class Numbered(One):
    """Doubling numbers, many times."""

    def build(self, spec: tw.TaskSpec, rng: tw.Rng) -> CodeTask:
        return replace(super().build(spec, rng), prompt=f"Write double(x), number {spec.seed}.")


class NumberedEnv(DoubleEnv):
    family = Numbered()


@pytest.fixture
def confined() -> Iterator[None]:
    """A confining sandbox backend, closed afterwards."""
    try:
        backend = shared_backend(None)
    except SandboxUnavailableError as error:
        pytest.skip(f"NOT TESTED, for want of a sandbox: {error}")
    yield
    LOOP.wait(backend.close())
    shared_backend.cache_clear()


@pytest.mark.shift
@pytest.mark.slow
@pytest.mark.usefixtures("confined")
def test_dodging_by_any_of_twenty_means_is_counted(tmp_path: Path) -> None:
    settings = {"seconds": 3.0, "trial_seconds": 3.0, "grading_seconds": 3.0}
    config = EvalConfig(
        env="test/Double", n=60, backoff=0, concurrency=2, splits=(tw.Split.TRAIN,), env_kwargs=settings
    )
    summary = run_evaluation(config, FunctionAgent(factory=by_all_means(task())), store=tmp_path, env=NumberedEnv)
    truth = solved_share(tmp_path)
    assert (summary.scored, dict(summary.infrastructure), summary.after_action) == (60, {}, 0)
    assert summary.success.value == pytest.approx(truth)
    assert summary.success.low is not None
    assert summary.success.high is not None
    assert summary.success.low <= truth <= summary.success.high
    assert not summary.inconclusive
