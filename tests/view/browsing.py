"""A real Chromium on a viewer over a folder of runs, and what its tests share."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import turnwise as tw
from turnwise.envs.step import CHANGES
from turnwise.envs.web.chromium.launch import executable
from turnwise.errors import UsageError
from turnwise.tasks.spec import TaskSpec

from .fakes import PNG, episode, line, said, store, training, turn
from .folders import build, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MARKUP = "<script>window.owned=1</script><img src=x onerror='window.owned=1'><b>bold</b> \u202eevil \x1b[31m"
PATIENCE = 60_000
"""Milliseconds until a page counts as broken; nothing here waits for a clock otherwise."""


def found() -> str:
    try:
        return executable()
    except UsageError as error:
        pytest.skip(f"needs a browser: {error}")


@pytest.fixture(scope="module")  # while it is open, no test of another module can run an event loop
def browser() -> Iterator[Browser]:
    program = found()
    from playwright.sync_api import sync_playwright  # an extra

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def viewer(*words: str | Path, cwd: Path | None = None, command: str = "view") -> Iterator[str]:
    """Run the command; the address that it prints."""
    line = [sys.executable, "-m", "turnwise", command, *map(str, words), "--port", "0"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=cwd)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        assert process.wait(60) == 0, "SIGTERM ends the viewer in order"
        process.stdout.close()


@pytest.fixture(scope="package")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = build(tmp_path_factory.mktemp("browser") / "runs")
    seen = tw.Observation((said("user", MARKUP, tw.ImagePart(PNG)), said("tool", MARKUP, name=MARKUP)))
    call = tw.ToolCall("tool<b>", {"x": MARKUP})
    acted = tw.Turn(seen, tw.Action(MARKUP, (call,)), 1.0, terminated=True, thoughts=MARKUP, info={CHANGES: [MARKUP]})
    long = turn("go", see="y" * 50_000 + "END", last=True)
    many = turn("go " * 130_000, last=True)
    store(root / "many tokens" / "episodes", [episode("wide", turns=[many])])
    odd = training(root / "odd")
    (odd / "metrics.jsonl").write_text("".join(line(n, constructor=1.0, __proto__=2.0) for n in (1, 2, 3)))
    named = [episode(f"n{n}", template=f"t{n:03d}") for n in range(130)] + [episode("comma", template="z,z")]
    store(odd / "training_episodes", named, per_part=200)
    for name, won, second in (("before", "0101", "open door"), ("after", "1011", "kick door")):
        tasks = [TaskSpec("maze", "rooms", 1, seed) for seed in range(4)]
        both = [episode(f"{n}", ("go north", second), success=won[n] == "1", task=task) for n, task in enumerate(tasks)]
        store(root / name / "episodes", both, run={"env": "turnwise/Pair-v0"})
    bad = [episode("bad<i>", turns=[acted], error=MARKUP, template="<u>t"), episode("long", turns=[long])]
    store(root / "<img src=x onerror=owned=1>" / "episodes", bad)
    return root


@pytest.fixture(scope="module")
def address(browser: Browser, browsed: Path) -> Iterator[str]:
    with running(browsed / "live"), viewer(browsed) as printed:
        yield printed


Open = Callable[..., "Page"]


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Open]:
    """Opens pages in contexts of their own; a page with an error in its console fails the test."""
    contexts, problems = [], []

    def visited(hash: str = "#/", width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.goto(address + hash)
        ready(page)
        return page

    yield visited
    for context in contexts:
        context.close()
    assert problems == [], "no page has an error, and none breaks its own security policy"


def ready(page: Page) -> None:
    """Wait until the page that the address names has been built."""
    # A page may complete its own address, so both are read; wait_for_function needs eval, which the pages forbid.
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate("document.getElementById('main').dataset.ready === (location.hash || '#/')"):
        assert time.monotonic() < end, f"the page {page.url} is not built"
        page.wait_for_timeout(20)


def follow(page: Page, selector: str) -> None:
    page.click(selector)
    ready(page)


def text_of(page: Page, selector: str) -> str:
    """Return the text of a part of a turn. Chromium does not draw a turn below the window: its inner text is empty."""
    return page.text_content(selector) or ""


def look(page: Page, name: str, folder: Path | None = None) -> None:
    """Check that a page fits its window and that each control has a name; keep a screenshot if there is a folder."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{name} is {wide} pixels wider than the window"
    nameless = page.evaluate(
        "[...document.querySelectorAll('main button, main input, main select, main textarea, main a')]"
        ".filter((e) => !(e.textContent.trim() || e.ariaLabel || e.placeholder || e.labels?.length)).length"
    )
    assert nameless == 0, "every control has a name for a screen reader"
    if folder is not None:
        page.screenshot(path=folder / f"{name}.png")


def serious(page: Page) -> list[str]:
    """Return what axe-core finds on a page against WCAG 2.1 A and AA, if it is serious or critical."""
    pytest.importorskip("axe_playwright_python")
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    rules = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}"
    report = page.evaluate(f"axe.run(document, {rules})")
    assert report["passes"], "axe has looked at the page"
    return [
        f"{each['id']} ({each['impact']}): {'; '.join(node['html'][:150] for node in each['nodes'][:3])}"
        for each in report["violations"]
        if each["impact"] in ("serious", "critical")
    ]
