"""Start one Chromium with its driver, such that neither outlives this process and nothing reaches another host."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import EnvironmentDiedError, UsageError
from .processes import Process, below, driver_of, process
from .temporary import as_temporary, new_folder, remove_folder

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Playwright

NAMED = "TURNWISE_CHROMIUM"
"""Environment variable with the path of another executable."""
KNOWN = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
"""Names of the executable; the first one found is used.

The headless shell is the same engine without the windows, profiles and menus of a desktop browser. Those would cost a
third of the time of an action, and an agent never sees them.
"""
OPTIONS = (
    "--no-sandbox",  # impossible as root in containers; its pages come from this process
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
"""Milliseconds for a start on a busy machine."""
ANSWERING = 15.0
"""Seconds in which even a busy browser must answer."""
ENDING = 10.0
"""Seconds for a browser, and then its driver, to exit by themselves."""


@dataclass(eq=False)
class Chromium:
    """A running Chromium. It exits when its driver does, and its driver when this process does.

    Each reads from a pipe that the other holds.

    Args:
        driver: Playwright's driver.
        browser: Playwright's browser object.
        control: DevTools session, for functions that Playwright lacks.
        pid: process id of its first process.
        folder: folder of the temporary files of both.
        made: number of contexts created so far.
        open: number of open contexts.
        retired: whether it accepts no new contexts, and exits with its last one.
        lost: whether it failed to answer.
        running: its first process, if the platform allows watching it.
        serving: its driver's process, if the platform allows watching it.
    """

    driver: Playwright
    browser: Browser
    control: CDPSession
    pid: int
    folder: Path
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
        """Ask the browser for its version; mark it as lost if it does not answer."""
        if self.alive:
            try:
                async with asyncio.timeout(ANSWERING):
                    await self.control.send("Browser.getVersion")
            except Exception:  # any error means that there is no answer
                self.lost = True
        return self.alive

    async def close(self) -> None:
        """Exit; may be called again, and waits for the exit in any case."""
        if self._ending is not None:
            await asyncio.shield(self._ending)
            return
        self._ending = asyncio.get_running_loop().create_future()
        family = self._family()
        try:
            for end in (self.browser.close, self.driver.stop):
                with suppress(Exception):  # it may be dead or dying
                    async with asyncio.timeout(ENDING):
                        await end()
        finally:
            for one in family:  # a hung driver stops nothing, and a killed one leaves processes behind
                one.kill()
            remove_folder(self.folder)
            self._ending.set_result(None)

    def _family(self) -> list[Process]:
        """Return its processes and its driver's; they cannot be found after their parents have exited."""
        first = [one.pid for one in (self.serving, self.running) if one is not None and one.alive]
        pids = {pid for one in first for pid in below(one)}
        return [one for one in map(process, pids) if one is not None]


def executable() -> str:
    """Return the path of the installed Chromium.

    Raises:
        UsageError: Chromium or Playwright is missing.
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
        port: port of the local server that answers for every host.

    Raises:
        UsageError: Chromium or Playwright is missing.
        EnvironmentDiedError: the start failed this time.
    """
    program = executable()
    from playwright.async_api import Error, async_playwright  # an extra

    folder = new_folder()
    try:
        with as_temporary(folder):
            driver = await async_playwright().start()
    except BaseException:
        remove_folder(folder)
        raise
    try:
        # The rule also maps IP addresses and localhost, so that every URL leads to the server.
        browser = await driver.chromium.launch(
            executable_path=program,
            args=[*OPTIONS, f"--host-resolver-rules=MAP * 127.0.0.1:{port}"],
            handle_sigint=False,  # whatever ends this process ends it
            handle_sighup=False,
            handle_sigterm=False,
            timeout=STARTING,
        )
        control = await browser.new_browser_cdp_session()
        processes: Any = (await control.send("SystemInfo.getProcessInfo"))["processInfo"]
    except BaseException as error:
        with suppress(Exception):
            async with asyncio.timeout(ENDING):
                await driver.stop()
        remove_folder(folder)
        if isinstance(error, Error):
            raise EnvironmentDiedError(f"Chromium ({program}) did not start: {str(error)[:500]}") from error
        raise
    pid = next(int(one["id"]) for one in processes if one["type"] == "browser")
    return Chromium(driver, browser, control, pid, folder, running=process(pid), serving=driver_of(pid))
