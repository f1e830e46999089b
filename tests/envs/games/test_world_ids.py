"""Every id of Maze, Text-Nav and Wordle: solved by its oracle, cheated in vain, and cut short where one asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import turnwise as tw

from .test_every_id import WORLDS, ids_of, made

IDS = ids_of(WORLDS)


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
    names |= {"TextNav", "TextNavFO", "TextNavPO", "Wordle"}
    assert set(IDS) == {f"turnwise/{name}-v0" for name in names}


@pytest.mark.parametrize("id", IDS)
def test_the_oracle_solves_every_split_and_level(id: str) -> None:
    env = made(id)
    family = env.tasks()
    for split in family.splits:
        for level in family.levels:
            for seed in range(2):
                total, success = played(env, family.spec(seed, split=split, level=level), env.oracle)
                assert success, f"{id}: {split}, level {level}, seed {seed}"
                best = env.best_return()
                assert best is None or total == best, "the oracle's return is the best there is"


@pytest.mark.parametrize("id", IDS)
def test_near_misses_and_silence_do_not_succeed(id: str) -> None:
    env = made(id)
    family = env.tasks()
    for split in family.splits:
        for level in family.levels:
            spec = family.spec(1, split=split, level=level)
            env.reset(options={"task": spec})
            misses = env.near_misses()
            assert misses, f"{id} declares no near miss"
            for name, actions in misses.items():
                assert not callable(actions)
                assert not played(env, spec, partial(next, iter(actions), ""))[1], f"{id}: {name}"
            total, success = played(env, spec, lambda: "")
            assert not success
            assert total <= 0.0, "silence earns nothing"


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
    assert truncated
    assert not terminated
