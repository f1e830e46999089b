"""The first observation does not depend on how long a machine takes to the first look."""

from __future__ import annotations

import pytest

from turnwise.envs.miniwob.chromium import Window
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.tasks.miniwob.suite import TASKS, MiniwobTask

from ...shifts import sampled
from .around import opened

TICKS = """
() => new Promise(done => {
  let left = 17;
  const ticking = setInterval(() => { if (--left === 0) { clearInterval(ticking); done(); } }, 99);
})
"""
"""Ticks of a page's clock: whatever the machine's speed, timers of 1.6 seconds and less have run before the last."""
BY_THE_CLOCK = ("stock-market", "terminal")
"""Pages that show their clock."""


def observed(page: str) -> str:
    with opened(page, None) as env:
        observation, _ = env.reset(seed=0)
        return observation.text


def same_when_late(monkeypatch: pytest.MonkeyPatch, page: str) -> bool:
    """Whether a page shows the same when the first look comes after many ticks."""
    at_once, begin = observed(page), Window.begin

    async def begin_late(window: Window, task: MiniwobTask) -> None:
        await begin(window, task)
        await window.page.evaluate(TICKS)

    with monkeypatch.context() as patch:
        patch.setattr(Window, "begin", begin_late)
        return observed(page) == at_once


@pytest.mark.slow
@pytest.mark.parametrize("page", [*BY_THE_CLOCK, *sampled(TASKS, 2, key="first look")])
def test_a_late_first_look_sees_the_same(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    assert same_when_late(monkeypatch, page)


@pytest.mark.shift
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(4))
def test_every_page_shows_the_same_to_a_late_first_look(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    assert [page for page in TASKS[part::4] if not same_when_late(monkeypatch, page)] == []


@pytest.mark.slow
def test_the_clock_runs_after_the_first_look() -> None:
    with opened("stock-market") as env:
        assert "$" not in env.page.text
        env.step("noop(500)")
        assert "$" in env.page.text


SET = """
() => {
  const done = [];
  const first = setInterval(() => done.push('first'), 150), second = setTimeout(() => done.push('second'), 150);
  setTimeout(() => done.push('third'), 150);
  clearTimeout(second);
  window.cancelFirst = () => clearInterval(first);
  window.heard = done;
  window.isHeld = () => done.length === 0;
}
"""


@pytest.mark.slow
def test_a_timer_that_was_held_back_can_be_cancelled_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Window.begin

    async def begin_with_timers(window: Window, task: MiniwobTask) -> None:
        await begin(window, task)
        await window.page.evaluate(SET)
        await window.page.evaluate(TICKS)
        assert await window.page.evaluate("isHeld()")

    async def after(window: Window) -> tuple[list[str], list[str]]:
        cancelled = await window.page.evaluate("() => { cancelFirst(); return [...heard]; }")
        await window.page.evaluate(TICKS)
        return cancelled, await window.page.evaluate("heard")

    monkeypatch.setattr(Window, "begin", begin_with_timers)
    with opened("click-test") as env:
        then, now = LOOP.wait(after(env.browser.window))
    assert "second" not in now
    assert "third" in now
    assert then.count("first") == now.count("first")
