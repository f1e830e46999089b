"""The pages in a real Chromium: themes, narrow windows, keys, live updates, links with filters, hostile text."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .browsing import PATIENCE, Open, follow, look, ready, text_of, viewer
from .fakes import line, training
from .folders import build, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_way_to_an_episode(visit: Open, tmp_path: Path, width: int, scheme: str) -> None:
    page = visit(width=width, color_scheme=scheme)

    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", background))) > 382
    assert light == (scheme == "light"), "the system's theme is the default"
    look(page, "runs", tmp_path)
    follow(page, "a:text-is('runs/done')")
    page.wait_for_selector("[data-chart='Success'] canvas")
    page.wait_for_selector("[data-explained]")
    look(page, "run", tmp_path)
    follow(page, "a:text-is('training episodes')")
    look(page, "episodes", tmp_path)
    follow(page, "a:text-is('e0')")
    assert page.inner_text(".checks") == "✓ reached\n✓ in time"
    assert page.locator(".turn").count() == 3
    look(page, "episode", tmp_path)
    follow(page, "a:text-is('Group side by side')")
    assert page.inner_text("[data-divergence]").startswith("The attempts first differ in turn 2.")
    look(page, "group", tmp_path)


def test_a_slow_step_is_explained(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/done')")
    page.wait_for_selector("svg.phases")
    page.locator("svg.phases g").nth(6).click()
    said = page.inner_text("[data-explained]")
    assert said.startswith("Step 7 took 6.7 s, of which collect is 90 %.")
    assert "collect took 5 s longer than usual" in said


def test_a_new_line_of_metrics_appears(visit: Open, browsed: Path) -> None:
    page = visit()
    follow(page, "a:text-is('runs/live')")
    page.wait_for_selector("[data-chart='Loss'][data-points='5']")
    assert page.inner_text(".facts .badge") == "running"
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 60)  # no timer of the page delays what the viewer sends
    with (browsed / "live" / "metrics.jsonl").open("a") as file:
        file.write(line(6))
    page.wait_for_selector("[data-chart='Loss'][data-points='6']")
    page.wait_for_selector("text=6 of 20 steps")


def test_a_run_that_dies_shows_so(browser: Browser, tmp_path: Path) -> None:
    root = build(tmp_path / "runs")
    with viewer(root) as printed:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        with running(root / "live"):
            page.goto(printed)
            page.wait_for_selector("tr:has-text('runs/live') .badge.running")
        page.wait_for_selector("tr:has-text('runs/live') .badge.interrupted")
        context.close()


def test_a_viewer_waits_for_the_first_run(browser: Browser, tmp_path: Path) -> None:
    with viewer(cwd=tmp_path, command="watch") as printed:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(printed)
        page.wait_for_selector("text=There is no run yet")
        training(tmp_path / "runs" / "first")
        page.wait_for_selector("tr:has-text('runs/first')")
        context.close()


def test_keys_lead_everywhere(visit: Open) -> None:
    page = visit()
    names = page.locator("tbody tr .name a").all_inner_texts()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.inner_text("tr.selected .name a") == names[1]
    page.keyboard.press("/")
    page.keyboard.type("eval")
    page.wait_for_selector("tbody:not(:has(tr:nth-child(2)))")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('Episodes')")
    ready(page)
    page.keyboard.press("n")
    page.wait_for_selector("text=51 – 100")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn")
    ready(page)
    page.keyboard.press("x")
    page.wait_for_selector(".token")
    page.keyboard.press("Escape")
    page.wait_for_selector("h1:text-is('Episodes')")
    ready(page)
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("Escape")
    assert not page.is_visible("#keys")
    assert "/episodes" in page.url, "escape closes the list of keys, and nothing else"


def test_the_theme_is_chosen_and_kept(visit: Open) -> None:
    page = visit(color_scheme="light")
    body = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(body)
    page.keyboard.press("t")
    dark = page.evaluate(body)
    assert dark != light
    page.reload()
    ready(page)
    assert page.evaluate(body) == dark


def test_filters_are_in_the_address(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/eval')")
    page.select_option("select[aria-label='Solved']", "false")
    page.wait_for_selector("text=40 of 120 episodes")
    page.select_option("select[aria-label='Level']", "2")
    page.wait_for_selector("text=10 of 120 episodes")
    page.fill("[data-filter='id']", "t9")
    page.wait_for_selector("p[role=status]:text-matches('^[12] of 120')")
    shown, link = page.locator("tbody tr .name a").all_inner_texts(), page.url
    assert "success=false" in link
    page.click("th button:has-text('Reward')")
    page.wait_for_selector("th[aria-sort='descending']")
    again = visit(link[link.index("#") :])
    assert again.locator("tbody tr .name a").all_inner_texts() == shown, "a link leads to the same rows"
    assert again.input_value("[data-filter='id']") == "t9"


def test_a_filter_is_saved_under_a_name(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/eval')")
    page.select_option("select[aria-label='Solved']", "false")
    page.wait_for_selector("text=40 of 120 episodes")
    page.click("summary:has-text('Saved filters (0)')")
    page.fill("[aria-label='Name of this filter']", "<b>lost</b>")
    page.click("button:text-is('Save filter')")
    page.goto(page.url.partition("#")[0] + "#/")
    ready(page)
    follow(page, "a:text-is('runs/eval')")
    page.wait_for_selector("text=120 of 120 episodes")
    page.click("summary:has-text('Saved filters (1)')")
    follow(page, "a:text-is('<b>lost</b>')")
    page.wait_for_selector("text=40 of 120 episodes")
    assert page.input_value("select[aria-label='Solved']") == "false"
    page.click("summary:has-text('Saved filters (1)')")
    page.click("button[aria-label='Delete <b>lost</b>']")
    page.wait_for_selector("summary:has-text('Saved filters (0)')")


def test_a_metric_may_have_any_name(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/odd')")
    page.wait_for_selector("[data-chart='Loss'][data-points='3']")
    for name in ("constructor", "__proto__"):
        page.select_option("select[aria-label='Add a chart']", name)
        page.wait_for_selector(f"[data-chart='{name}'][data-points='3']")


def test_a_column_of_many_values_has_a_field(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/odd')")
    follow(page, "a:text-is('training episodes')")
    for template in ("z,z", "t129"):
        page.fill("[data-filter='template']", template)
        page.keyboard.press("Enter")
        page.wait_for_selector("p[role=status]:text-matches('^1 of 131 episodes')")
        page.wait_for_selector(f"tbody tr:has-text('{template}')")


def test_a_turn_of_many_tokens_is_colored(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/many tokens')")
    follow(page, "a:text-is('wide')")
    page.click("button:text-is('Tokens')")
    page.wait_for_selector(".token:nth-child(130000)")


def test_hostile_text_is_shown_and_never_runs(visit: Open) -> None:
    page = visit()
    follow(page, "a:has-text('onerror')")
    follow(page, "a:text-is('bad<i>')")
    for each in page.locator("details summary").all():
        each.click()
    page.evaluate("document.querySelector('.message img').decode()")
    assert page.evaluate("window.owned") is None
    assert page.locator("main script, main b:text-is('bold'), main img[src='x']").count() == 0
    shown = text_of(page, ".message.user pre")
    assert "<script>window.owned=1</script>" in shown, "it is text"
    assert "<script>window.owned=1</script>" in text_of(page, "[aria-label='Rows changed in this turn']")
    assert "⟨U+202E⟩" in shown, "a change of direction is visible"
    assert "␛[31m" in shown, "an escape is visible"
    assert page.evaluate("document.querySelector('.message img').naturalWidth") == 1, "the screenshot is loaded"


def test_a_long_text_is_loaded_on_request(visit: Open) -> None:
    page = visit()
    follow(page, "a:has-text('onerror')")
    follow(page, "a:text-is('long')")
    assert "END" not in text_of(page, ".message.user pre")
    page.click("button:has-text('Show more (30,003 characters)')")
    page.wait_for_selector(".message.user pre:has-text('END')")


def test_without_the_token_there_is_nothing(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(address.partition("?")[0])
    assert answer is not None
    assert answer.status == 403
    context.close()


def test_another_origin_gets_nothing(visit: Open, browser: Browser, address: str, tmp_path: Path) -> None:
    page = visit()
    base = address.partition("?")[0]
    other = page.context.new_page()
    (tmp_path / "evil.html").write_text("<p>evil</p>")
    other.goto((tmp_path / "evil.html").as_uri())
    got = other.evaluate(f"fetch('{base}api/runs', {{credentials: 'include'}}).then((r) => r.text(), () => 'refused')")
    assert got == "refused"


def test_a_taken_port_is_one_line(address: str, browsed: Path) -> None:
    port = address.split(":")[2].split("/")[0]
    words = [sys.executable, "-m", "turnwise", "view", str(browsed), "--port", port]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


def test_no_run_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "turnwise", "view", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there is no run in" in done.stderr


def test_tokens_show_what_the_learner_knew(visit: Open, tmp_path: Path) -> None:
    page = visit()
    follow(page, "a:text-is('runs/done')")
    follow(page, "a:text-is('training episodes')")
    follow(page, "a:text-is('e0')")
    assert page.get_attribute("svg.values", "aria-label") == "Critic's value before each turn, from 0 to 0.5"
    assert page.locator("svg.values .point").count() == 3
    assert "critic 0.25" in text_of(page, "[data-turn='1'] h3")
    page.click("button:text-is('Tokens')")
    assert "training row 2 of 3" in text_of(page, "[data-turn='1'] .token-view")
    page.select_option("select[aria-label='Color tokens by']", "advantages")
    page.wait_for_selector("[data-turn='0'] .token.gain-5")
    assert page.locator("[data-turn='0'] .token.heat-9").count() == 1, "a negative advantage has the other color"
    assert "advantage 0.5, entropy 0.5 nats" in (page.get_attribute("[data-turn='0'] .token.gain-5", "title") or "")
    assert page.inner_text("[data-legend]").startswith("Blue: better than expected.")
    for mode in ("entropies", "mismatch", "probability"):
        page.select_option("select[aria-label='Color tokens by']", mode)
        assert page.inner_text("[data-legend]").startswith("Red:")
    page.select_option("select[aria-label='Color tokens by']", "clips")
    blue = page.locator("[data-turn='0'] .token.gain-5")
    assert "clipped by the lower bound in 1 of 2 updates" in (blue.get_attribute("title") or "")
    assert page.locator("[data-turn='1'] .token.heat-9").count() == 1, "the upper bound has the other color"
    page.select_option("select[aria-label='Color tokens by']", "staleness")
    assert page.locator("[data-turn='0'] .token.heat-9").count() == 1, "version 0 in the third step is the oldest"
    assert "2 versions older at most" in page.inner_text("[data-legend]")
    look(page, "learned", tmp_path)
    page.go_back()
    follow(page, "a:text-is('e1')")
    page.click("button:text-is('Tokens')")
    assert page.locator("svg.values").count() == 0
    assert page.locator("select[aria-label='Color tokens by'] option").count() == 3, (
        "nothing is offered that is not stored"
    )


def test_four_clicks_lead_from_the_runs_to_why_an_episode_failed(visit: Open) -> None:
    page = visit()
    follow(page, "a:text-is('runs/eval')")  # one
    page.select_option("select[aria-label='Solved']", "false")  # two
    page.wait_for_selector("p[role=status]:text-matches('of 120 episodes')")
    page.wait_for_selector("tbody tr:has-text('not solved')")
    follow(page, "tbody tr a:text-is('t0')")  # three
    assert "✗ reached" in page.inner_text(".checks"), "which check failed"
    assert "go north" in text_of(page, "[data-turn='0'] .message.assistant"), "what the agent did"
    page.click("button:text-is('Tokens')")  # four
    assert "probability 67.0 %" in (page.get_attribute("[data-turn='0'] .token:nth-child(2)", "title") or "")
