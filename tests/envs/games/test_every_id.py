"""Every id of the games as Gymnasium sees it: accepted, in a vector, forked, and the same from the same seed."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import turnwise as tw

WORLDS = ("maze", "text_nav", "wordle")
CONVERSATIONS = ("twenty_questions", "guess_my_city", "car_dealer", "chess_game", "chess_endgames", "chess_stockfish")


def ids_of(modules: Sequence[str]) -> list[str]:
    """The ids whose environments stand in one of these modules."""
    return [entry.id for entry in tw.entries() if str(entry.entry_point).split(":")[0].rsplit(".", 1)[-1] in modules]


def available(id: str) -> bool:
    return "Stockfish" not in id or shutil.which("stockfish", path="/usr/games:/usr/bin:/usr/local/bin") is not None


@pytest.fixture(params=ids_of((*WORLDS, *CONVERSATIONS)))
def id(request: pytest.FixtureRequest) -> str:
    if not available(request.param):
        pytest.skip("Stockfish is not installed: apt-get install stockfish")
    if "Chess" in request.param:
        pytest.importorskip("chess")
    return str(request.param)


def made(id: str) -> tw.TurnEnv:
    env = tw.make(id).unwrapped
    assert isinstance(env, tw.TurnEnv)
    return env


def test_gymnasium_accepts_it(id: str) -> None:
    env = gymnasium.make(id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_it_runs_in_a_vector(id: str) -> None:
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id)] * 2)
    observations, _ = envs.reset(seed=3)
    assert len(observations) == 2
    _, rewards, _, _, _ = envs.step(["hello", ""])
    assert rewards.shape == (2,)
    envs.close()


def test_a_fork_is_the_same_and_independent(id: str) -> None:
    env = made(id)
    env.reset(seed=4)
    env.step(env.random_action(tw.Rng("before")))
    astray, before = env.fork(), env.state_key()
    astray.step(astray.random_action(tw.Rng("fork")))
    assert env.state_key() == before, "what the fork does leaves the original alone"
    twin = env.fork()
    play_alike(env, twin, "fork")
    for each in (env, astray, twin):
        each.close()


def test_one_seed_is_one_episode_whatever_ran_before(id: str) -> None:
    fresh, used = made(id), made(id)
    used.reset(seed=5)
    used.step(used.random_action(tw.Rng("before")))
    assert fresh.reset(seed=11) == used.reset(seed=11)
    play_alike(fresh, used, "same")
    fresh.close()
    used.close()


def play_alike(one: tw.TurnEnv, other: tw.TurnEnv, name: str) -> None:
    """Up to four turns of the same actions in both, which must answer the same."""
    for turn in range(4):
        action = one.random_action(tw.Rng(name, turn))
        answer = one.step(action)
        assert answer == other.step(action)
        if answer[2] or answer[3]:
            break
