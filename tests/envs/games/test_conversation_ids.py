"""Every id of the conversation and chess games as Gymnasium sees it."""

from __future__ import annotations

import shutil
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import turnwise as tw

FAMILIES = ("twenty_questions", "guess_my_city", "car_dealer", "chess_game", "chess_endgames", "chess_stockfish")
IDS = [entry.id for entry in tw.entries() if str(entry.entry_point).split(":")[0].rsplit(".", 1)[-1] in FAMILIES]


def available(id: str) -> bool:
    return "Stockfish" not in id or shutil.which("stockfish", path="/usr/games:/usr/bin:/usr/local/bin") is not None


@pytest.fixture(params=IDS)
def id(request: pytest.FixtureRequest) -> str:
    if not available(request.param):
        pytest.skip("Stockfish is not installed: apt-get install stockfish")
    if "Chess" in request.param:
        pytest.importorskip("chess")
    return str(request.param)


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


def test_a_fork_goes_on_like_the_original(id: str) -> None:
    env = tw.make(id).unwrapped
    assert isinstance(env, tw.TurnEnv)
    env.reset(seed=4)
    env.step(env.random_action(tw.Rng("before")))
    twin = env.fork()
    for turn in range(2):
        action = env.random_action(tw.Rng("fork", turn))
        one, other = env.step(action), twin.step(action)
        assert one == other
        if one[2] or one[3]:
            break
    env.close()
    twin.close()


def test_one_seed_is_one_episode(id: str) -> None:
    one, other = (tw.make(id).unwrapped for _ in range(2))
    assert isinstance(one, tw.TurnEnv)
    assert isinstance(other, tw.TurnEnv)
    assert one.reset(seed=11) == other.reset(seed=11)
    for turn in range(4):
        action = one.random_action(tw.Rng("same", turn))
        answer = one.step(action)
        assert answer == other.step(action)
        if answer[2] or answer[3]:
            break
    one.close()
    other.close()
