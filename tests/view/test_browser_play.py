"""Playing an environment and annotating its episode in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turnwise.rollouts.annotations import read_annotations
from turnwise.rollouts.store import load_episodes

from .browsing import MARKUP, PATIENCE, look, ready, serious, viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
SHOP = "turnwise/Apps-v2"


def test_playing_and_annotating_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "play"
    with viewer("--play", SHOP, "--play-to", folder, "--annotate", cwd=tmp_path) as printed:
        context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
        page, problems = context.new_page(), list[str]()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(printed)
        page.click("a:text-is('Play')")
        page.click("button:text-is('New episode')")
        page.wait_for_selector("[data-turn='0']")
        look(page, "play")
        assert serious(page) == []
        page.select_option("select[aria-label='Tool']", "todo_search")
        page.fill("[data-tool='todo_search'] label textarea >> nth=0", MARKUP)
        page.click("button:text-is('Call todo_search')")
        page.wait_for_selector("[data-turn='1']")
        assert page.evaluate("window.owned") is None
        page.select_option("select[aria-label='Tool']", "task_refuse")
        page.fill("[data-tool='task_refuse'] input", "none")
        page.click("button:text-is('Call task_refuse')")
        page.wait_for_selector("[data-ended]")
        page.click("a:text-is('The recorded episode')")
        page.wait_for_selector(".checks, .turn")
        ready(page)
        page.click("summary:text-is('Label or comment')")
        page.fill("input[aria-label='Label']", "<b>odd</b>")
        page.fill("textarea[aria-label='Comment']", MARKUP)
        page.click("button:text-is('Save')")
        page.wait_for_selector(".note .badge:text-is('<b>odd</b>')")
        look(page, "annotated")
        page.reload()
        ready(page)
        assert page.inner_text(".note .badge") == "<b>odd</b>"
        assert page.evaluate("window.owned") is None
        context.close()
        assert problems == []
    (recorded,) = load_episodes(folder)
    assert [call.name for turn in recorded.turns for call in turn.action.tool_calls] == [
        "todo_search",
        "task_refuse",
    ]
    assert read_annotations(folder)[recorded.episode_id].comment == MARKUP.strip()
