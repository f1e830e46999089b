"""Gymnasium's vector environments over ``TurnEnv``: the three autoreset modes, in this process and in others."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

import turnwise as tw

ID = "turnwise/MazeU-v0"
MOVES = [("up", "down"), ("left", "right"), ("down", "down"), ("up", "left"), ("right", "up")]
TURNS = 2


def vector(how: str, mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
    memory: dict[str, Any] = {"shared_memory": False} if how == "async" else {}  # messages have no fixed size
    chosen = {"autoreset_mode": mode, **memory}
    return gymnasium.make_vec(ID, num_envs=2, vectorization_mode=how, vector_kwargs=chosen, max_turns=TURNS)


def played(envs: VectorEnv[Any, Any, Any], moves: list[tuple[str, str]]) -> list[Any]:
    """Step all environments; return texts, rewards, ends and names of infos of each step."""
    found: list[Any] = []
    for pair in moves:
        observations, rewards, terminated, truncated, infos = envs.step(pair)
        found.append((tuple(one.text for one in observations), [*rewards], [*terminated], [*truncated], {*infos}))
    return found


def alone(seed: int, moves: list[str]) -> list[tuple[str, float, bool]]:
    """One environment without a vector, which nothing resets."""
    env = tw.make(ID, max_turns=TURNS)
    env.reset(seed=seed)
    stepped = [env.step(move) for move in moves]
    return [(observation.text, reward, terminated) for observation, reward, terminated, _, _ in stepped]


@pytest.fixture(params=["sync", pytest.param("async", marks=pytest.mark.slow)])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_first_episodes_are_those_of_single_environments(how: str, mode: AutoresetMode) -> None:
    envs = vector(how, mode)
    try:
        envs.reset(seed=5)
        found = played(envs, MOVES[:TURNS])
    finally:
        envs.close()
    for place, seed in enumerate((5, 6)):
        single = alone(seed, [pair[place] for pair in MOVES[:TURNS]])
        for (texts, rewards, terminated, truncated, infos), (text, reward, ended) in zip(found, single, strict=True):
            assert (rewards[place], terminated[place], truncated[place]) == (reward, ended, False)
            if not (ended and mode is AutoresetMode.SAME_STEP):
                assert texts[place] == text
                assert "final_obs" not in infos


def test_next_step_resets_in_the_step_after_the_last(how: str) -> None:
    envs = vector(how, AutoresetMode.NEXT_STEP)
    try:
        envs.reset(seed=5)
        found = played(envs, MOVES)
    finally:
        envs.close()
    assert [ended for *_, ended, _, _ in found] == [[False] * 2, [True] * 2, [False] * 2, [False] * 2, [True] * 2]
    assert found[2][1] == [0, 0], "the step that resets earns nothing, and its action is ignored"
    assert "task" in found[2][4], "its infos are those of a reset"


def test_same_step_returns_the_first_observation_and_keeps_the_last(how: str) -> None:
    envs = vector(how, AutoresetMode.SAME_STEP)
    try:
        envs.reset(seed=5)
        played(envs, MOVES[:1])
        observations, rewards, terminated, _, infos = envs.step(MOVES[1])
    finally:
        envs.close()
    for place, seed in enumerate((5, 6)):
        text, reward, ended = alone(seed, [pair[place] for pair in MOVES[:TURNS]])[-1]
        assert (infos["final_obs"][place].text, rewards[place], terminated[place]) == (text, reward, ended)
        assert isinstance(observations[place], tw.Observation)
        assert bool(infos["final_info"]["out_of_turns"][place]), "the score of an episode is in its final info"


def test_disabled_resets_those_that_a_mask_names(how: str) -> None:
    envs = vector(how, AutoresetMode.DISABLED)
    try:
        first, _ = envs.reset(seed=5)
        ended = played(envs, MOVES[:TURNS])[-1][2]
        assert ended == [True, True]
        again, infos = envs.reset(seed=5, options={"reset_mask": np.array([True, True])})
        assert [one.text for one in again] == [one.text for one in first], "the same seed is the same task"
        assert "task" in infos
        assert played(envs, MOVES[2:3])[0][2] == [False, False]
    finally:
        envs.close()
