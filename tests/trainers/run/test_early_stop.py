"""A run stops when its evaluations say so, and a resumed one remembers them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from turnwise.errors import CheckpointError
from turnwise.inference.models import load_model
from turnwise.trainers import loop
from turnwise.trainers.run.early_stop import EarlyStop
from turnwise.trainers.run.may_change import MAY_CHANGE, changeable
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.run_folder import RunFolder

from ..small import looping


def lines(*returns: float, success: float = 0.0) -> list[dict[str, Any]]:
    return [{"step": step, "eval/return": value, "eval/success": success} for step, value in enumerate(returns)]


def test_patience_counts_evaluations_that_are_no_better() -> None:
    assert EarlyStop(patience=2, logged=lines(-5.0, -3.0, -3.0)).reason is None
    watch = EarlyStop(patience=2, logged=lines(-5.0, -3.0, -3.0))
    assert not watch.see(3, {"eval/return": -4.0})
    assert watch.reason is not None
    assert "2 evaluations (eval.patience=2)" in watch.reason
    assert "the best is -3, at step 1" in watch.reason


def test_a_rise_starts_the_count_anew() -> None:
    assert EarlyStop(patience=2, logged=lines(-5.0, -6.0, -4.0, -6.0, -3.0, -6.0)).reason is None


def test_what_is_solved_is_enough() -> None:
    assert EarlyStop(stop_at=0.9, logged=lines(-5.0, success=0.8)).reason is None
    watch = EarlyStop(stop_at=0.9)
    watch.see(1, {"eval/return": -5.0, "eval/success": 0.9})
    assert watch.reason is not None
    assert "90% of the held-out tasks are solved" in watch.reason


def test_lines_without_an_evaluation_count_for_nothing() -> None:
    watch = EarlyStop(patience=1, logged=lines(-5.0))
    assert not watch.see(1, {"loss": 0.1})
    assert not watch.see(1, {"eval/return": None, "eval/success": None})
    assert watch.reason is None


def test_an_evaluation_without_a_return_is_no_rise() -> None:
    """A policy that failed in every held-out episode has no mean return."""
    watch = EarlyStop(patience=2, logged=lines(-5.0))
    assert not watch.see(1, {"eval/episodes": 4.0, "eval/success": 0.0})
    assert not watch.see(2, {"eval/episodes": 0.0}), "nothing was scored, and nothing is known"
    assert watch.reason is None
    assert not watch.see(3, {"eval/episodes": 4.0, "eval/success": 0.0})
    assert watch.reason is not None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_return_that_is_not_finite_is_never_the_best(value: float) -> None:
    """The log has null in its place, so that a resumed run would judge otherwise; and no return is above NaN."""
    watch = EarlyStop()
    assert not watch.see(0, {"eval/return": value, "eval/episodes": 4.0})
    assert watch.see(1, {"eval/return": -5.0, "eval/episodes": 4.0})
    assert not watch.see(2, {"eval/return": value, "eval/episodes": 4.0})
    assert watch.best == (1, -5.0)


@given(st.lists(st.floats(-10, 10), min_size=1), st.integers(1, 4))
def test_it_stops_exactly_where_the_last_evaluations_are_no_better(returns: list[float], patience: int) -> None:
    watch = EarlyStop(patience=patience)
    for step, value in enumerate(returns):
        watch.see(step, {"eval/return": value})
        if watch.reason is not None:
            break
    seen = returns[: step + 1]
    assert watch.best == (seen.index(max(seen)), max(seen)), "the best is the first of the highest"
    over = [n for n in range(len(returns)) if n - returns[: n + 1].index(max(returns[: n + 1])) >= patience]
    assert (watch.reason is not None) == bool(over)
    assert step == (over[0] if over else len(returns) - 1)


def unmoved(out: Path, cloned: Path, **changes: Any) -> loop.LoopConfig:
    """A run whose learning rate is so small that every evaluation is the same."""
    evaluation = {"split": "train", "episodes": 4, "every": 1, **changes.pop("eval", {})}
    return looping(out, cloned / "model", optimizer={"lr": 1e-12}, eval=evaluation, **changes)


@pytest.mark.slow
@pytest.mark.shift
def test_a_run_that_stands_still_is_stopped_and_says_so(tmp_path: Path, cloned: Path) -> None:
    result = loop.train(unmoved(tmp_path / "run", cloned, eval={"patience": 2}))
    assert result.steps == 2
    assert "stopped early: the held-out return has not risen for 2 evaluations" in result.note
    assert (result.folder / "checkpoints" / "step-00000002").is_dir()


@pytest.mark.slow
@pytest.mark.shift
def test_resumed_it_is_over_and_with_more_patience_it_goes_on(tmp_path: Path, cloned: Path) -> None:
    whole = loop.train(unmoved(tmp_path / "whole", cloned, eval={"patience": 3}))
    loop.train(unmoved(tmp_path / "run", cloned, eval={"patience": 2}))
    again = loop.train(unmoved(tmp_path / "run", cloned, eval={"patience": 2}, resume=True))
    assert (again.steps, again.note != "") == (2, True)
    longer = loop.train(unmoved(tmp_path / "run", cloned, eval={"patience": 3}, resume=True))
    assert longer.steps == whole.steps == 3
    for metric in ("return", "eval/return"):
        curves = [
            [line.get(metric) for line in read_metrics(each.folder / "metrics.jsonl")] for each in (whole, longer)
        ]
        assert curves[0] == curves[1], "a run that was stopped and continued is the run that was not"


@pytest.mark.slow
@pytest.mark.shift
def test_the_best_model_is_exported_if_it_is_asked_for(tmp_path: Path, cloned: Path) -> None:
    settings: dict[str, Any] = {"split": "train", "episodes": 4, "every": 1, "keep_best": True}
    moved = looping(tmp_path / "run", cloned / "model", optimizer={"lr": 0.05}, steps=2, eval=settings)
    result = loop.train(moved)
    evaluations = {
        line["step"]: line["eval/return"]
        for line in read_metrics(result.folder / "metrics.jsonl")
        if "eval/return" in line
    }
    best = max(evaluations, key=lambda step: (evaluations[step], -step))
    assert f"the model is that of step {best}" in result.note
    kept = result.folder / "best" / f"step-{best:08d}"
    assert [path.name for path in kept.parent.iterdir()] == [kept.name], "one best model is kept"
    exported, wanted = (load_model(folder)[0].state_dict() for folder in (result.model, kept))
    assert all(torch.equal(exported[name], wanted[name]) for name in wanted)
    assert (result.model / "agent.json").exists()


@pytest.mark.slow
def test_without_it_the_last_model_is_exported(tmp_path: Path, cloned: Path) -> None:
    result = loop.train(unmoved(tmp_path / "run", cloned, steps=1))
    assert result.note == ""
    assert not (result.folder / "best").exists()


@pytest.mark.parametrize("judge", [{"patience": 2}, {"stop_at": 0.5}, {"keep_best": True}])
@pytest.mark.parametrize("nothing", [{"every": 0}, {"episodes": 0}])
def test_judging_without_evaluations_is_refused(judge: dict[str, Any], nothing: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="judges by evaluations while training, and there are none"):
        looping(Path("x"), Path("y"), eval={**judge, **nothing})


@pytest.mark.parametrize("judge", [{"patience": 2}, {"keep_best": True}, {"stop_at": 0.5}, {}])
def test_evaluations_that_are_compared_keep_their_tasks_on_resume(tmp_path: Path, judge: dict[str, Any]) -> None:
    """Else the best return of easier tasks stands for good: ``keep_best`` exports a model of before."""

    def evaluating(**changes: Any) -> loop.LoopConfig:
        return looping(tmp_path / "run", tmp_path / "model", eval={"split": "train", "episodes": 4, **judge, **changes})

    folder, compared = RunFolder(tmp_path / "run", "loop"), judge.keys() & {"patience", "keep_best"}
    names = changeable(MAY_CHANGE, judged=bool(compared))
    folder.path.mkdir()
    folder.begin(evaluating())
    for harmless in ({"every": 3}, {"stop_at": 0.7}):
        folder.resume(evaluating(**harmless), may_change=names)
    for other in ({"split": "dev"}, {"episodes": 8}, {"temperature": 0.0}):
        if not compared:
            folder.resume(evaluating(**other), may_change=names)
            continue
        with pytest.raises(CheckpointError, match=rf"eval\.{next(iter(other))} was .*Set them back"):
            folder.resume(evaluating(**other), may_change=names)


@pytest.mark.slow
def test_a_run_with_keep_best_refuses_other_tasks(tmp_path: Path, cloned: Path) -> None:
    loop.train(unmoved(tmp_path / "run", cloned, steps=1, eval={"keep_best": True}))
    with pytest.raises(CheckpointError, match=r"eval\.episodes was 4, now 5"):
        loop.train(unmoved(tmp_path / "run", cloned, steps=2, eval={"keep_best": True, "episodes": 5}, resume=True))
