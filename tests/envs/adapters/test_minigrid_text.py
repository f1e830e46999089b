"""Minigrid by id: what the agent reads, Minigrid's own rewards and limits, the bot of BabyAI, and certificates."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from typing import Any

import gymnasium
import pytest

import turnwise as tw
from turnwise.envs.certify.certify import certify
from turnwise.errors import ContractError, UnknownEnvironmentError, UsageError
from turnwise.verdicts import Status

missing = importlib.util.find_spec("minigrid") is None
MINIGRID = pytest.mark.skipif(missing, reason="NOT TESTED with minigrid: pip install minigrid")

THREADS = """
import threading
import turnwise as tw

together, faults = threading.Barrier(8), []

def create():
    together.wait()
    try:
        tw.make("minigrid/BabyAI-GoToRedBall-v0").reset(seed=1)
    except BaseException as error:
        faults.append(repr(error))

threads = [threading.Thread(target=create) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert not faults, faults
"""


def played(env: Any, seed: int) -> tuple[list[tuple[str, str, float]], dict[str, Any]]:
    """Return the turns of the bot, and the last info."""
    seen, info = env.reset(seed=seed)[0].text, {}
    turns, over = [], False
    while not over:
        action = env.oracle()
        observation, reward, terminated, truncated, info = env.step(action)
        turns.append((seen, action, reward))
        seen, over = observation.text, terminated or truncated
        assert not truncated
    return turns, info


@MINIGRID
@pytest.mark.parametrize(
    "level",
    ["GoToRedBall", "PickupLoc", "PutNextLocal", "OpenDoorsOrderN2", "UnlockToUnlock", "SynthS5R2", "MiniBossLevel"],
)
def test_the_bot_solves_levels_and_earns_minigrids_reward(level: str) -> None:
    env = tw.make(f"minigrid/BabyAI-{level}-v0")
    for seed in range(3):
        turns, info = played(env, seed)
        assert info["success"], (level, seed)
        assert turns[-1][2] == pytest.approx(1 - 0.9 * len(turns) / env.max_turns)
        assert not any(reward for *_, reward in turns[:-1])


@MINIGRID
def test_the_agent_reads_the_mission_the_limit_and_its_view() -> None:
    env = tw.make("minigrid/MiniGrid-Empty-5x5-v0")
    first = env.reset(seed=0)[0].text
    assert "\nMission: get to the green goal square.\nYou have at most 100 actions, and" in first
    world: Any = env.unwrapped._world  # type: ignore[attr-defined]
    thing = importlib.import_module("minigrid.core.world_object")
    world.grid.set(2, 1, thing.Door("yellow", is_locked=True))
    world.carrying = thing.Key("yellow")
    corner = "You see a wall 1 step left.\nYou see a wall 3 steps right.\n"
    behind = "You see a green goal 2 steps right and 2 steps forward.\nYou carry a yellow key."
    ahead = "You see a wall 3 steps forward.\n"
    assert env.step("pick up")[0].text == f"{ahead}{corner}You see a locked yellow door 1 step forward.\n{behind}"
    told = env.step("toggle")[0].text
    assert told == f"{ahead}{corner}You see an open yellow door 1 step forward.\n{behind}"
    env.step("turn left")
    assert env.step("turn left")[0].text.startswith("You see a wall 1 step forward.\nYou see a wall 3 steps left.\n")


@MINIGRID
def test_what_is_carried_is_said_and_a_bad_word_changes_nothing() -> None:
    env = tw.make("minigrid/BabyAI-PickupLoc-v0")
    turns, _ = played(env, 1)
    env.reset(seed=1)
    for _, action, _ in turns[:-1]:
        env.step(action)
    fork, before = env.fork(), env.unwrapped._shown()  # type: ignore[attr-defined]
    observation, *_, info = env.step("jump")
    assert info["unparsed"]
    assert "Answer with one of: turn left, turn right" in observation.text
    assert env.unwrapped._shown() == before  # type: ignore[attr-defined]
    assert fork.step(turns[-1][1])[4]["success"]
    assert env.step(" Pick Up ")[4]["success"], "the word that was not understood cost a turn, and nothing else"


@MINIGRID
def test_doing_nothing_earns_nothing_and_ends_at_minigrids_limit() -> None:
    env = tw.make("minigrid/BabyAI-GoToRedBall-v0", max_steps=5)
    assert "You have at most 5 actions" in env.reset(seed=0)[0].text
    steps = [env.step("done") for _ in range(5)]
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 4 + [(0.0, True, False)]
    assert not steps[-1][4]["success"]
    assert steps[-1][4]["out_of_turns"]
    lower = tw.make("minigrid/BabyAI-GoToRedBall-v0", max_turns=2)
    lower.reset(seed=0)
    lower.step("done")
    assert lower.step("done")[2:4] == (True, False)


@MINIGRID
def test_a_seed_is_minigrids_own() -> None:
    ours, theirs = tw.make("minigrid/BabyAI-PutNextLocal-v0"), gymnasium.make("BabyAI-PutNextLocal-v0")
    for seed in (3, 4):
        text = ours.reset(seed=seed)[0].text
        mission = theirs.reset(seed=seed)[0]["mission"]
        assert f"Mission: {mission}.\n" in text
        assert played(ours, seed) == played(tw.make("minigrid/BabyAI-PutNextLocal-v0"), seed)


@MINIGRID
def test_the_bot_goes_on_from_wherever_the_agent_went() -> None:
    env, rng = tw.make("minigrid/BabyAI-UnlockLocal-v0"), tw.Rng("wander")
    solved = 0
    for seed in range(4):
        env.reset(seed=seed)
        if any(env.step(env.random_action(rng))[2] for _ in range(10)):
            continue
        over = False
        while not over:
            _, _, over, _, info = env.step(env.oracle())
        solved += info["success"]
    assert solved >= 3


@MINIGRID
@pytest.mark.parametrize(
    "name",
    ["MiniGrid-DoorKey-5x5-v0", "BabyAI-KeyInBox-v0"]
    + [f"BabyAI-OpenDoorsOrder{each}Debug-v0" for each in ("N2", "N4")],
)
def test_what_the_bot_does_not_solve_has_no_oracle(name: str) -> None:
    env: Any = tw.make(f"minigrid/{name}")
    env.reset(seed=0)
    with pytest.raises(ContractError, match="no oracle"):
        env.oracle()
    assert "oracle_solves" in env.unwrapped.contract.exempt


@MINIGRID
def test_rejected_arrangements_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    env = tw.make("minigrid/BabyAI-PutNextLocal-v0")
    for seed in range(20):
        env.reset(seed=seed)
    assert capsys.readouterr() == ("", "")


@MINIGRID
def test_unknown_ids_and_arguments_are_refused() -> None:
    with pytest.raises(UnknownEnvironmentError, match="Did you mean minigrid/BabyAI-GoToRedBall-v0"):
        tw.make("minigrid/BabyAI-GoToRedBal-v0")
    with pytest.raises(UnknownEnvironmentError, match="minigrid has no environment 'CartPole-v1'"):
        tw.make("minigrid/CartPole-v1")
    with pytest.raises(UsageError, match="no_such"):
        tw.make("minigrid/MiniGrid-Empty-5x5-v0", no_such=1)
    with pytest.raises(UnknownEnvironmentError, match="there is no environment"):
        tw.make("minigrid/minigrid:MiniGrid-Empty-5x5-v0")


@MINIGRID
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_steps": 0}, "max_steps of at least 1, as a whole number; got 0"),
        ({"max_steps": "5"}, "max_steps of at least 1, as a whole number; got '5'"),
        ({"agent_view_size": 4}, "an odd agent_view_size of at least 3; got 4"),
        ({"max_turns": 0}, "max_turns must be an integer of at least 1; got 0"),
    ],
)
def test_values_without_a_meaning_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        tw.make("minigrid/BabyAI-GoToRedBall-v0", **given)


@MINIGRID
def test_an_assertion_of_minigrid_is_a_refusal() -> None:
    with pytest.raises(UsageError, match="cannot be created: AssertionError"):
        tw.make("minigrid/MiniGrid-LavaGapS5-v0", size=2)


@MINIGRID
def test_an_environment_with_three_actions_names_no_others() -> None:
    env = tw.make("minigrid/MiniGrid-Dynamic-Obstacles-5x5-v0")
    first = env.reset(seed=0)[0].text
    assert "Answer with one of: turn left, turn right, go forward." in first
    assert "pick up" not in first
    assert not env.step("go forward")[4].get("unparsed")


@MINIGRID
def test_rooms_that_need_more_packages_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "imageio" else find(name))
    with pytest.raises(UsageError, match=r"needs imageio and networkx: pip install 'minigrid\[wfc\]'"):
        tw.make("minigrid/MiniGrid-WFC-MazeSimple-v0")


@MINIGRID
@pytest.mark.slow
def test_several_threads_may_be_the_first() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(UsageError, match=r"needs 'minigrid': pip install 'turnwise\[minigrid\]'") as refused:
        tw.make("minigrid/BabyAI-GoToRedBall-v0")
    assert "\n" not in str(refused.value)


@MINIGRID
@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("name", ["BabyAI-GoToLocal-v0", "MiniGrid-DoorKey-5x5-v0"])
def test_environments_are_certified(name: str) -> None:
    certificate = certify(f"minigrid/{name}", quick=True)
    assert certificate.passed, str(certificate)
    exempt = {v.law for v in certificate.verdicts if v.status is Status.SKIP and "exempt" in v.reason}
    assert exempt == {"random_at_floor"} | ({"oracle_solves"} if "DoorKey" in name else set())
