"""Every id of Maze, Text-Nav and Wordle: solved by its oracle, cheated in vain, and cut short where one asks for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import turnwise as tw

from ...shifts import sampled
from .test_every_id import WORLDS, ids_of, made

IDS = ids_of(WORLDS)
CELLS = pytest.mark.parametrize("cells", [3, pytest.param(None, id="all", marks=[pytest.mark.slow, pytest.mark.shift])])
"""How many pairs of a split and a level a test tries, drawn by the seed of the run; None tries all."""


def specs(id: str, family: tw.TaskFamily[Any], cells: int | None, seeds: Sequence[int]) -> Iterator[tw.TaskSpec]:
    """The tasks of some splits and levels."""
    pairs = list(itertools.product(family.splits, family.levels))
    for split, level in sampled(pairs, len(pairs) if cells is None else cells, key=id):
        yield from (family.spec(seed, split=split, level=level) for seed in seeds)


def played(env: tw.TurnEnv, spec: tw.TaskSpec, choose: Callable[[], object]) -> tuple[float, bool]:
    """Return and success of one episode."""
    env.reset(options={"task": spec})
    total = 0.0
    while True:
        _, reward, terminated, truncated, info = env.step(choose())  # type: ignore[arg-type]
        total += reward
        if terminated or truncated:
            return total, bool(info["success"])


def test_all_ids_are_there() -> None:
    names = {"Maze", "MazeBlind", "MazeFO", "MazePO", "MazeU", "MazeMedium", "MazeLarge"}
    names |= {"TextNav", "TextNavFO", "TextNavPO"}
    assert set(IDS) == {*(f"turnwise/{name}-v0" for name in names), "turnwise/Wordle-v1"}


@CELLS
@pytest.mark.parametrize("id", IDS)
def test_the_oracle_solves_every_split_and_level(id: str, cells: int | None) -> None:
    env = made(id)
    for spec in specs(id, env.tasks(), cells, seeds=(0, 1)):
        total, success = played(env, spec, env.oracle)
        assert success, spec
        best = env.best_return()
        assert best is None or total == best, f"the oracle's return is the best there is: {spec}"


@CELLS
@pytest.mark.parametrize("id", IDS)
def test_near_misses_and_silence_do_not_succeed(id: str, cells: int | None) -> None:
    env = made(id)
    for spec in specs(id, env.tasks(), cells, seeds=(1,)):
        env.reset(options={"task": spec})
        misses = env.near_misses()
        assert misses, f"{id} declares no near miss"
        for name, actions in misses.items():
            assert not callable(actions)
            assert not played(env, spec, partial(next, iter(actions), ""))[1], f"{name}: {spec}"
        total, success = played(env, spec, lambda: "")
        assert not success, spec
        assert total <= 0.0, f"silence earns nothing: {spec}"


@pytest.mark.parametrize("id", IDS)
def test_a_limit_given_to_the_constructor_overrules_the_task(id: str) -> None:
    env = tw.make(id, max_turns=2).unwrapped
    assert isinstance(env, tw.TurnEnv)
    env.reset(seed=0)
    assert env.max_turns == 2
    _, _, terminated, truncated, _ = env.step("nonsense")
    assert not terminated
    assert not truncated
    _, _, terminated, truncated, _ = env.step("nonsense")
    assert terminated
    assert not truncated
