"""Acting in a house: the command grammar, refusals with reasons, visible and hidden facts, partial checks."""

from __future__ import annotations

import pytest

import turnwise as tw
from turnwise.envs.games.text_nav import TextNavEnv, TextNavFO, TextNavPO, read
from turnwise.tasks.games.lmrl_house import ORIGINAL
from turnwise.tasks.games.text_nav import TEXT_NAV

LIVING_ROOM, KITCHEN = 3, 4


def walk(env: TextNavEnv, *commands: str) -> tuple[tw.Observation, float, bool, bool, dict[str, object]]:
    for command in commands:
        answer = env.step(command)
    return answer


def test_the_published_walkthrough_scores_one() -> None:
    env = TextNavFO()
    observation, _ = env.reset(seed=LIVING_ROOM)
    assert observation.messages[0].text.startswith(
        "Put the stale food from the table in the living room into the fridge in the kitchen and close the fridge."
    )
    commands = ("take stale food from table", "go west", "go west", "open fridge", "insert stale food into fridge")
    _, reward, terminated, _, _ = walk(env, *commands)
    assert (reward, terminated) == (0.0, False), "an open fridge does not count"
    _, reward, terminated, _, info = env.step("close fridge")
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_eating_what_is_needed_loses() -> None:
    env = TextNavFO()
    env.reset(seed=LIVING_ROOM)
    _, reward, terminated, _, info = walk(env, "take stale food", "eat stale food")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    env.reset(seed=LIVING_ROOM)
    _, _, terminated, _, _ = walk(env, "take fresh food", "eat fresh food")
    assert not terminated, "the other food may be eaten"


def test_fully_observed_names_the_room_and_partially_observed_does_not() -> None:
    full, part = TextNavFO(), TextNavPO()
    for seed, room in enumerate(ORIGINAL.rooms):
        seen, hidden = full.reset(seed=seed)[0].messages[1].text, part.reset(seed=seed)[0].messages[1].text
        assert f"You are in the {room}." in seen
        assert room not in hidden
        assert seen.endswith(hidden), "nothing else differs"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("north", "go north"),
        ("Walk to the north.", "go north"),
        ("open the fridge", "open fridge"),
        ("shut fridge!", "close fridge"),
        ("pick up the bowl", "take bowl from table"),
        ("get bowl", "take bowl from table"),
        ("Put the stale food in the fridge", "insert stale food into fridge"),
        ("place bowl on the table", "put bowl on table"),
        ("insert coffee cup into chest", "insert coffee cup into chest"),
        ("", ""),
        ("sing a song", "sing song"),
    ],
)
def test_commands_may_be_said_in_several_ways(text: str, command: str) -> None:
    assert read(text, ("take bowl from table", "take plate from table")) == command


def test_every_command_that_is_told_can_be_said() -> None:
    env = TextNavEnv()
    for spec in TEXT_NAV.sample(20):
        env.reset(options={"task": spec})
        for command in env.look().rsplit("You can: ", 1)[1].removesuffix(".").split(", "):
            assert "refused" not in env.fork().step(command)[4], f"{command} was told, and refused"


def test_a_refusal_says_why_costs_a_turn_and_changes_nothing() -> None:
    env = TextNavFO()
    env.reset(seed=KITCHEN)
    before = env.state
    for command, why in (
        ("go south", "There is no way south."),
        ("take fruit", "You cannot do that here: 'take fruit'."),
        ("", "You say nothing."),
        ("go to the bedroom", "You cannot do that here: 'go bedroom'."),
    ):
        observation, reward, terminated, _, info = env.step(command)
        assert observation.text.startswith(why)
        assert observation.text.endswith("open fridge."), "what can be done is told again"
        assert (reward, terminated, info["refused"]) == (0.0, False, True)
    assert env.state == before
    assert env.turn == 4
    observation, *_, info = env.step("inventory")
    assert observation.text.startswith("You carry nothing.")
    assert "refused" not in info


def test_a_closed_door_is_named_as_the_reason() -> None:
    env = TextNavEnv()
    for spec in TEXT_NAV.sample(100, level=3):
        env.reset(options={"task": spec})
        closed = [
            d for d, there in env.house.exits[env.state.room] if env.house.door(env.state.room, there) is not None
        ]
        if closed:
            assert env.step(f"go {closed[0]}")[0].text.startswith(f"The {closed[0]} door is closed.")
            assert "refused" not in walk(env, f"open the {closed[0]} door", closed[0])[4]
            return
    pytest.fail("no house of level 3 begins at a door")


def test_what_was_half_done_is_named_when_the_turns_run_out() -> None:
    env = TextNavFO(max_turns=5)
    env.reset(seed=LIVING_ROOM)
    commands = ("take stale food", "west", "west", "open fridge", "put stale food in fridge")
    _, reward, terminated, truncated, info = walk(env, *commands)
    assert (reward, terminated, truncated) == (0.0, True, False)
    score = info["score"]
    assert isinstance(score, tw.Score)
    assert score.checks == {"stale food is at the fridge": True, "stale food is closed in": False}
    assert not score.success


def test_dropped_things_lie_on_the_floor() -> None:
    env = TextNavFO()
    env.reset(seed=LIVING_ROOM)
    assert "On the floor: stale food." in walk(env, "take stale food", "drop stale food")[0].text
    assert "You carry: stale food." in env.step("take stale food")[0].text
