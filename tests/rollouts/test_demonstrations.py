"""Demonstrations: datasets whose skill is what the preset says, reproducible and resumable."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

import turnwise as tw
from turnwise.errors import StoreError, UsageError
from turnwise.rollouts.demonstrations import PRESETS, PUBLISHED, Mixture, make_demonstrations, mixture_of

from ..shifts import core_sample

MAZE = "turnwise/MazeFO-v0"


def returns(episodes: list[tw.Episode]) -> float:
    return mean(episode.total_reward for episode in episodes)


@pytest.mark.slow
def test_more_skill_earns_more(tmp_path: Path) -> None:
    earned = {name: returns(make_demonstrations(MAZE, 60, tmp_path / name, mixture=name)) for name in PRESETS}
    order = sorted(earned, key=lambda name: earned[name])
    assert order == ["random", "weak", "mixed", "good", "expert"]


@pytest.mark.parametrize("env_id", core_sample([*PUBLISHED], 2, key="presets"))
@pytest.mark.slow
def test_published_presets_earn_what_they_say(tmp_path: Path, env_id: str) -> None:
    _, published, measured = PUBLISHED[env_id]
    episodes = make_demonstrations(env_id, 200, tmp_path / "s", mixture="lmrl")
    spread = max(abs(published), 1.0) * 0.1
    assert returns(episodes) == pytest.approx(measured, abs=spread)
    assert returns(episodes) == pytest.approx(published, abs=spread)


@pytest.mark.slow
def test_a_dataset_is_a_function_of_its_settings(tmp_path: Path) -> None:
    def said(path: str, **settings: int) -> list[list[str]]:
        episodes = make_demonstrations(MAZE, 10, tmp_path / path, **settings)  # type: ignore[arg-type]
        return [[turn.action.text for turn in episode.turns] for episode in episodes]

    assert said("a") == said("b")
    assert said("a") != said("c", seed=1)


def test_a_dataset_can_grow_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    few = make_demonstrations(MAZE, 5, tmp_path / "s")
    many = make_demonstrations(MAZE, 12, tmp_path / "s")
    assert len(many) == 12
    assert {e.episode_id for e in few} <= {e.episode_id for e in many}
    with pytest.raises(StoreError, match="mixture"):
        make_demonstrations(MAZE, 12, tmp_path / "s", mixture="expert")


def test_habits_make_another_dataset_and_their_absence_keeps_the_description(tmp_path: Path) -> None:
    habitual = Mixture((1.0,), habits=0.5)
    assert habitual.described["habits"] == 0.5
    assert set(Mixture((1.0,)).described) == {"skills", "weights"}, "stores of earlier versions can grow"
    make_demonstrations(MAZE, 2, tmp_path / "s", mixture=Mixture((1.0,)))
    with pytest.raises(StoreError, match="mixture"):
        make_demonstrations(MAZE, 3, tmp_path / "s", mixture=habitual)


def test_levels_take_turns_and_splits_are_kept(tmp_path: Path) -> None:
    episodes = make_demonstrations(
        "turnwise/Maze-v0", 8, tmp_path / "s", levels=(1, 3), split="dev", mixture=Mixture((1.0,))
    )
    assert sorted(episode.task.level for episode in episodes) == [1] * 4 + [3] * 4
    assert {episode.task.split for episode in episodes} == {tw.Split.DEV}
    assert all(episode.success for episode in episodes)


def test_tasks_are_those_of_the_environment_as_it_is_made(tmp_path: Path) -> None:
    options = tw.RunOptions(env_kwargs={"templates": ["fact-year"]})
    episodes = make_demonstrations("turnwise/Search-v1", 4, tmp_path / "s", levels=(1,), options=options)
    assert {episode.task.template for episode in episodes} == {"fact-year"}


def test_wrong_wishes_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="n must be at least 1; got 0"):
        make_demonstrations(MAZE, 0, tmp_path / "s")
    with pytest.raises(UsageError, match="no preset 'brilliant'; choose one of random, weak, mixed"):
        mixture_of("brilliant", MAZE)
    with pytest.raises(UsageError, match="preset 'lmrl' exists only for turnwise/MazeFO-v0"):
        mixture_of("lmrl", "turnwise/Maze-v0")
    assert not (tmp_path / "s").exists(), "nothing is made before the wish is understood"
