"""No navigation leaves an episode's sites; each attempt is refused with a reason, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from turnwise.envs.web.browser import Wanted
from turnwise.envs.web.chromium.browser import ChromiumBrowser, look_around, open_browser
from turnwise.envs.web.page import Page
from turnwise.errors import EnvironmentFailedError, ToolError

from .hostile import Hostile

pytestmark = pytest.mark.slow
HOME = "http://trap.test/"


@pytest.fixture
async def trap() -> AsyncIterator[ChromiumBrowser]:
    browser = await open_browser(Hostile(), HOME)
    assert isinstance(browser, ChromiumBrowser)
    yield browser
    await browser.close()


async def click(browser: ChromiumBrowser, name: str) -> Page:
    """Click what has this name, and look."""
    page = await browser.look(Wanted())
    [node] = [one for one in page.walk() if one.name == name and one.role in ("link", "button")]
    await browser.click(node.ref)
    return await browser.look(Wanted())


async def test_addresses_elsewhere_are_refused_and_counted(trap: ChromiumBrowser) -> None:
    other = await open_browser(Hostile(), HOME)
    port = trap.pool.server.port
    tried = [
        "javascript:document.title='run'", "file:///etc/passwd", "data:text/html,x", "view-source:http://trap.test/",
        "chrome://version", "about:srcdoc", "http://elsewhere.example/", "ftp://trap.test/",
        f"http://127.0.0.1:{port}/", f"http://localhost:{port}/", f"http://[::1]:{port}/", f"http://trap.test:{port}/",
        "http://trap.test@elsewhere.example/", "//elsewhere.example/", r"\\elsewhere.example\a",
        *look_around(other).values(), *look_around(trap).values(),
    ]  # fmt: skip
    for number, url in enumerate(tried):
        with pytest.raises(ToolError):
            await trap.goto(url)
        assert len(trap.violations) == number + 1, f"{url} is not counted"
    page = await trap.look(Wanted())
    assert (page.url, page.title) == (HOME, "/")
    await other.close()


async def test_sites_are_not_at_https(trap: ChromiumBrowser) -> None:
    with pytest.raises(ToolError, match="http://"):
        await trap.goto("https://trap.test/")
    assert not trap.violations
    assert (await trap.look(Wanted())).url == HOME


@pytest.mark.parametrize(
    "name", ["out", "secure", "script", "data", "file", "blank", "open", "leave", "post out", "post out blank"]
)
async def test_what_leads_out_is_refused_and_counted_and_the_page_stays(trap: ChromiumBrowser, name: str) -> None:
    page = await trap.look(Wanted())
    [word] = page.find("textbox", "word")
    await trap.fill(word.ref, "kept")
    with suppress(ToolError):
        await click(trap, name)
        assert trap.notices, "nobody is told"
    assert len(trap.violations) == 1
    page = await trap.look(Wanted())
    assert (page.url, page.title, len(page.tabs)) == (HOME, "/", 1)
    assert page.find("textbox", "word")[0].value == "kept"


@pytest.mark.parametrize("to", ["https://elsewhere.example/", "http://127.0.0.1:1/", "http://trap.test:81/"])
async def test_a_script_that_leaves_is_brought_back(trap: ChromiumBrowser, to: str) -> None:
    await trap.goto(f"{HOME}?to={to}")
    with pytest.raises(ToolError):
        await click(trap, "leave to")
    assert len(trap.violations) == 1
    assert (await trap.look(Wanted())).url == f"{HOME}?to={to}"


async def test_a_page_that_goes_elsewhere_by_itself_stays(trap: ChromiumBrowser) -> None:
    await trap.goto(f"{HOME}refresh")
    await trap.rest(0.2)
    assert trap.violations
    assert trap.notices
    assert (await trap.look(Wanted())).url == f"{HOME}refresh"


async def test_a_redirection_elsewhere_goes_nowhere(trap: ChromiumBrowser) -> None:
    with pytest.raises(ToolError):
        await trap.goto(f"{HOME}away")
    assert trap.violations
    assert (await trap.look(Wanted())).url == HOME


@pytest.mark.parametrize("name", ["blank inside", "open inside"])
async def test_a_window_inside_is_a_tab(trap: ChromiumBrowser, name: str) -> None:
    page = await click(trap, name)
    assert (page.url, page.tabs, page.front) == (f"{HOME}inside", ("/", "/inside"), 1)
    await trap.tab_close()
    page = await trap.look(Wanted())
    assert (page.url, page.tabs) == (HOME, ("/",))
    with pytest.raises(ToolError, match="last tab"):
        await trap.tab_close()
    assert not trap.violations


async def test_dialogs_downloads_and_files_are_told_and_refused(trap: ChromiumBrowser) -> None:
    for name, message in (("alert", "'Hello'"), ("confirm", "dismissed"), ("download", "a download was blocked")):
        await click(trap, name)
        assert message in " ".join(trap.notices), name
        trap.notices.clear()
    page = await trap.look(Wanted())
    assert page.title == "false", "a question is answered with no"
    [upload] = [one for one in page.walk() if one.name == "upload"]
    await trap.click(upload.ref)
    await trap.rest(0.1)
    assert "asked for a file" in " ".join(trap.notices)
    assert not trap.violations


async def test_what_cannot_be_done_is_said(trap: ChromiumBrowser) -> None:
    for name, why in (("under", "covers"), ("off", "disabled")):
        with pytest.raises(ToolError, match=why):
            await click(trap, name)
    page = await trap.look(Wanted())
    [late] = page.find("button", "late")
    [remove] = page.find("button", "remove")
    await trap.click(remove.ref)
    with pytest.raises(ToolError, match="no longer has this element"):
        await trap.click(late.ref)
    with pytest.raises(ToolError, match="does not accept text"):
        await trap.fill(remove.ref, "x")
    with pytest.raises(ToolError, match="not a checkbox"):
        await trap.check(remove.ref, True)
    with pytest.raises(ToolError, match="unknown key"):
        await trap.press("", "Nonsense")


async def test_a_fault_of_a_site_is_no_fault_of_the_agent(trap: ChromiumBrowser) -> None:
    with pytest.raises(EnvironmentFailedError, match="a fault of the site"):
        await trap.goto(f"{HOME}broken")


async def test_pictures_and_source(trap: ChromiumBrowser) -> None:
    page = await trap.look(Wanted(picture=True, source=True))
    assert page.picture.startswith(b"\x89PNG")
    assert "<button" in page.source
    marked = await trap.look(Wanted(picture=True, marks=True))
    assert marked.picture.startswith(b"\x89PNG")
    assert marked.picture != page.picture
