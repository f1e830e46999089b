"""Hostile inputs for a browser's episode: extreme form values, odd URLs and keys, tabs, history, and repeated actions.

No attack may end an episode as an infrastructure failure: the environment answers what exceeds a limit, and scores the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...errors import ToolError
from ...tasks.web.simulators.site import Site, routes
from ..messages import Action, ActionLike, ToolCall
from .html.browser import HtmlBrowser
from .page import FIELDS

VALUES: Mapping[str, str] = {
    "20,000 characters": "x" * 20_000,
    "what takes twelve bytes in a form": "🏴" * 20_000,
    "header lines": "a\r\nSet-Cookie: session=x\r\nLocation: http://elsewhere.test/\r\n\r\n<b>",
    "markup": "</textarea></form><script>while(1);</script><iframe src=/></iframe>{{7*7}}{% raw %}",
    "SQL": "'; DROP TABLE accounts; --",
    "no characters": "\uffff\ufdd0\x7f\x1b\x08\u202e\u2028\ufeff",
    "a number of 5,000 digits": "9" * 5_000,
    "signs of a query": "&=;+%00%ff%zz#?/\\" * 20,
    "another digit": "²",
    "a day that is none": "0000-00-00",
    "nothing": "",
    "blanks": " \t\n\r\x0b\x0c ",
    "less than nothing": "-1",
}
"""Values for form fields."""
PATHS = (
    "//", "/..", "/../../etc/passwd", "/%", "/%00", "/%ff", "/%2e%2e/", "/;x", "/?", "/#", "/?page=²", "/?page=-1",
    "/?page=99999999999999", "/?page=1&page=2", "/login?back=//elsewhere.test", "/login?back=%0d%0aX:y", "/%F0%9F",
    "/?" + "a&" * 950, "/?" + "a" * 1_900, "/" + "a/" * 900, "/" + "9" * 1_900, "/İ", "/\uffff", "/a\\b", "/'\"<b>",
    "/?q=%22%20OR%20NEAR(", "/?q=" + "%F0%9F%8F%B4" * 150, "/favicon.ico", "/robots.txt", "/?sort=__class__", "/logout",
)  # fmt: skip
"""Odd paths and queries."""
URLS = (
    "http://{host}:80/", "http://{upper}/", "http://a:b@{host}/", "http://{host}./", "https://{host}/", "ftp://{host}/",
    "http://{host}", "http:{host}", "http:///{host}", "http://[::1", "http://{host}:99999999/", "view-source:http://{host}/",
    "javascript:while(1){{}}", "data:text/html,<script>while(1);</script>", "about:blank", "about:srcdoc", "file:///dev/zero",
    "chrome://crash", "chrome://kill", "chrome://quit", "devtools://x", "blob:http://{host}/x", "http://xn--zzzz/", "",
)  # fmt: skip
"""URLs that are refused, or that parsers read in different ways."""
KEYS = (
    "Enter", "Escape", "Tab", "F5", "F11", "F12", "Control+w", "Control+t", "Control+n", "Control+q", "Alt+F4",
    "Control+o", "Control+s", "Control+p", "Control+u", "Control+l", "Control+Shift+I", "Control+Shift+Delete",
    "Alt+ArrowLeft", "Control+r", "Backspace", "Shift", "Meta", "ContextMenu", "PrintScreen", "Pause", "AudioVolumeUp",
    "Control+Alt+Shift+Meta+a", "+", "++", "+++", "", "Hyper", "a+b", "\ufffe", "Control+", "é", "F13", "Space",
)  # fmt: skip
"""Keys that control a browser, and some that do not exist."""


TOGETHER = 6
"""Calls in one message."""


@dataclass(frozen=True)
class Form:
    """A page with a form that can be filled in and sent.

    Args:
        url: URL of the page.
        fields: ids of its fields.
        buttons: ids of its buttons.
    """

    url: str
    fields: Sequence[str]
    buttons: Sequence[str]


def attacks_on(browser: HtmlBrowser, sites: Iterable[type[Site]]) -> dict[str, Sequence[ActionLike]]:
    """Return ways to break an episode, by name.

    Args:
        browser: a browser on the first page; this function uses it up.
        sites: the sites that the task shows.
    """
    hosts = sorted(browser.sites.hosts)
    first, page = browser.seen().url, browser.seen()
    ids = list(page.by_id)[:30]
    pages = list(_pages(sites))
    forms = list(_forms(browser, pages)) or [Form(first, ids, ids)]
    plays: dict[str, list[ToolCall]] = {
        f"fills forms with {name}": [one for form in forms[number % 3 :: 3][:4] for one in _filled(form, value)]
        for number, (name, value) in enumerate(VALUES.items())
    }
    plays |= _twice(forms[-1], first)
    plays |= on_elements(ids)
    plays |= {
        "opens every page": [_goto(url) for url in pages],
        "opens odd paths": [_goto(f"http://{host}{path}") for host in hosts[:2] for path in PATHS],
        "names odd numbers of pages": [
            _goto(f"{url}?page={number}") for url in pages for number in ("²", "-1", "9" * 1_500) if url.count("/") == 3
        ],
        "opens odd URLs": [_goto(url.format(host=host, upper=host.upper())) for host in hosts[:1] for url in URLS],
        "logs out and goes on": [_goto(first), *(call("click", id=id) for id in ids[:4]), *map(_goto, pages[:20])],
        "waits as long as it can": [call("noop", wait_ms=5_000)] * 16,
        "opens tabs without end": [call("new_tab")] * 30 + [call("tab_focus", index=i) for i in range(25)],
        "closes tabs without end": [call("new_tab"), _goto(first)] * 5 + [call("tab_close")] * 20,
        "goes back and forward without end": [
            *map(_goto, pages[:5]), *[call("go_back")] * 10, *[call("go_forward")] * 10,
            *[call("go_back"), call("go_forward")] * 10,
        ],
        "scrolls and clicks beyond everything": [
            one for x in (-100_000, 0, 100_000) for y in (-100_000, 1, 100_000)
            for one in (call("scroll", delta_x=x, delta_y=y), call("mouse_click", x=x, y=y, button="right"))
        ],
    }  # fmt: skip
    return {name: in_messages(calls) for name, calls in plays.items()}


def _twice(form: Form, first: str) -> dict[str, list[ToolCall]]:
    """Return ways to send one form such that a site may receive it twice."""
    fill, send = _filled(form, "1")[:-1], _filled(form, "1")[-1]
    return {
        "sends a form again and again": [*fill, send, call("go_back"), send, call("go_back"), send],
        "sends a form by Enter": [*fill, *(call("press", id=id, key_comb="Enter") for id in form.fields), send],
        "double-clicks to send": [*fill, call("dblclick", id=send.arguments["id"]), call("noop", wait_ms=0)],
        "sends a form in two tabs": [*fill, call("new_tab"), *fill, send, call("tab_focus", index=0), send],
        "leaves a form while it is sent": [*fill, send, _goto(first), call("go_back"), send, call("tab_close")],
        "sends a form into a new tab": [*fill, call("click", id=send.arguments["id"], button="middle")] * 3,
    }


def on_elements(ids: Sequence[str]) -> dict[str, list[ToolCall]]:
    """Return actions that do not suit the elements of the first page."""
    typed = call("keyboard_type", text="a\r\nb\t🏴\uffff" * 2_000)
    return {
        "clicks what was there before": [call("click", id=id) for id in ids],
        "double-clicks everything": [call("dblclick", id=id) for id in ids[::3]],
        "opens everything in new tabs": [call("click", id=id, button="middle") for id in ids] * 2,
        "right-clicks everything": [call("click", id=id, button="right") for id in ids[::2]],
        "presses every key": [call("keyboard_press", key=key) for key in KEYS],
        "presses every key in an element": [call("press", id=ids[-1], key_comb=key) for key in KEYS],
        "writes into everything": [call("fill", id=id, value="x") for id in ids],
        "types into everything": [one for id in ids[::4] for one in (call("focus", id=id), typed)],
        "checks everything": [call(how, id=id) for id in ids[::2] for how in ("check", "uncheck")],
        "chooses thousands of options": [call("select_option", id=id, options=["x" * 20] * 5_000) for id in ids[:8]],
        "drags everything onto everything": [
            call("drag_and_drop", from_id=one, to_id=other) for one in ids[::5] for other in ids[::6]
        ],
        "hovers over everything": [call("hover", id=id) for id in ids[::2]],
    }


def _pages(sites: Iterable[type[Site]]) -> Iterator[str]:
    """Yield the URL of every page that can only be read, with numbers of a row, of no row, and in other digits."""
    for site in sites:
        for route in routes(cast(Any, site)):
            if route.method == "GET":
                for number in ("1", "999999999", "٣") if route.kinds else ("",):
                    path = route.pattern.pattern
                    for name in route.kinds:
                        path = path.replace(f"(?P<{name}>\\d{{1,9}})", number).replace(f"(?P<{name}>[^/]+)", number)
                    yield f"http://{site.name}.test{path}"


def _forms(browser: HtmlBrowser, pages: Iterable[str]) -> Iterator[Form]:
    for url in pages:
        try:
            browser.open(url)
        except ToolError:
            continue
        nodes = browser.seen().by_id
        fields = [id for id, node in nodes.items() if node.role in FIELDS]
        buttons = (
            [id for id, node in nodes.items() if node.role == "button" and int(id) > int(fields[0])] if fields else []
        )
        if buttons:
            yield Form(url, fields[:8], buttons)


def _filled(form: Form, value: str) -> list[ToolCall]:
    """Return the calls that open a form, fill in every field, and send it."""
    fills = [call("fill", id=id, value=value) for id in form.fields]
    return [_goto(form.url), *fills, call("click", id=form.buttons[0])]


def call(name: str, **arguments: Any) -> ToolCall:
    """Return the call of a tool."""
    return ToolCall(name, arguments)


def _goto(url: str) -> ToolCall:
    return ToolCall("goto", {"url": url})


def in_messages(calls: Sequence[ToolCall]) -> list[ActionLike]:
    """Group calls into messages that a browser can answer within the time of one step."""
    return [Action(tool_calls=tuple(calls[begin : begin + TOGETHER])) for begin in range(0, len(calls), TOGETHER)]
