"""Every id of Maze, Text-Nav and Wordle: as Gymnasium sees it, solved by its oracle, forked, and cheated in vain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import turnwise as tw

GAMES = ("maze", "text_nav", "wordle")
IDS = [entry.id for entry in tw.entries() if str(entry.entry_point).split(":")[0].rsplit(".", 1)[-1] in GAMES]


def made(id: str) -> tw.TurnEnv:
    env = tw.make(id).unwrapped
    assert isinstance(env, tw.TurnEnv)
    return env


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
def test_gymnasium_accepts_it(id: str) -> None:
    env = gymnasium.make(id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


@pytest.mark.parametrize("id", IDS)
def test_it_runs_in_a_vector(id: str) -> None:
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id)] * 2)
    observations, _ = envs.reset(seed=3)
    assert len(observations) == 2
    _, rewards, _, _, _ = envs.step(["hello", "move up"])
    assert rewards.shape == (2,)
    envs.close()


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
def test_a_fork_is_the_same_and_independent(id: str) -> None:
    env = made(id)
    env.reset(seed=0)
    env.step(env.oracle())
    twin, before = env.fork(), env.state_key()
    twin.step(twin.random_action(tw.Rng("fork")))
    assert env.state_key() == before, "what the fork does leaves the original alone"
    twin = env.fork()
    for turn in range(4):
        action = env.random_action(tw.Rng("fork", turn))
        one, other = env.step(action), twin.step(action)
        assert one == other
        if one[2] or one[3]:
            break


@pytest.mark.parametrize("id", IDS)
def test_one_seed_is_one_episode_whatever_ran_before(id: str) -> None:
    fresh, used = made(id), made(id)
    used.reset(seed=5)
    used.step(used.oracle())
    assert fresh.reset(seed=11) == used.reset(seed=11)
    for turn in range(4):
        action = fresh.random_action(tw.Rng("same", turn))
        answer = fresh.step(action)
        assert answer == used.step(action)
        if answer[2] or answer[3]:
            break


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
