"""Every page passes axe-core's rules of WCAG 2.1 A and AA, in both themes and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise.view.runs import Runs

from ..shifts import core_sample
from .browsing import Open, serious

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("width", "scheme"), core_sample([(1280, "light"), (390, "dark")], 1, key="axe"))
def test_no_page_has_a_serious_finding(visit: Open, browsed: Path, width: int, scheme: str) -> None:
    ids = {run.name: run.id for run in Runs([browsed]).list()}
    done, eval_ = ids["runs/done"], ids["runs/eval"]
    a, b = (f"{ids[f'runs/{name}']}&{side}_store=episodes" for side, name in (("a", "before"), ("b", "after")))
    one = f"#/run/{done}/episode?store=training_episodes&episode=e1"
    pages = {
        "runs": ("#/", "tbody tr"),
        "run": (f"#/run/{done}", "[data-explained]"),
        "episodes": (f"#/run/{eval_}/episodes?store=episodes", "tbody tr"),
        "episode": (one, ".turn"),
        "group": (f"#/run/{done}/group?store=training_episodes&group=g1", "[data-divergence]"),
        "compare": (f"#/compare?a={a}&b={b}", "[data-verdict]"),
        "pair": (f"#/pair?a={a}&a_episode=1&b={b}&b_episode=1", "[data-divergence]"),
    }
    found = dict[str, list[str]]()
    page = visit(width=width, color_scheme=scheme)
    for name, (hash, there) in pages.items():
        page.evaluate(f"location.hash = {hash!r}")
        page.wait_for_selector(there)
        if name == "episode":
            page.click("button:text-is('Tokens')")
        if wrong := serious(page):
            found[name] = wrong
    assert found == {}
