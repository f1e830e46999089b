"""``HtmlBrowser``: a browser without window, scripts or network, which calls the sites and parses their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from ....errors import ToolError
from ....tasks.web.simulators.http import Request, Response, Values
from ....tasks.web.simulators.sites import Sites
from ..browser import MOST_TABS, Button, Wanted, one_more, stay
from ..keys import pressed
from ..page import FIELDS, Page, with_ids
from .document import BOXES, Document, Element, address, sends

REDIRECTS = 10
"""Most redirects of one navigation."""


@dataclass
class Tab:
    """One tab and its history.

    Args:
        past: URLs, oldest first.
        now: index of the current URL.
        page: the current page.
    """

    past: list[str] = field(default_factory=lambda: ["about:blank"])
    now: int = 0
    page: Document = field(default_factory=lambda: Document("", "about:blank"))


class HtmlBrowser:
    """A browser without scripts that keeps tabs, histories, cookies and the contents of fields, all as values to copy.

    Args:
        sites: the sites that it can reach.
        url: URL of the first page.
    """

    def __init__(self, sites: Sites, url: str) -> None:
        self.sites = sites
        self.notices: list[str] = []
        self.violations: list[str] = []
        self.tabs, self.front = [Tab()], 0
        self.cookies: dict[str, dict[str, str]] = {host: {"session": token} for host, token in sites.cookies.items()}
        self._open("GET", url)
        self.tab.past, self.tab.now = self.tab.past[1:], 0

    @property
    def tab(self) -> Tab:
        """The current tab."""
        return self.tabs[self.front]

    # -- navigation -------------------------------------------------------------------------------------------------

    async def goto(self, url: str) -> None:
        """Open a URL."""
        self.open(url)

    def open(self, url: str) -> None:
        """Open a URL, which must belong to one of the sites.

        Raises:
            ToolError: the URL leads elsewhere.
        """
        stay("goto", url, self.sites.hosts, self.violations)
        self._open("GET", url)

    async def go_back(self) -> None:
        """Go back one page."""
        self._travel(-1)

    async def go_forward(self) -> None:
        """Go forward one page."""
        self._travel(1)

    def _travel(self, by: int) -> None:
        tab = self.tab
        if not 0 <= tab.now + by < len(tab.past):
            raise ToolError(f"there is no page to go {'back' if by < 0 else 'forward'} to")
        tab.now += by
        self._load("GET", tab.past[tab.now], "")

    def _open(self, method: str, url: str, sent: str = "") -> None:
        tab = self.tab
        came = self._load(method, url, sent)
        del tab.past[tab.now + 1 :]
        if came != tab.past[tab.now]:
            tab.past.append(came)
        tab.now = len(tab.past) - 1

    def _load(self, method: str, url: str, sent: str) -> str:
        """Request a page, follow redirects, show the result, and return its URL."""
        for _ in range(REDIRECTS):
            if url == "about:blank":
                self.tab.page = Document("", url)
                return url
            answer, at = self._ask(method, url, sent), url
            if not answer.location:
                self.tab.page = Document(answer.body, at)
                return at
            url, method, sent = urljoin(url, answer.location), "GET", ""
        raise ToolError("this URL redirects too often")

    def _ask(self, method: str, url: str, sent: str) -> Response:
        parts = urlsplit(urldefrag(url).url)
        host = parts.netloc.lower()
        jar = self.cookies.setdefault(host, {})
        request = Request(method, host, unquote(parts.path) or "/", Values.of(parts.query), Values.of(sent), dict(jar))
        answer = self.sites.handle(request)
        jar.update(answer.cookies)
        return answer

    # -- on the page ------------------------------------------------------------------------------------------------

    def _element(self, ref: str) -> Element:
        found = self.tab.page.element(ref)
        if found is None:
            raise ToolError("the page has changed and no longer has this element")
        if found.get("disabled") is not None:
            raise ToolError("this element is disabled")
        return found

    async def click(self, ref: str, button: Button = "left", *, double: bool = False) -> None:
        """Click an element; the middle button opens a link in a new tab."""
        element = self._element(ref)
        if button == "left":
            self.clicked(element)
        elif button == "middle" and (link := _link(element)) is not None:
            self._follow(str(link.get("href")), new=True)

    def clicked(self, element: Element) -> None:
        """Perform a click without scripts: follow a link, send a form, or check a checkbox."""
        page = self.tab.page
        page.focus = page.ref(element)
        link = _link(element)
        if link is not None:
            self._follow(str(link.get("href")), new=link.get("target") == "_blank")
        elif sends(element) and (form := page.form(element)) is not None:
            self._submit(form, element)
        elif element.tag == "input" and element.get("type") in BOXES:
            self._set(element, element.get("type") == "radio" or not page.is_checked(element))
        elif element.tag == "label" and (wanted := element.get("for")):
            target = page.root.get_element_by_id(wanted, None)
            if target is not None and target.get("type") in BOXES:
                self.clicked(target)

    def _follow(self, href: str, *, new: bool) -> None:
        url = urljoin(self.tab.page.url, href.strip())
        stay("a link to", url, self.sites.hosts, self.violations)
        if new and len(self.tabs) >= MOST_TABS:
            self.notices.append("a new window was closed")
            return
        if new:
            self.tabs.append(Tab())
            self.front = len(self.tabs) - 1
        if new or urldefrag(url).url != urldefrag(self.tab.page.url).url or "#" not in href:
            self._open("GET", url)

    def _submit(self, form: Element, by: Element | None) -> None:
        page = self.tab.page
        method, action, sent = address(form, page.sent(form, by))
        url = urljoin(page.url, action) if action else page.url
        stay("a form for", url, self.sites.hosts, self.violations)
        self._open(method, url, sent)

    def _set(self, element: Element, on: bool) -> None:
        page = self.tab.page
        if element.get("type") == "radio" and on:
            for other in page.group(element):
                page.checked[page.ref(other)] = False
        page.checked[page.ref(element)] = on

    async def hover(self, ref: str) -> None:
        """Accept and do nothing: there are no scripts."""
        self._element(ref)

    async def focus(self, ref: str) -> None:
        """Focus an element."""
        self._element(ref)
        self.tab.page.focus = ref

    async def fill(self, ref: str, value: str) -> None:
        """Replace the content of a field."""
        element, page = self._element(ref), self.tab.page
        if page._role(element) not in ("textbox", "searchbox", "spinbutton"):
            raise ToolError("this element does not accept text")
        if element.get("readonly") is not None:
            raise ToolError("this field cannot be changed")
        if element.get("type") == "number" and not _number(value):
            raise ToolError(f"this field takes a number; {value[:40]!r} is not a number")
        page.values[ref] = value if element.tag == "textarea" else value.replace("\r", "").replace("\n", "")
        page.focus = ref

    async def check(self, ref: str, on: bool) -> None:
        """Check or uncheck a checkbox."""
        element = self._element(ref)
        if element.tag != "input" or element.get("type") not in BOXES:
            raise ToolError("this element is not a checkbox or radio button")
        if not on and element.get("type") == "radio":
            raise ToolError("a radio button cannot be unchecked; select another one instead")
        self._set(element, on)

    async def select_option(self, ref: str, options: Sequence[str]) -> None:
        """Choose options of a list by their labels or values."""
        element, page = self._element(ref), self.tab.page
        if element.tag != "select":
            raise ToolError("this element is not a list of options")
        known = [(value, " ".join(one.text_content().split())) for one, value in page.options(element)]
        wanted = []
        for option in options:
            found = next((value for value, label in known if option in (value, label)), None)
            if found is None:
                raise ToolError(
                    f"there is no option {option[:60]!r}; the options are {', '.join(label for _, label in known)}"
                )
            wanted.append(found)
        if len(wanted) > 1 and element.get("multiple") is None:
            raise ToolError("only one option can be selected in this list")
        page.chosen[ref] = tuple(wanted)

    async def press(self, ref: str, keys: str) -> None:
        """Press a key: Enter sends the form of a field, Space or Enter activates a button, and a character is typed."""
        self._press(ref, pressed(keys))

    def _press(self, ref: str, key: str) -> None:
        page = self.tab.page
        ref = ref or page.focus
        element = self._element(ref) if ref else None
        if element is None or (len(key) > 1 and key not in ("Enter", "Backspace", "Delete")):
            return
        page.focus = ref
        writes = page._role(element) in FIELDS and element.tag != "select" and element.get("type") not in BOXES
        if key == "Enter" and writes and element.tag != "textarea":
            form = page.form(element)
            if form is not None and ((by := page.submit_button(form)) is not None or _alone(form)):
                self._submit(form, by)
        elif key in ("Enter", " ") and not writes:
            self.clicked(element)
        elif writes:
            now = page.value(element)
            page.values[ref] = (
                now[:-1] if key == "Backspace" else now if key == "Delete" else now + key.replace("Enter", "\n")
            )

    async def type(self, text: str) -> None:
        """Type into the focused field."""
        for letter in text:
            self._press("", "Enter" if letter in "\r\n" else letter)

    async def drag(self, source: str, target: str) -> None:
        """Accept and do nothing: there are no scripts."""
        self._element(source), self._element(target)

    async def mouse(self, x: float, y: float, button: Button = "left", *, double: bool = False) -> None:
        """Refuse: elements have no positions."""
        raise ToolError("this browser does not render pages, so it cannot click at a point; click an element instead")

    async def scroll(self, dx: float, dy: float) -> None:
        """Accept and do nothing: the whole page is visible."""

    async def new_tab(self) -> None:
        """Open an empty tab."""
        one_more(len(self.tabs))
        self.tabs.append(Tab())
        self.front = len(self.tabs) - 1

    async def tab_focus(self, number: int) -> None:
        """Switch to a tab by its index, from 0."""
        if not 0 <= number < len(self.tabs):
            raise ToolError(f"there is no tab {number}; the tabs are 0 to {len(self.tabs) - 1}")
        self.front = number

    async def tab_close(self) -> None:
        """Close the current tab."""
        if len(self.tabs) == 1:
            raise ToolError("the last tab cannot be closed")
        del self.tabs[self.front]
        self.front = min(self.front, len(self.tabs) - 1)

    async def rest(self, seconds: float) -> None:
        """Return at once: nothing happens by itself."""

    # -- what is seen -----------------------------------------------------------------------------------------------

    async def look(self, wanted: Wanted) -> Page:
        """Return the observation of the current tab."""
        if wanted.picture:
            raise ToolError("this browser does not render pages, so there is no screenshot")
        return self.seen(wanted)

    def seen(self, wanted: Wanted = Wanted()) -> Page:  # noqa: B008 - it is frozen
        """Return the observation of the current tab, for synchronous code."""
        page = self.tab.page
        nodes = with_ids(page.nodes(), every=wanted.every)
        by_id = {node.id: node for top in nodes for node in top.walk() if node.id}
        titles = tuple(tab.page.title or tab.page.url for tab in self.tabs)
        source = page.text if wanted.source else ""
        return Page(page.url, page.title, nodes, titles, self.front, source, by_id=by_id)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    # -- as a value -------------------------------------------------------------------------------------------------

    def fork(self, sites: Sites) -> Self:
        """Return an independent browser in the same state, on a fork of this one's sites."""
        clone = object.__new__(type(self))
        clone.sites, clone.front = sites, self.front
        clone.notices, clone.violations = list(self.notices), list(self.violations)
        clone.cookies = {host: dict(jar) for host, jar in self.cookies.items()}
        clone.tabs = [Tab(list(tab.past), tab.now, _again(tab.page)) for tab in self.tabs]
        return clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork(self.sites.fork())


def _again(page: Document) -> Document:
    return Document(page.text, page.url, dict(page.values), dict(page.checked), dict(page.chosen), page.focus)


def _link(element: Element) -> Element | None:
    """Return the link that an element is or belongs to."""
    around = (element, *element.iterancestors())
    return next((one for one in around if one.tag == "a" and one.get("href")), None)


def _alone(form: Element) -> bool:
    """Return whether a form has a single text field, so that Enter sends it even without a button."""
    fields = [
        one
        for one in form.iter("input")
        if one.get("type", "text") in ("text", "search", "email", "number", "password")
    ]
    return len(fields) == 1


def _number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True
