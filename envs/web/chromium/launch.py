"""Starting one Chromium with its driver, so that neither outlives this process, and nothing gets out of it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....errors import EnvironmentDiedError, UsageError
from .processes import Process, below, driver_of, process

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Playwright

NAMED = "TURNWISE_CHROMIUM"
"""Names another executable."""
KNOWN = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
"""What it is called where it is installed; the first that is found is taken. The shell is the same engine without the
windows, profiles and menus of a person's browser, which cost a third of the time of an act though nobody sees them."""
OPTIONS = (
    "--no-sandbox",  # it cannot have one as root, in containers; what it shows comes from this process
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
STARTING = 60_000
"""Milliseconds that a start may take, on a machine that has much to do."""
ANSWERING = 15.0
"""Seconds in which a browser says what it is, however much it has to do."""
ENDING = 10.0
"""Seconds that a browser, and then its driver, may take to end in peace."""


@dataclass(eq=False)
class Chromium:
    """A running Chromium. It ends when its driver does, and its driver when this process does: each reads from a pipe
    that the other holds.

    Args:
        driver: Playwright's.
        browser: as Playwright holds it.
        control: for what Playwright has no name for.
        pid: of its first process.
        made: contexts there have been in it.
        open: contexts that there are now.
        retired: whether it gets no more contexts, and ends with its last one.
        lost: whether it was found not to answer.
        running: its first process, if it can be watched.
        serving: its driver's, if that can be watched.
    """

    driver: Playwright
    browser: Browser
    control: CDPSession
    pid: int
    made: int = 0
    open: int = 0
    retired: bool = False
    lost: bool = False
    running: Process | None = None
    serving: Process | None = None
    _ending: asyncio.Future[None] | None = field(default=None, repr=False)

    @property
    def alive(self) -> bool:
        """Whether it answers, as far as is known."""
        if self._ending is not None or self.lost or not self.browser.is_connected():
            return False
        return self.serving is None or self.serving.alive  # Playwright does not notice that its driver was killed

    async def answers(self) -> bool:
        """Ask it; one that does not answer now is lost."""
        if self.alive:
            try:
                async with asyncio.timeout(ANSWERING):
                    await self.control.send("Browser.getVersion")
            except Exception:  # of whatever kind: there is no answer
                self.lost = True
        return self.alive

    async def close(self) -> None:
        """End it; may be called again, and waits for the end in any case."""
        if self._ending is not None:
            await asyncio.shield(self._ending)
            return
        self._ending = asyncio.get_running_loop().create_future()
        family = self._family()
        try:
            for end in (self.browser.close, self.driver.stop):
                with suppress(Exception):  # it may be dead, or dying
                    await asyncio.wait_for(end(), ENDING)
        finally:
            for one in family:  # a driver that hangs ends nothing, and one that was killed nothing in order
                one.kill()
            self._ending.set_result(None)

    def _family(self) -> list[Process]:
        """Its processes and its driver's, which nobody finds any more when those above them have ended."""
        first = [one.pid for one in (self.serving, self.running) if one is not None and one.alive]
        pids = {pid for one in first for pid in below(one)}
        return [one for one in map(process, pids) if one is not None]


def executable() -> str:
    """The Chromium that is installed.

    Raises:
        UsageError: there is none, or no Playwright.
    """
    if importlib.util.find_spec("playwright") is None:
        raise UsageError("browser='chromium' needs Playwright: pip install 'turnwise[web]'")
    named = os.environ.get(NAMED)
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, KNOWN)), None)
    if found is None:
        what = f"{NAMED}={named!r} is no program" if named else "there is no Chromium on this machine"
        raise UsageError(f"{what}: apt-get install chromium-headless-shell, or let {NAMED} name one")
    return found


async def launch(port: int) -> Chromium:
    """Start Chromium.

    Args:
        port: of the server on this machine that it reaches in place of every host there is.

    Raises:
        UsageError: there is none to start.
        EnvironmentDiedError: it did not start this time.
    """
    program = executable()
    from playwright.async_api import Error, async_playwright  # an extra

    driver = await async_playwright().start()
    try:
        # A rule rewrites numbers and localhost as well as names: no address leads anywhere but to the server.
        browser = await driver.chromium.launch(
            executable_path=program,
            args=[*OPTIONS, f"--host-resolver-rules=MAP * 127.0.0.1:{port}"],
            handle_sigint=False,  # what ends this process ends it
            handle_sighup=False,
            handle_sigterm=False,
            timeout=STARTING,
        )
        control = await browser.new_browser_cdp_session()
        processes: Any = (await control.send("SystemInfo.getProcessInfo"))["processInfo"]
    except BaseException as error:
        with suppress(Exception):
            await driver.stop()
        if isinstance(error, Error):
            raise EnvironmentDiedError(f"Chromium ({program}) did not start: {str(error)[:500]}") from error
        raise
    pid = next(int(one["id"]) for one in processes if one["type"] == "browser")
    return Chromium(driver, browser, control, pid, running=process(pid), serving=driver_of(pid))
