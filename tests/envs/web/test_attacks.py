"""An episode is scored whatever an agent does to a site or a browser; without a window and in Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

import turnwise as tw
from turnwise.envs.base import TurnEnv
from turnwise.envs.messages import ToolCall
from turnwise.envs.web.chromium.browser import KEYS, typing
from turnwise.envs.web.env import WebEnv
from turnwise.tasks.web.simulators.http import Request, Values
from turnwise.tasks.web.simulators.site import SESSION

from ...shifts import sampled
from ..hostile import all_attempts, unscored


@pytest.fixture
def started() -> Iterator[Callable[[str, int], WebEnv]]:
    """Begin episodes, and close them at the end."""
    made: list[TurnEnv] = []

    def begin(id: str, level: int) -> WebEnv:
        env = cast(WebEnv, tw.make(id, max_turns=60).unwrapped)
        made.append(env)
        env.reset(seed=1, options={"level": level})
        return env

    yield begin
    for env in made:
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("level", [2, pytest.param(5, marks=pytest.mark.shift)])
def test_every_attempt_is_scored(started: Callable[[str, int], WebEnv], level: int) -> None:
    env = started("turnwise/WebHTML-v1", level)
    assert len(env.attacks()) >= 35
    assert unscored(env, all_attempts(env) if level == 2 else env.attacks()) == {}


@pytest.mark.slow
def test_some_attempts_are_scored_in_chromium(started: Callable[[str, int], WebEnv]) -> None:
    env = started("turnwise/Web-v1", 2)
    tries = env.attacks()
    names = sampled(sorted(tries), 4, key="chromium attacks")
    assert unscored(env, {name: tries[name] for name in names}) == {}


@pytest.mark.slow
@pytest.mark.shift
def test_every_attempt_is_scored_in_chromium(started: Callable[[str, int], WebEnv]) -> None:
    env = started("turnwise/Web-v1", 2)
    assert unscored(env, all_attempts(env)) == {}


def test_the_calls_of_one_message_wait_five_seconds_together(
    started: Callable[[str, int], WebEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    env, waited = started("turnwise/WebHTML-v1", 2), list[float]()

    async def rest(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(env.browser, "rest", rest)
    for _ in range(2):
        env.step(tw.Action(tool_calls=(ToolCall("noop", {"wait_ms": 3_000}),) * 4))
    assert waited == [3, 2, 0, 0] * 2, "sixteen waits of one message would take longer than a step may"


def test_a_site_without_room_says_so_and_goes_on(started: Callable[[str, int], WebEnv]) -> None:
    sites = started("turnwise/WebHTML-v1", 2).sites
    sites.db.rows("PRAGMA max_page_count = 1")  # which SQLite takes for what is filled already
    cookies = {SESSION: sites.cookies["forum.test"]}
    form = Values([("text", "x" * 1_000)])
    posted = Request("POST", "forum.test", "/threads/1/reply", form=form, cookies=cookies)
    answers = [sites.handle(posted).status for _ in range(60)]
    assert answers[-1] == 507, "what does not fit is refused"
    assert sites.handle(Request("GET", "forum.test", "/", cookies=cookies)).status == 200


class Keyboard:
    """Counts keys instead of pressing them."""

    def __init__(self) -> None:
        self.pressed, self.written = 0, ""

    async def press(self, key: str) -> None:
        self.pressed += 1
        self.written += "\n"

    async def insert_text(self, text: str) -> None:
        self.written += text


class Shown:
    """A page that has only a keyboard."""

    def __init__(self) -> None:
        self.keyboard = Keyboard()


async def test_a_text_of_thousands_of_lines_is_typed_by_few_keys() -> None:
    page, text = Shown(), "x\n" * 10_000
    await typing(page, text)  # type: ignore[arg-type]
    assert (page.keyboard.pressed, page.keyboard.written) == (KEYS, text)


def test_a_player_of_attacks_meets_the_pages_that_it_means(started: Callable[[str, int], WebEnv]) -> None:
    """The elements of forms are named before the episode: they are those that the agent then sees."""
    env = started("turnwise/WebHTML-v1", 2)
    fills = env.attacks()["fills forms with SQL"]
    answers = [message.text for act in fills[:1] for message in env.step(act)[0].messages]
    calls = [call for act in fills[:1] for call in cast(tw.Action, act).tool_calls]
    filled = [answer for call, answer in zip(calls, answers, strict=True) if call.name == "fill"]
    assert any("DROP TABLE" in answer for answer in filled)
    assert not any("no element" in answer for answer in filled)
