"""An episode has the page's verdict, once; nothing changes that verdict, and nothing starts the episode again."""

from __future__ import annotations

import pytest

from turnwise.envs.messages import Action, ToolCall
from turnwise.errors import EnvironmentFailedError, UsageError

from .around import call, node, opened

pytestmark = pytest.mark.slow
CHEATS = (
    "goto('javascript:core.endEpisode(1,false)')",
    "goto('http://miniwob.test/miniwob/click-test.html')",
    "goto('data:text/html,<script>WOB_DONE_GLOBAL=true;WOB_RAW_REWARD_GLOBAL=1</script>')",
    "go_back()",
    "new_tab()",
    "keyboard_press('F5')",
    "keyboard_press('Control+r')",
    "keyboard_press('F12')",
    "keyboard_press('Alt+ArrowLeft')",
    "keyboard_press('Control+l')\nkeyboard_type('javascript:core.endEpisode(1,false)')\nkeyboard_press('Enter')",
)


def test_the_page_cannot_be_told_to_end_or_to_begin_again() -> None:
    with opened("click-test-2") as env:
        before = env.browser.utterance, env.page
        for cheat in CHEATS:
            _, reward, terminated, _, _ = env.step(cheat)
            assert (reward, terminated) == (0, False), f"{cheat!r} is worth nothing and ends nothing"
        env.step("noop(10)")
        assert env.page.nodes == before[1].nodes, "the page is the one that the episode began with"
        _, reward, terminated, _, info = env.step(call(env, ["click", "TWO"]))
        assert (reward, terminated, info["raw_reward"]) == (0, True, -1), "and its verdict still counts"


def test_calls_after_the_end_are_not_run() -> None:
    with opened("click-test-2", reward="raw") as env:
        wrong, right = call(env, ["click", "TWO"]), call(env, ["click", "ONE"])
        start = ToolCall("mouse_click", {"x": 80, "y": 100})  # where the page then says START
        observation, reward, terminated, _, info = env.step(Action(tool_calls=(wrong, start, start, right)))
        assert (reward, terminated, info["success"]) == (-1, True, False), "the first verdict is the verdict"
        assert len(observation.messages) == 1, "what came after it was not run"


def test_a_page_that_was_loaded_again_has_no_verdict() -> None:
    """Turnwise does not load it again; even then its globals would have no effect."""
    from turnwise.envs.web.chromium.loop import LOOP

    with opened("click-test") as env:
        LOOP.wait(env.browser.window.page.goto("about:blank"))
        with pytest.raises(EnvironmentFailedError, match="no longer responds"):
            env.step("noop(10)")


def test_success_is_paid_once_and_raw_rewards_on_demand() -> None:
    for paid in ("success", "raw"):
        with opened("click-test-2", reward=paid) as env:
            _, reward, terminated, _, info = env.step(call(env, ["click", "ONE"]))
            assert (reward, terminated, info["success"], info["raw_reward"]) == (1, True, True, 1)
    with pytest.raises(UsageError, match="'success' or 'raw'"), opened("click-test", None, reward="timed"):
        pass


def test_widgets_that_overlap_can_be_clicked() -> None:
    """For seed 7 of click-test-2 button TWO lies over most of ONE: a click in its middle would hit TWO."""
    with opened("click-test-2", 7) as env:
        _, reward, _, _, info = env.step(call(env, ["click", "ONE"]))
        assert reward == 1, info


def test_shapes_colours_and_places_can_be_told_apart() -> None:
    with opened("click-color", 7) as env:
        [cyan] = [one for one in node(env, "div") if "background=cyan" in one.states]
        assert env.step(ToolCall("click", {"id": cyan.id}))[1] == 1, "a colour is enough to go by"
    with opened("click-shape", 7) as env:
        circle = node(env, "circle")[0]
        assert env.step(ToolCall("click", {"id": circle.id}))[1] == 1, "so is a shape"
    with opened("grid-coordinate", 7) as env:
        [dot] = [one for one in node(env, "circle") if "at=79,69" in one.states]
        assert env.browser.utterance.endswith("(0,2).")
        assert env.step(ToolCall("click", {"id": dot.id}))[1] == 1, "and a place"


def test_the_same_seed_shows_the_same_and_forks_play_on() -> None:
    with opened("use-slider", 4) as one, opened("use-slider", 4) as other:
        assert one.page == other.page
        handle = next(n for n in node(one, "span") if any("ui-slider-handle" in state for state in n.states))
        one.step(ToolCall("press", {"id": handle.id, "key_comb": "ArrowRight"}))
        assert one.page != other.page, "the keyboard moves a slider"
        clone = one.fork()
        assert clone.page == one.page
        clone.close()


def test_a_picture_comes_with_every_observation_if_asked_for() -> None:
    with opened("click-test", None, screenshot=True) as env:
        observation, _ = env.reset(seed=0)
        picture = observation.messages[0].parts[-1]
        assert getattr(picture, "data", b"")[:4] == b"\x89PNG" or "image" in type(picture).__name__.lower()
