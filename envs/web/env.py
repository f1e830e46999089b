"""``WebEnv``: web sites in a browser, judged by the final rows of their database."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from ...errors import ToolError, UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng, stable_hash
from ...tasks.rows.judge import Ending, judge
from ...tasks.score import Score
from ...tasks.web.family import WEB_FAMILY, WebFamily, open_sites, shown
from ...tasks.web.levels import LEVELS, LONGEST, turns_of
from ...tasks.web.simulators.accounts import account_of
from ...tasks.web.simulators.catalogue import IDLE, SITES
from ...tasks.web.simulators.sites import Sites, host_of
from ...tasks.web.templates.task import WebTask
from ..base import NearMiss, Stepped
from ..contract import Contract
from ..fork import Forks
from ..messages import ActionLike, ObservationLike, ToolCall
from ..step import CHANGES, Step
from .attacks import attacks_on
from .browser import Browser, Wanted
from .html.browser import HtmlBrowser
from .near_misses import near_misses
from .oracle import next_action, solution
from .page import Page
from .page_driver import UiAction, ui_action
from .recording.recorded import RecordedTools

Drawn = Literal["html", "chromium"]
ENDING = (
    "When the task is done, send the user a message with the answer, as short as possible: numbers without units, dates"
    " as 2024-03-09. If there was no question, send any message. If the task cannot be done, report that it is"
    " infeasible and give the fact that shows it."
)
INSTEAD = "record with browser='chromium' (turnwise/Web-v1); what was played without it can be replayed there"


@dataclass(frozen=True)
class WebSnapshot:
    """State of an episode, as stored by a fork without a browser window."""

    work: WebTask
    sites: Sites
    browser: HtmlBrowser
    page: Page
    ending: Ending | None
    did: tuple[UiAction, ...]
    turns: int
    first: str


class WebEnv(RecordedTools[WebTask]):
    """Work on web sites in a browser. The agent ends its task with ``send_msg_to_user``, or with ``report_infeasible``.

    Args:
        browser: ``"html"``: read pages without a browser; ``"chromium"``: use a real one.
        observation: ``"axtree"``: roles and names, as a screen reader reports them; ``"html"``: simplified source.
        screenshot: add a screenshot to every observation; needs Chromium.
        marks: draw the ids of elements into the screenshot.
        templates: names of the templates to draw tasks from; omitted, all.
        brief: begin with the request alone, without an introduction; for models with a short context.
        record: folder for recordings of the episodes, for human viewers; needs Chromium.
        trace: add Playwright's trace to each recording.
        max_turns: limit of actions per episode; omitted, the level's own.
        render_mode: Gymnasium's render mode.

    Raises:
        UsageError: the browser, the observation or a template is unknown, or recording is impossible.
    """

    family: TaskFamily[WebTask] | None = WEB_FAMILY
    blocking = False
    forks = Forks.SNAPSHOT
    max_turns = LONGEST
    contract = Contract(max_observation_chars=40_000, random_floor=0.01)

    work: WebTask | None = None
    sites: Sites
    _first: str = ""
    """URL of the first page of the episode."""
    _did: tuple[UiAction, ...] = ()
    _planned: tuple[UiAction, ...] | None = None

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
            self.tasks()  # fails here if a template is unknown
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    # -- the episode ------------------------------------------------------------------------------------------------

    def start(self, task: WebTask, rng: Rng) -> ObservationLike | Awaitable[ObservationLike]:
        """Open the task's first site and return the request."""
        return self._start(task)

    async def _start(self, task: WebTask) -> ObservationLike:
        self.work = task
        self.sites = open_sites(self.task, task)
        self.ending, self._did, self._planned = None, (), None
        if not self._limited:
            self.max_turns = turns_of(task.level, self.work.kind)
        self._first = f"http://{host_of(next(site for site in SITES if site.name == self.work.needs[0]))}/"
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
        """Return the observation of the current page.

        Args:
            said: text to put before it.
        """
        return self.observed(said)

    def turns_at(self, level: int) -> int:
        """Return the turn limit of a level, for tasks on one site."""
        return self.max_turns if self._limited else LEVELS[level].turns

    def judge(self) -> Score:
        """Score the rows that had to change, those that must not change, and the way in which the episode ended."""
        assert self.work is not None
        violations = tuple(f"left the sites: {one}" for one in self.browser.violations)
        ending = self.ending
        if ending is not None and ending.reason is not None and self.work.refusal is not None:
            ending = Ending(reason=self.work.refusal.reason, evidence=ending.evidence)
        return judge(self.work, self.sites.changes(), ending, IDLE, violations)

    def _stepped(self, step: Step) -> Stepped:
        changes = self.sites.latest()
        return super()._stepped(replace(step, info={**step.info, CHANGES: changes}) if changes else step)

    # -- for certification, demonstrations and forks ----------------------------------------------------------------

    def oracle(self) -> ActionLike:
        """Return the next action of the solution."""
        return next_action(self.plan(), self._did, self.page, first_url=self._first)

    def plan(self) -> tuple[UiAction, ...]:
        """Return the solution of the task from its start; computed on first use."""
        if self._planned is None:
            assert self.work is not None
            self._planned = solution(self.work, self._beginning(), self._accounts())
        return self._planned

    def _beginning(self) -> HtmlBrowser:
        """Return another browser at the start of the task."""
        assert self.work is not None
        return HtmlBrowser(open_sites(self.task, self.work), self._first)

    def _accounts(self) -> dict[str, tuple[str, str]]:
        rows = {site.name: account_of(self.sites.db, site.name) for site in SITES}
        return {name: (str(row["username"]), str(row["password"])) for name, row in rows.items()}

    def acted(self, calls: Sequence[ToolCall]) -> None:
        """Record the agent's calls, to know which actions of the solution are done."""
        self._did = (*self._did, *(ui_action(call, self.page) for call in calls))

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return plays that almost solve the task, and cheats."""
        assert self.work is not None
        return near_misses(self.work, self.plan())

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return hostile inputs: extreme form values, odd URLs and keys, endless tabs, and repeated actions."""
        assert self.work is not None
        names = shown(self.work)
        return attacks_on(self._beginning(), [site for site in SITES if site.name in names])

    def secrets(self) -> Sequence[str]:
        """Return facts that the agent can learn only by looking."""
        return self.work.secrets if self.work is not None else ()

    def best_return(self) -> float:
        """Return the best return: 1 for success."""
        return 1.0

    def state_key(self) -> str:
        """Return a key for the changed rows and the visible page."""
        changes = json.dumps([[change.table, change.id, change.after] for change in self.sites.changes()])
        return stable_hash(changes, self.page.url, self.page.text, repr(self.ending)).hex()[:32]

    def snapshot(self) -> WebSnapshot:
        """Return the episode's state, with a copy of its rows."""
        assert self.work is not None
        if not isinstance(self.browser, HtmlBrowser):
            raise ToolError("an environment with a browser window cannot be copied; fork it by replay")
        sites = self.sites.fork()
        return WebSnapshot(
            self.work, sites, self.browser.fork(sites), self.page, self.ending, self._did, self.max_turns, self._first
        )

    def restore(self, snapshot: WebSnapshot) -> None:
        """Continue from a snapshot, which does not change."""
        self.work, self.sites = snapshot.work, snapshot.sites.fork()
        self.browser = snapshot.browser.fork(self.sites)
        self.page, self.ending, self._did = snapshot.page, snapshot.ending, snapshot.did
        self.max_turns, self._planned, self._first = snapshot.turns, None, snapshot.first

    def _tasks(self) -> WebFamily:
        family = self.tasks()
        assert isinstance(family, WebFamily)
        return family
