"""``WebEnv``: web sites in a browser, judged by what has become of the rows behind them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ...errors import ToolError, UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng, stable_hash
from ...tasks.rows.judge import Ending, judge
from ...tasks.score import Score
from ...tasks.web.asking.accounts import account_of
from ...tasks.web.asking.levels import LEVELS, LONGEST, turns_of
from ...tasks.web.asking.task import WebTask
from ...tasks.web.catalogue import IDLE, SITES
from ...tasks.web.family import WEB_FAMILY, WebFamily, open_sites, shown
from ...tasks.web.site.sites import Sites, host_of
from ..base import NearMiss
from ..contract import Contract
from ..fork import Forks
from ..messages import ActionLike, ObservationLike, ToolCall
from .attacks import attacks_on
from .browser import Browser, Wanted
from .html.browser import HtmlBrowser
from .near_misses import near_misses
from .oracle import next_action, solution
from .page import Page
from .recording.recorded import RecordedTools
from .walk import Did, did

Drawn = Literal["html", "chromium"]
ENDING = (
    "When the task is done, send the user a message with the answer, as short as possible: numbers without units, dates"
    " as 2024-03-09. If there was no question, send any message. If the task cannot be done, report that it is"
    " infeasible and give the fact that shows it."
)
INSTEAD = "record with browser='chromium' (turnwise/Web-v1); what was played without it can be replayed there"


@dataclass(frozen=True)
class Place:
    """Where an episode is, for a fork without a window."""

    work: WebTask
    sites: Sites
    browser: HtmlBrowser
    page: Page
    ending: Ending | None
    did: tuple[Did, ...]
    turns: int
    first: str


class WebEnv(RecordedTools[WebTask]):
    """Work on web sites in a browser. The agent ends its task with ``send_msg_to_user``, or with ``report_infeasible``.

    Args:
        browser: ``"html"``: pages are read without a browser; ``"chromium"``: a real one.
        observation: ``"axtree"``: roles and names, as a screen reader tells them; ``"html"``: simplified source.
        screenshot: a picture with every observation; only Chromium draws.
        marks: the ids of elements are drawn into the picture.
        templates: only tasks of these templates.
        brief: begin with what is asked, and nothing else; for models to which every word is dear.
        record: a folder for recordings of the episodes, for people; only Chromium draws.
        trace: a recording has Playwright's trace, too.
        max_turns: of an episode; omitted, what the level allows.
        render_mode: of Gymnasium.

    Raises:
        UsageError: no such browser or observation, or no such template; or nothing can be recorded.
    """

    family: TaskFamily[WebTask] | None = WEB_FAMILY
    blocking = False
    forks = Forks.SNAPSHOT
    max_turns = LONGEST
    contract = Contract(max_observation_chars=40_000, random_floor=0.01)

    work: WebTask | None = None
    sites: Sites
    _first: str = ""
    """The address of the page on which the episode began."""
    _did: tuple[Did, ...] = ()
    _planned: tuple[Did, ...] | None = None

    def __init__(
        self,
        *,
        browser: Drawn = "html",
        observation: Literal["axtree", "html"] = "axtree",
        screenshot: bool = False,
        marks: bool = False,
        templates: Sequence[str] | None = None,
        brief: bool = False,
        record: Path | str | None = None,
        trace: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if browser not in ("html", "chromium"):
            raise UsageError(f"pages are shown by 'html' or 'chromium'; got {browser!r}")
        if observation not in ("axtree", "html"):
            raise UsageError(f"pages are seen as 'axtree' or 'html'; got {observation!r}")
        if browser == "html" and (screenshot or marks):
            raise UsageError("browser='html' draws nothing: ask for screenshots with browser='chromium'")
        if browser == "html" and (record is not None or trace):
            raise UsageError(f"browser='html' draws nothing: {INSTEAD}")
        self.record_into(record, trace=trace)
        self.drawn, self.brief = browser, brief
        self.wanted = Wanted(source=observation == "html", picture=screenshot or marks, marks=marks)
        if browser == "chromium":
            self.forks = Forks.REPLAY
        self._limited = max_turns is not None
        if templates is not None:
            self.tasks = partial(WebFamily.only, templates)  # type: ignore[method-assign]
            self.tasks()  # whoever names a template that is not there hears of it here
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    # -- the episode ------------------------------------------------------------------------------------------------

    def start(self, task: WebTask, rng: Rng) -> ObservationLike | Awaitable[ObservationLike]:
        """Open the first site of the task, and say what is asked."""
        return self._start(task)

    async def _start(self, task: WebTask) -> ObservationLike:
        self.work = task
        self.sites = open_sites(self.task, task)
        self.ending, self._did, self._planned = None, (), None
        if not self._limited:
            self.max_turns = turns_of(task.level, self.work.kind)
        self._first = f"http://{host_of(next(site for site in SITES if site.name == self.work.sites[0]))}/"
        await self.leave()
        self.browser = await self._browser(self._first)
        self.page = await self.browser.look(self.wanted)
        asked = self.work.prompt if self.brief else f"{self._introduction()}\n\n{self.work.prompt}"
        return self.seen(asked)

    async def _browser(self, url: str) -> Browser:
        if self.drawn == "html":
            return HtmlBrowser(self.sites, url)
        from .chromium.browser import open_browser  # Playwright is an extra

        return await open_browser(self.sites, url, trace=self.begin_recording())

    def _introduction(self) -> str:
        assert self.work is not None
        names = shown(self.work)
        lines = [f"- http://{site.name}.test/ {site.title}: {site.about}" for site in SITES if site.name in names]
        if LEVELS[self.work.level].login:
            for number, name in enumerate(names):
                row = account_of(self.sites.db, name)
                lines[number] += f" Your account: {row['username']}, password {row['password']}"
        who = account_of(self.sites.db, names[0])["name"]
        head = f"You work for {who} in a web browser. It is {self.sites.rules.now:%A, %Y-%m-%d}. These are the sites:"
        return "\n".join((head, *lines, ENDING))

    def seen(self, said: str = "") -> ObservationLike:
        """The observation of the page in front.

        Args:
            said: before it.
        """
        return self.observed(said)

    def turns_at(self, level: int) -> int:
        """What the level allows, for tasks on one site."""
        return self.max_turns if self._limited else LEVELS[level].turns

    def judge(self) -> Score:
        """Which rows changed as they must, which should not have, and whether the end is right."""
        assert self.work is not None
        violations = tuple(f"left the sites: {one}" for one in self.browser.violations)
        ending = self.ending
        if ending is not None and ending.reason is not None and self.work.refusal is not None:
            ending = Ending(reason=self.work.refusal.reason, evidence=ending.evidence)
        return judge(self.work, self.sites.changes(), ending, IDLE, violations)

    # -- for certification, demonstrations and forks ----------------------------------------------------------------

    def oracle(self) -> ActionLike:
        """The next act of the solution."""
        return next_action(self.plan(), self._did, self.page, first_url=self._first)

    def plan(self) -> tuple[Did, ...]:
        """How the task is solved from its beginning."""
        if self._planned is None:
            assert self.work is not None
            self._planned = solution(self.work, self._beginning(), self._accounts())
        return self._planned

    def _beginning(self) -> HtmlBrowser:
        """Return another browser at the beginning of the task."""
        assert self.work is not None
        return HtmlBrowser(open_sites(self.task, self.work), self._first)

    def _accounts(self) -> dict[str, tuple[str, str]]:
        rows = {site.name: account_of(self.sites.db, site.name) for site in SITES}
        return {name: (str(row["username"]), str(row["password"])) for name, row in rows.items()}

    def acted(self, calls: Sequence[ToolCall]) -> None:
        """Remember which acts of the solution were done."""
        self._did = (*self._did, *(did(call, self.page) for call in calls))

    def near_misses(self) -> Mapping[str, NearMiss]:
        """What almost solves the task, and cheats."""
        assert self.work is not None
        return near_misses(self.work, self.plan())

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return forms at their bounds, odd URLs and keys, tabs and history without end, and everything twice."""
        assert self.work is not None
        names = shown(self.work)
        return attacks_on(self._beginning(), [site for site in SITES if site.name in names])

    def secrets(self) -> Sequence[str]:
        """What only looking can tell."""
        return self.work.secrets if self.work is not None else ()

    def best_return(self) -> float:
        """Success."""
        return 1.0

    def state_key(self) -> str:
        """What has changed, and what is seen."""
        changes = json.dumps([[change.table, change.id, change.after] for change in self.sites.changes()])
        return stable_hash(changes, self.page.url, self.page.text, repr(self.ending)).hex()[:32]

    def snapshot(self) -> Place:
        """The episode as a value; the rows in it are copied."""
        assert self.work is not None
        if not isinstance(self.browser, HtmlBrowser):
            raise ToolError("an environment with a browser window cannot be copied; fork it by replay")
        sites = self.sites.fork()
        return Place(
            self.work, sites, self.browser.fork(sites), self.page, self.ending, self._did, self.max_turns, self._first
        )

    def restore(self, snapshot: Place) -> None:
        """Go on from a snapshot, which stays as it is."""
        self.work, self.sites = snapshot.work, snapshot.sites.fork()
        self.browser = snapshot.browser.fork(self.sites)
        self.page, self.ending, self._did = snapshot.page, snapshot.ending, snapshot.did
        self.max_turns, self._planned, self._first = snapshot.turns, None, snapshot.first

    def _tasks(self) -> WebFamily:
        family = self.tasks()
        assert isinstance(family, WebFamily)
        return family
