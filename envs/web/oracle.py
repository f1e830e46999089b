"""The oracle of web tasks: it finds the solution on a second browser, and repeats it on the agent's pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tasks.web.templates.task import WebTask
from ..messages import ToolCall
from .html.browser import HtmlBrowser
from .page import Page
from .walk import Did, PageWalk


def solution(work: WebTask, browser: HtmlBrowser, accounts: Mapping[str, tuple[str, str]]) -> tuple[Did, ...]:
    """Return the actions that solve a task from its start.

    Args:
        work: the task.
        browser: a browser without a window, at the beginning of the task.
        accounts: user name and password by site.
    """
    walk = PageWalk(browser, accounts)
    work.solve(walk)
    return tuple(walk.did)


def next_action(acts: Sequence[Did], done: Sequence[Did], page: Page, *, first_url: str) -> ToolCall:
    """Return the first action of a solution that is not done yet.

    Args:
        acts: the solution.
        done: the acts of the episode so far, in any order.
        page: the page in front.
        first_url: the URL on which the episode began.
    """
    past = list(done)
    for act in acts:
        if act in past:
            past.remove(act)
            continue
        if act.aim is not None and not act.aim.is_on(page):  # the episode has left the way of the solution
            return ToolCall("go_back") if page.url != first_url else ToolCall("noop")
        return ToolCall(*act.call(page))
    return ToolCall("noop")
