"""Gymnasium's environments by id: text that an agent can act on, Gymnasium's own results, and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import turnwise as tw
from turnwise.cli import main
from turnwise.envs.adapters.gymnasium_text import GymnasiumText
from turnwise.envs.certify.certify import certify
from turnwise.envs.registry import entries, find
from turnwise.errors import UnknownEnvironmentError, UsageError
from turnwise.verdicts import Status


def lake() -> Any:
    return tw.make("gymnasium/FrozenLake-v1", is_slippery=False)


def walk() -> Any:
    return tw.make("gymnasium/CliffWalking-v1")


def taxi() -> Any:
    return tw.make("gymnasium/Taxi-v4")


def blackjack() -> Any:
    return tw.make("gymnasium/Blackjack-v1")


def pole() -> Any:
    return tw.make("gymnasium/CartPole-v1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lake, blackjack, *(pytest.param(each, marks=pytest.mark.shift) for each in (walk, taxi, pole))]
)
def test_adapted_environments_are_certified(make: Any) -> None:
    certificate = certify(make, quick=True)
    assert certificate.passed, str(certificate)
    exempt = {v.law: v.reason for v in certificate.verdicts if v.status is Status.SKIP and "exempt" in v.reason}
    assert set(exempt) == ({"oracle_solves"} if make in (blackjack, pole) else set())
    assert all("Gymnasium has no oracle" in reason for reason in exempt.values())


def test_the_agent_reads_where_it_is_and_how_to_answer() -> None:
    env = lake()
    first = env.reset(seed=0)[0].text
    assert "[S]FFF\nFHFH\nFFFH\nHFFG" in first
    assert "Answer with one of: left, down, right, up." in first
    observation, *_, info = env.step("jump")
    assert info["unparsed"]
    assert "Answer with one of: left, down, right, up" in observation.text
    assert "S[F]FF" in env.step(" Right ")[0].text, "a color of the rendering becomes brackets"


def test_steps_are_gymnasiums_own() -> None:
    ours, theirs = taxi(), gymnasium.make("Taxi-v4", max_episode_steps=-1)
    ours.reset(seed=7)
    theirs.reset(seed=7)
    assert ours.unwrapped._game.unwrapped.s == theirs.unwrapped.s, "a task of train has Gymnasium's own seed"  # type: ignore[attr-defined]
    over, total = False, 0.0
    while not over:
        action = ours.oracle()
        _, reward, over, _, info = ours.step(action)
        _, other, ended, _, _ = theirs.step(["south", "north", "east", "west", "pick up", "drop off"].index(action))
        assert (reward, over) == (other, ended)
        total += reward
    assert info["success"]
    assert total > 0


def test_a_limit_truncates_and_is_gymnasiums() -> None:
    env = tw.make("gymnasium/FrozenLake-v1")
    assert env.max_turns == gymnasium.spec("FrozenLake-v1").max_episode_steps
    short = tw.make("gymnasium/CartPole-v1", max_turns=1)
    short.reset(seed=0)
    _, _, terminated, truncated, info = short.step("0")
    assert (terminated, truncated, info["success"]) == (False, True, False)
    lucky = tw.make("gymnasium/CartPole-v1", max_turns=1, success_at=1)
    lucky.reset(seed=0)
    assert lucky.step("0")[4]["success"]


class Spell(gymnasium.Env[Any, Any]):
    """Answer with two numbers."""

    action_space = gymnasium.spaces.MultiDiscrete([3, 3])
    observation_space = gymnasium.spaces.Dict({"word": gymnasium.spaces.Text(5), "n": gymnasium.spaces.Discrete(5)})

    def reset(self, **more: Any) -> Any:
        super().reset(**more)
        return {"word": "cat", "n": 3}, {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return {"word": "dog", "n": 3}, 0.5, True, False, {}


def test_lists_of_numbers_and_dicts() -> None:
    gymnasium.register("TurnwiseSpell-v0", lambda **_: Spell())
    try:
        env = tw.make("gymnasium/TurnwiseSpell-v0")
        assert '{"word": "cat", "n": 3}' in env.reset(seed=0)[0].text
        for odd in ("[1]", "[1, 9]", "[1, true]", "1", "[99999999999999999999, 1]", "[1.5, 1]", "x"):
            assert env.step(odd)[4]["unparsed"], odd
        assert env.step("[1, 2]")[1:3] == (0.5, True)
        assert str(env.random_action(tw.Rng("x"))).startswith("[")
    finally:
        del gymnasium.registry["TurnwiseSpell-v0"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FrozenLook-v1", "FrozenLake"),
        ("FrozenLake-v99", "FrozenLake"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(name: str, words: str) -> None:
    with pytest.raises(UnknownEnvironmentError, match=words):
        tw.make(f"gymnasium/{name}")


def test_what_has_no_form_as_text_is_refused() -> None:
    with pytest.raises(UsageError, match="discrete and text actions"):
        tw.make("gymnasium/Pendulum-v1")
    with pytest.raises(UsageError, match="2 words were given"):
        GymnasiumText("FrozenLake-v1", actions=("on", "back"))
    with pytest.raises(UsageError, match="cannot be created"):
        tw.make("gymnasium/FrozenLake-v1", no_such_argument=1)


def test_an_id_of_an_adapter_is_found_and_in_no_list() -> None:
    assert find("gymnasium/FrozenLake-v1").source == "gymnasium"
    assert not [entry for entry in entries() if entry.id.startswith("gymnasium/")]
    with pytest.raises(UnknownEnvironmentError):
        find("gymnasium/FrozenLake")


def test_the_command_evaluates_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "eval",
                "gymnasium/Taxi-v4",
                "--policy",
                "oracle",
                "-n",
                "3",
                "--out",
                str(tmp_path / "run"),
                "--no-report",
            ]
        )
    assert not ended.value.code
    assert "success 100.0 %" in capsys.readouterr().out
