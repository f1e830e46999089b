"""The comparison of two runs and of two episodes in a real Chromium."""

from __future__ import annotations

import pytest

from .browsing import Open, follow, look, ready, text_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_from_a_verdict_to_the_first_difference(visit: Open, width: int, scheme: str) -> None:
    page = visit(width=width, color_scheme=scheme)
    follow(page, "a:text-is('runs/after')")
    page.keyboard.press("c")
    page.wait_for_selector("[data-verdict]")
    assert page.inner_text("[data-counts]").startswith("4 shared tasks: 2 gained, 1 lost, 1 the same.")
    look(page, "compare")
    page.select_option("select[aria-label='Tasks to show']", "lost")
    page.wait_for_selector("tbody:not(:has(tr:nth-child(2))) .badge.failed:text-is('lost')")
    link = page.url
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-divergence]")
    ready(page)
    assert page.inner_text("[data-divergence]").startswith("They first differ in turn 2: what they did.")
    assert page.locator(".turn.divergence mark").all_text_contents() == ["open", "kick"]
    look(page, "pair")
    page.keyboard.press("d")
    page.keyboard.press("Escape")
    page.wait_for_selector("[data-verdict]")
    page.click("button:text-is('Swap')")
    page.wait_for_selector("[data-counts]:text-matches('1 gained, 2 lost')")
    again = visit(link[link.index("#") :])
    again.wait_for_selector("[data-counts]:text-matches('2 gained, 1 lost')")


def test_what_cannot_be_compared_says_why(visit: Open) -> None:
    page = visit("#/compare")
    label = page.locator("select[data-side=a] option", has_text="runs/after").get_attribute("value")
    page.select_option("select[data-side=a]", label)
    page.select_option("select[data-side=b]", label)
    page.wait_for_selector(".problem:text-matches('both sides are the same')")


def test_hostile_episodes_side_by_side_are_text(visit: Open) -> None:
    page = visit()
    follow(page, "a:has-text('onerror')")
    run = page.url.split("/run/")[1].split("/")[0]
    sides = f"a={run}&a_store=episodes&a_episode=bad%3Ci%3E&b={run}&b_store=episodes&b_episode=long"
    page = visit(f"#/pair?{sides}")
    page.evaluate("document.querySelector('.message img').decode()")
    assert page.evaluate("window.owned") is None
    assert page.locator("main script, main b:text-is('bold'), main img[src='x']").count() == 0
    assert "<script>window.owned=1</script>" in text_of(page, ".message.user pre >> nth=0")
    assert "Long texts are compared up to 20,000 characters." in page.inner_text("[data-divergence]")
