"""Walk a solution through pages: read facts, and record actions in terms that hold on every page an agent sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ContractError
from ...tasks.web.templates.walk import Entry
from ..background import completed
from ..messages import ToolCall
from .html.browser import HtmlBrowser
from .page import FIELDS, Node, Page

PATIENCE = 40
"""Most pages of a listing to go through."""


@dataclass(frozen=True)
class ElementRef:
    """An element described without its id.

    Args:
        role: ARIA role of the element.
        name: accessible name of the element.
        nth: index among the elements with this role and name, from 0, in reading order.
    """

    role: str
    name: str
    nth: int = 0

    def is_on(self, page: Page) -> bool:
        """Return whether the page has such an element."""
        return self.nth < len(page.find(self.role, self.name))

    def on(self, page: Page) -> Node:
        """Return the element of a page.

        Raises:
            ContractError: the element is missing: the solution does not fit the page.
        """
        found = page.find(self.role, self.name)
        if not self.is_on(page):
            raise ContractError(f"there is no {self.role} {self.name!r} ({self.nth}) on {page.url}")
        return found[self.nth]


@dataclass(frozen=True)
class UiAction:
    """An action of a solution.

    Args:
        name: name of the action, such as ``click``.
        element: the element, if the action has one.
        arguments: the other arguments.
    """

    name: str
    element: ElementRef | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def call(self, page: Page) -> tuple[str, dict[str, Any]]:
        """Return the action's name and arguments for the page that an agent sees."""
        at = {} if self.element is None else {"id": self.element.on(page).id}
        return self.name, {**at, **self.arguments}


def ui_action(call: ToolCall, page: Page) -> UiAction:
    """Return an agent's action in the terms of a solution.

    Args:
        call: tool call of the action.
        page: the page that the agent saw.
    """
    given: Any = call.arguments
    arguments = dict(given) if isinstance(given, Mapping) else {}
    node = page.by_id.get(str(arguments.get("id", "")))
    if node is None:
        return UiAction(call.name, None, arguments)
    del arguments["id"]
    return UiAction(call.name, element_ref(node, page), arguments)


def element_ref(node: Node, page: Page) -> ElementRef:
    """Return the description of an element of a page."""
    same = page.find(node.role, node.name)
    return ElementRef(node.role, node.name, next(number for number, one in enumerate(same) if one is node))


class PageDriver:
    """``Walk`` on a browser without a window, which records its actions.

    Args:
        browser: a browser at the start of the task.
        accounts: user name and password by site.
    """

    def __init__(self, browser: HtmlBrowser, accounts: Mapping[str, tuple[str, str]]) -> None:
        self._browser, self._accounts = browser, accounts
        self.actions: list[UiAction] = []
        self._page = browser.seen()

    # -- actions ----------------------------------------------------------------------------------------------------

    def word(self, what: str) -> str:
        """Return a label of the current site."""
        return self._browser.sites.rules.themes[self._site].word(what)

    @property
    def _site(self) -> str:
        return self._page.url.split("/")[2].split(".")[0]

    def goto(self, site: str, path: str = "/", *, member: bool = True) -> None:
        """Open a site, unless it is already open."""
        url = f"http://{site}.test{path}"
        if self._page.url != url:
            self._do(UiAction("goto", arguments={"url": url}))
        if member and self._page.find("link", self.word("login")):
            self.click(self.word("login"))
            if self._page.url != url:
                self._do(UiAction("goto", arguments={"url": url}))

    def click(self, name: str, *, within: Entry | None = None, first: bool = False) -> None:
        """Click the only link or button with this name."""
        inside = self._nodes(within)
        found = [one for one in inside if one.role in ("link", "button", "tab") and one.name == name]
        if not found or (len(found) > 1 and not first and within is None):
            raise ContractError(f"{len(found)} links or buttons are called {name!r} on {self._page.url}")
        self._do(UiAction("click", self._element(found[0])))

    def fill(self, label: str, text: str) -> None:
        """Fill in a field."""
        self._do(
            UiAction("fill", self._element(self._field(label, "textbox", "searchbox", "spinbutton")), {"value": text})
        )

    def choose(self, label: str, option: str) -> None:
        """Choose an option or a radio button."""
        group = next((one for one in self._page.find("group", label)), None)
        radios = self._page.find("radio", option, within=group) if group is not None else ()
        if radios:
            self._do(UiAction("click", self._element(radios[0])))
        else:
            self._do(
                UiAction("select_option", self._element(self._field(label, "combobox", "listbox")), {"options": option})
            )

    def check(self, label: str, on: bool = True) -> None:
        """Check or uncheck a checkbox."""
        box = self._field(label, "checkbox")
        if ("checked" in box.states) != on:
            self._do(UiAction("click", self._element(box)))

    def back(self) -> None:
        """Go back one page."""
        self._do(UiAction("go_back"))

    def answer(self, value: str | int | float | list[str] = "") -> None:
        """Send the user the answer."""
        text = ", ".join(value) if isinstance(value, list) else str(value)
        self.actions.append(UiAction("send_msg_to_user", arguments={"text": text or "Done."}))

    def refuse(self, evidence: str) -> None:
        """Report to the user that the task cannot be done."""
        self.actions.append(UiAction("report_infeasible", arguments={"reason": evidence}))

    def _do(self, act: UiAction) -> None:
        node = None if act.element is None else act.element.on(self._page)
        self.actions.append(act)
        browser = self._browser
        match act.name:
            case "goto":
                browser.open(act.arguments["url"])
            case "click":
                assert node is not None
                completed(browser.click(node.ref))
            case "fill":
                assert node is not None
                completed(browser.fill(node.ref, act.arguments["value"]))
            case "select_option":
                assert node is not None
                completed(browser.select_option(node.ref, [act.arguments["options"]]))
            case "go_back":
                completed(browser.go_back())
        self._page = browser.seen()
        if self._page.find("textbox", self.word("password")) and self._page.find("button", self.word("login")):
            username, password = self._accounts[self._site]
            self.fill_login(username, password)

    def fill_login(self, username: str, password: str) -> None:
        """Log in on the page that requires it."""
        for label, text in ((self.word("username"), username), (self.word("password"), password)):
            element = self._element(self._field(label, "textbox"))
            self.actions.append(UiAction("fill", element, {"value": text}))
            completed(self._browser.fill(element.on(self._page).ref, text))
        button = self._page.find("button", self.word("login"))[0]
        self.actions.append(UiAction("click", self._element(button)))
        completed(self._browser.click(button.ref))
        self._page = self._browser.seen()

    # -- reading ----------------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return the rows of the listing on this page."""
        return [entry for entry, _ in self._listing()]

    def all_entries(self) -> list[Entry]:
        """Return the rows of the listing on this page and all following ones."""
        found = self.entries()
        for _ in range(PATIENCE):
            if not self._page.find("link", self.word("next")):
                return found
            self.click(self.word("next"))
            found += self.entries()
        raise ContractError(f"the listing at {self._page.url} has no end")

    def entry(self, name: str) -> Entry:
        """Return the row with a name."""
        return self.seek(lambda one: one.name == name)

    def seek(self, wanted: Callable[[Entry], bool]) -> Entry:
        """Return the first row that satisfies a condition."""
        for _ in range(PATIENCE):
            found = next((one for one in self.entries() if wanted(one)), None)
            if found is not None:
                return found
            if not self._page.find("link", self.word("next")):
                break
            self.click(self.word("next"))
        raise ContractError(f"what is sought is not at {self._page.url}")

    def fact(self, label: str) -> str:
        """Return the value next to a label."""
        nodes = list(self._page.walk())
        for number, node in enumerate(nodes):
            if node.role == "term" and _says(node) == label:
                after = next((one for one in nodes[number + 1 :] if one.role == "definition"), None)
                if after is not None:
                    return _says(after)
        raise ContractError(f"there is no fact {label!r} on {self._page.url}")

    def sees(self, text: str) -> bool:
        """Return whether the page contains a text, ignoring case."""
        return text.casefold() in " ".join(node.text for node in self._page.nodes).casefold()

    def paragraphs(self) -> list[str]:
        """Return the paragraphs of the page."""
        return [_says(node) for node in self._page.walk() if node.role == "paragraph"]

    def _listing(self) -> Iterator[tuple[Entry, Node]]:
        main = next(iter(self._page.find("main")), None)
        tables = self._page.find("table", within=main)
        if tables:
            heads = [_says(one) for one in self._page.find("columnheader", within=tables[0])]
            for number, row in enumerate(one for one in tables[0].children if one.role == "row" and _cells(one)):
                cells = [_says(cell) for cell in _cells(row)]
                yield Entry(cells[0], dict(zip(heads[1:], cells[1:], strict=True)), number), row
            return
        number = 0
        for item in self._page.find("listitem", within=main):
            terms = [one for one in item.walk() if one.role in ("term", "definition")]
            if terms:
                name = " ".join(_says(one) for one in item.children if one.role not in ("term", "definition"))
                pairs = zip(terms[::2], terms[1::2], strict=True)
                yield Entry(name, {_says(term): _says(value) for term, value in pairs}, number), item
                number += 1

    def _nodes(self, within: Entry | None) -> Iterator[Node]:
        if within is None:
            return self._page.walk()
        for entry, node in self._listing():
            if entry.number == within.number and entry.name == within.name:
                return node.walk()
        raise ContractError(f"the row {within.name!r} is not on {self._page.url}")

    def _field(self, label: str, *roles: str) -> Node:
        found = [one for one in self._page.walk() if one.role in (roles or FIELDS) and one.name == label]
        if len(found) != 1:
            raise ContractError(f"{len(found)} fields are called {label!r} on {self._page.url}")
        return found[0]

    def _element(self, node: Node) -> ElementRef:
        return element_ref(node, self._page)


def _cells(row: Node) -> Sequence[Node]:
    return [one for one in row.children if one.role == "cell"]


def _says(node: Node) -> str:
    return re.sub(r"\s+", " ", node.text).strip()
