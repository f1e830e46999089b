"""Starting one Chromium with its driver, so that neither outlives this process, and nothing gets out of it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import EnvironmentDiedError, UsageError

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
    """

    driver: Playwright
    browser: Browser
    control: CDPSession
    pid: int
    made: int = 0
    open: int = 0
    retired: bool = False
    _ending: asyncio.Future[None] | None = field(default=None, repr=False)

    @property
    def alive(self) -> bool:
        """Whether it answers, as far as is known."""
        return self._ending is None and self.browser.is_connected()

    async def close(self) -> None:
        """End it; may be called again, and waits for the end in any case."""
        if self._ending is not None:
            await asyncio.shield(self._ending)
            return
        self._ending = asyncio.get_running_loop().create_future()
        try:
            for end in (self.browser.close, self.driver.stop):
                with suppress(Exception):  # it may be dead, or dying
                    await asyncio.wait_for(end(), 10)
        finally:
            self._ending.set_result(None)


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
    return Chromium(driver, browser, control, next(int(one["id"]) for one in processes if one["type"] == "browser"))


def memory(pid: int, kind: str = "resident") -> int:
    """Bytes of a process and all below it; 0 where there is no ``/proc``.

    Args:
        pid: of the first.
        kind: ``"resident"``, which counts what several share for each of them, or ``"shared"`` (PSS), which does not
            and takes milliseconds for every process.
    """
    return sum(map(_shared if kind == "shared" else _resident, below(pid)))


def below(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for number, parent in _parents():
        children.setdefault(parent, []).append(number)
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def _resident(pid: int) -> int:
    return _read(pid, "statm", lambda text: int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE"))


def _shared(pid: int) -> int:
    return _read(pid, "smaps_rollup", lambda text: int(text.split("Pss:")[1].split()[0]) * 1024)


def _read(pid: int, name: str, size: Callable[[str], int]) -> int:
    try:
        return size(Path(f"/proc/{pid}/{name}").read_text())
    except (OSError, ValueError, IndexError):  # it has ended meanwhile
        return 0
