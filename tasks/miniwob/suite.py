"""MiniWoB++'s tasks from the package ``miniwob``: HTML pages, each of which judges itself.

The names are listed here, so that they are known without the package. Turnwise uses only the package's pages: it
imports nothing of the package, and does not need Selenium, which the package requires.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...errors import TaskError, UsageError
from ..family import TaskFamily
from ..rng import Rng
from ..spec import Split, TaskSpec

INSTALL = "pip install 'turnwise[miniwob]'"
HOST = "miniwob.test"
"""Host name of the pages in URLs; nothing comes from a network."""
PAGES = """
    ascending-numbers bisect-angle book-flight book-flight-nodelay buy-ticket choose-date choose-date-easy
    choose-date-medium choose-date-nodelay choose-list circle-center click-button click-button-sequence
    click-checkboxes click-checkboxes-large click-checkboxes-soft click-checkboxes-transfer click-collapsible
    click-collapsible-2 click-collapsible-2-nodelay click-collapsible-nodelay click-color click-dialog
    click-dialog-2 click-link click-menu click-menu-2 click-option click-pie click-pie-nodelay click-scroll-list
    click-shades click-shape click-tab click-tab-2 click-tab-2-easy click-tab-2-hard click-tab-2-medium click-test
    click-test-2 click-test-transfer click-widget copy-paste copy-paste-2 count-shape count-sides daily-calendar
    drag-box drag-circle drag-cube drag-items drag-items-grid drag-shapes drag-shapes-2 drag-single-shape
    drag-sort-numbers draw-circle draw-line email-inbox email-inbox-delete email-inbox-forward
    email-inbox-forward-nl email-inbox-forward-nl-turk email-inbox-important email-inbox-nl-turk
    email-inbox-noscroll email-inbox-reply email-inbox-star-reply enter-date enter-password enter-text
    enter-text-2 enter-text-dynamic enter-time find-greatest find-midpoint find-word flight.AA flight.Alaska
    flight.Alaska-auto focus-text focus-text-2 form-sequence form-sequence-2 form-sequence-3 generate-number
    grid-coordinate guess-number highlight-text highlight-text-2 hot-cold identify-shape login-user
    login-user-popup multi-layouts multi-orderings navigate-tree number-checkboxes odd-or-even order-food
    phone-book read-table read-table-2 resize-textarea right-angle scroll-text scroll-text-2 search-engine
    sign-agreement simple-algebra simple-arithmetic social-media social-media-all social-media-some stock-market
    terminal text-editor text-transform tic-tac-toe unicode-test use-autocomplete use-autocomplete-nodelay
    use-colorwheel use-colorwheel-2 use-slider use-slider-2 use-spinner visual-addition
"""
TASKS: tuple[str, ...] = tuple(PAGES.split())
"""The 128 tasks that miniwob 1.1.0 registers, by their own names."""
WITH_TEST = frozenset(
    {
        "click-checkboxes-transfer",
        "click-test-transfer",
        "email-inbox-forward-nl",
        "email-inbox-forward-nl-turk",
        "email-inbox-nl-turk",
        "flight.AA",
        "flight.Alaska",
        "flight.Alaska-auto",
    }
)
"""Tasks whose pages reserve data for testing (upstream's ``data_mode="test"``)."""


@dataclass(frozen=True, slots=True)
class MiniwobTask:
    """One task.

    Args:
        name: name of the page, such as ``click-test-2``.
        seed: seed of the page's random numbers, as upstream's driver sets it.
        mode: ``train`` or ``test``, upstream's ``data_mode``.
    """

    name: str
    seed: int
    mode: str

    @property
    def path(self) -> str:
        """Path of the page below the package's HTML folder."""
        site, _, page = self.name.partition(".")
        return f"flight/{page}/wrapper.html" if site == "flight" else f"miniwob/{self.name}.html"


class MiniwobFamily(TaskFamily[MiniwobTask]):
    """One page: seed n is the episode of upstream's ``reset(seed=n)``.

    Args:
        page: one of ``TASKS``.

    Raises:
        UsageError: the page is unknown.
    """

    def __init__(self, page: str) -> None:
        if page not in TASKS:
            raise UsageError(
                f"MiniWoB has no task {page!r}; there are {', '.join(TASKS[:4])} and {len(TASKS) - 4} more"
            )
        self.page = page
        self.name = f"miniwob-{page.lower()}"
        self.splits = (Split.TRAIN, Split.TEST_TEMPLATE) if page in WITH_TEST else (Split.TRAIN,)

    def build(self, spec: TaskSpec, rng: Rng) -> MiniwobTask:
        """Return the task; all randomness is the page's own."""
        return MiniwobTask(self.page, spec.seed, "train" if spec.split is Split.TRAIN else "test")

    def __reduce__(self) -> Any:
        return (MiniwobFamily, (self.page,))


@lru_cache(maxsize=len(TASKS))
def family_of(page: str) -> MiniwobFamily:
    """Return the family of a page."""
    return MiniwobFamily(page)


def id_of(page: str) -> str:
    """Return the id of a page's environment: ``click-test-2`` is ``turnwise/MiniWoB-ClickTest2-v1``."""
    words = page.replace(".", "-").split("-")
    return f"turnwise/MiniWoB-{''.join(word[:1].upper() + word[1:] for word in words)}-v1"


@lru_cache(maxsize=1)
def installed() -> Path:
    """Return the HTML folder of the installed package.

    Raises:
        UsageError: the package is not installed; the message says how to install it.
    """
    found = importlib.util.find_spec("miniwob")
    places = found.submodule_search_locations if found else None
    if not places:
        raise UsageError(f"MiniWoB needs the package miniwob: {INSTALL}")
    folder = Path(next(iter(places))) / "html"
    if not (folder / "core" / "core.js").is_file():
        raise UsageError(f"this miniwob has no pages in {folder}; 1.1.0 has: {INSTALL}")
    return folder


def page_of(task: MiniwobTask) -> Path:
    """Return the file of a task's page.

    Raises:
        TaskError: this version of the package does not have it.
    """
    file = installed() / task.path
    if not file.is_file():
        raise TaskError(f"this miniwob has no {task.path}; 1.1.0 has: {INSTALL}")
    return file
