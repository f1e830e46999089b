"""A world's sites for tests, and everything of one that links lead to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from turnwise.envs.web.html.document import Document
from turnwise.tasks.rng import Rng
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split
from turnwise.tasks.web.simulators.accounts import account_of
from turnwise.tasks.web.simulators.catalogue import SITES, base_world
from turnwise.tasks.web.simulators.http import Request, Response, Values
from turnwise.tasks.web.simulators.site import Site, routes
from turnwise.tasks.web.simulators.sites import BEGUN, Rules, Sites, host_of
from turnwise.tasks.web.simulators.theme import Listing, theme_of

ALIKE = 4
"""Pages of one route that are looked at."""


class Heard(dict[str, str]):
    """Labels that remember which ones were used."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        super().__init__(labels)
        self.asked: set[str] = set()

    def __getitem__(self, what: str) -> str:
        self.asked.add(what)
        return super().__getitem__(what)


@dataclass(frozen=True)
class Form:
    """A form of a page.

    Args:
        method: HTTP method of the form.
        path: path that the form is sent to.
        sent: values that a browser sends for an untouched form.
        at: the page that it stands on.
    """

    method: str
    path: str
    sent: tuple[tuple[str, str], ...]
    at: str


@dataclass(frozen=True)
class Seen:
    """A page that was answered.

    Args:
        path: path of the page, with its query.
        response: the answer.
        labels: labels that its theme used.
        page: it, as a browser reads it.
    """

    path: str
    response: Response
    labels: frozenset[str]
    page: Document = field(repr=False)

    @property
    def forms(self) -> list[Form]:
        """Its forms."""
        found = []
        for one in self.page.root.iter("form"):
            method = one.get("method", "get").upper()
            found.append(Form(method, one.get("action") or self.path, tuple(self.page.sent(one, None)), self.path))
        return found


def opened(
    kind: type[Site], listing: Listing = "table", *, member: bool = True, number: int = 0, per_page: int = 4
) -> Sites:
    """The sites of a world of the split that knows all of them, with the user logged in to one, if so wished.

    Args:
        kind: the site.
        listing: how lists are shown.
        member: whether a user is logged in.
        number: number of the world.
        per_page: rows on a page.
    """
    base = base_world(Split.CHALLENGE, number)
    themes = {
        site.name: replace(
            theme_of(Rng("laws", site.name, number), site.label_variants(), plain=number == 0), listing=listing
        )
        for site in SITES
    }
    themes[kind.name] = replace(themes[kind.name], labels=Heard(themes[kind.name].labels))
    sites = Sites(Database(base.image), SITES, Rules(themes, per_page, base.cast.now))
    if member:
        sites.enter(kind.name, int(str(account_of(sites.db, kind.name)["id"])))
    return sites


def ask(sites: Sites, kind: type[Site], path: str, form: Any = None) -> Response:
    """Ask a site for a page, or, with a form, post it; as who is logged in."""
    parts = urlsplit(path)
    method = "GET" if form is None else "POST"
    sent = form if isinstance(form, Values) else Values((form or {}).items())
    request = Request(method, host_of(kind), parts.path, Values.of(parts.query), sent, {"session": BEGUN})
    return sites.handle(request)


def pages(sites: Sites, kind: type[Site], alike: int = ALIKE) -> Iterator[Seen]:
    """Every page that links lead to from the front page, a few of each route.

    Args:
        sites: sites of the crawl.
        kind: the site.
        alike: how many of a route with the same names in its query.
    """
    labels = sites.rules.themes[kind.name].labels
    assert isinstance(labels, Heard)
    waiting, known, counted = ["/"], {"/"}, Counter[tuple[Any, ...]]()
    while waiting:
        path = waiting.pop(0)
        parts = urlsplit(path)
        names = tuple(sorted({name for name, _ in Values.of(parts.query).pairs}))
        route = route_of(kind, parts.path)
        counted[route, names] += 1
        if counted[route, names] > alike:
            continue
        labels.asked.clear()
        path, response = followed(sites, kind, path)
        seen = Seen(path, response, frozenset(labels.asked), Document(response.body, f"http://{host_of(kind)}{path}"))
        yield seen
        for one in seen.page.root.iter("a"):
            to = one.get("href", "")
            if re.match(r"/(?!/)", to) and to not in known:
                known.add(to)
                waiting.append(to)


def route_of(kind: Any, path: str) -> str:
    """The name of what shows a page."""
    found = [one for one in routes(kind) if one.method == "GET" and one.pattern.fullmatch(path)]
    return found[0].function.__name__ if found else path


def filled(seen: Seen, form: Any, now: datetime) -> tuple[tuple[str, str], ...]:
    """Values that a cooperative user might fill in.

    Args:
        seen: the page.
        form: its element.
        now: the world's time.
    """
    values = {one.get("name", ""): (seen.page.value(one), one) for one in form.iter("input", "textarea")}
    days = iter((20, 22, 24, 26))
    sent = dict(seen.page.sent(form, None))
    for name, (value, one) in values.items():
        match one.get("type", "text"):
            case "radio":
                sent.setdefault(name, one.get("value", ""))
            case "date":
                sent[name] = (now + timedelta(days=next(days))).date().isoformat()
            case "email":
                sent[name] = "ada@post.test"
            case "hidden" | "checkbox" | "number":
                pass
            case _:
                sent[name] = value or ("555-010-2030" if "phone" in name else "Ada Baker")
    for one in form.iter("select"):
        sent[one.get("name", "")] = seen.page.options(one)[-1][1]
    return tuple(sent.items())


def steps(sites: Sites, kind: type[Site]) -> Iterator[tuple[Sites, Form]]:
    """Yield the forms of a site, one of each sort except for logging out, each with the state in which it can be sent.
    They include forms of later steps, which appear only after earlier ones were filled in well."""
    known: set[tuple[str, str, tuple[str, ...]]] = set()
    waiting = [(sites, seen) for seen in pages(sites, kind, 2)]
    while waiting:
        state, seen = waiting.pop(0)
        for element, form in zip(seen.page.root.iter("form"), seen.forms, strict=True):
            names = {name for name, _ in form.sent} | {one.get("name", "") for one in element.iter("input", "textarea")}
            sort = (form.method, re.sub(r"\d+", "#", form.path), tuple(sorted(names - {""})))
            if form.path == "/logout" or sort in known:
                continue
            known.add(sort)
            well = filled(seen, element, sites.rules.now)
            yield state, replace(form, sent=well)
            if form.method == "POST":
                later = state.fork()
                path, response = followed(later, kind, form.path, Values(well))
                page = Document(response.body, f"http://{host_of(kind)}{path}")
                waiting.append((later, Seen(path, response, frozenset(), page)))


def followed(sites: Sites, kind: type[Site], path: str, form: Values | None = None) -> tuple[str, Response]:
    """The page that comes in the end, and where it is."""
    response = ask(sites, kind, path, form)
    for _ in range(5):
        if not response.location:
            break
        path = response.location
        response = ask(sites, kind, path)
    return path, response


def variants(kind: type[Site]) -> Mapping[str, tuple[str, ...]]:
    """Every label of a site with its variants."""
    return kind.label_variants()
