"""The oracle of web tasks: it finds the solution on a second browser, and repeats it on the agent's pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tasks.web.templates.task import WebTask
from ..messages import ToolCall
from .html.browser import HtmlBrowser
from .page import Page
from .page_driver import PageDriver, UiAction


def solution(work: WebTask, browser: HtmlBrowser, accounts: Mapping[str, tuple[str, str]]) -> tuple[UiAction, ...]:
    """Return the actions that solve a task from its start.

    Args:
        work: the task.
        browser: a browser without a window, at the beginning of the task.
        accounts: user name and password by site.
    """
    driver = PageDriver(browser, accounts)
    work.solve(driver)
    return tuple(driver.actions)


def next_action(acts: Sequence[UiAction], done: Sequence[UiAction], page: Page, *, first_url: str) -> ToolCall:
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
        if act.element is not None and not act.element.is_on(page):  # the episode has left the way of the solution
            return ToolCall("go_back") if page.url != first_url else ToolCall("noop")
        return ToolCall(*act.call(page))
    return ToolCall("noop")
