"""A browser of one line for tests of sites: a logged-in user who calls a site's functions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from html import unescape
from typing import cast
from urllib.parse import urlsplit

from turnwise.tasks.rng import Rng
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split
from turnwise.tasks.web.simulators.catalogue import SITES, base_world
from turnwise.tasks.web.simulators.http import Request, Response, Values
from turnwise.tasks.web.simulators.site import Site, routes
from turnwise.tasks.web.simulators.sites import Rules, Sites
from turnwise.tasks.web.simulators.theme import theme_of


@dataclass
class Visitor:
    """A visitor of a site of a world.

    Args:
        kind: the site.
        account: id of the logged-in user, 0 for a stranger (default: the site's first user).
        number: number of the world.
        per_page: rows on a page.
    """

    kind: type[Site]
    account: int | None = None
    number: int = 0
    per_page: int = 5
    sites: Sites = field(init=False)

    def __post_init__(self) -> None:
        base = base_world(Split.TRAIN, self.number)
        themes = {one.name: theme_of(Rng("plain"), one.label_variants(), plain=True) for one in SITES}
        self.sites = Sites(Database(base.image), SITES, Rules(themes, self.per_page, base.cast.now))
        self.be(self.first if self.account is None else self.account)

    @property
    def db(self) -> Database:
        """The world's rows."""
        return self.sites.db

    @property
    def first(self) -> int:
        """The user's account."""
        return int(self.db.value("SELECT min(id) FROM accounts WHERE site = ?", self.kind.name))

    def be(self, account: int) -> None:
        """Become another user from now on; 0 is a stranger."""
        self.account = account
        if account:
            self.sites.enter(self.kind.name, account)

    def get(self, address: str) -> Response:
        """Look at a page."""
        return self._ask("GET", address, {})

    def post(self, address: str, **form: str) -> Response:
        """Send a form."""
        return self._ask("POST", address, form)

    def text(self, address: str) -> str:
        """Return a page's HTML without entities."""
        return unescape(self.get(address).body)

    def said(self, answer: Response) -> str:
        """Follow an answer: return its page, or the one that it leads to."""
        return self.text(answer.location) if answer.location else unescape(answer.body)

    @property
    def changed(self) -> list[str]:
        """Return the changes."""
        return [str(one) for one in self.sites.changes()]

    def _ask(self, method: str, address: str, form: dict[str, str]) -> Response:
        parts, cookies = urlsplit(address), {"session": "begun"} if self.account else {}
        host, sent = f"{self.kind.name}.test", Values(form.items())
        return self.sites.handle(Request(method, host, parts.path, Values.of(parts.query), sent, cookies))


def paths(visitor: Visitor) -> list[str]:
    """An address of every page that only shows something, with small numbers for what varies."""
    found = [route.pattern.pattern for route in routes(cast(Hashable, visitor.kind)) if route.method == "GET"]
    return [one.replace(r"(?P<id>\d{1,9})", number) for one in found for number in ("1", "7", "999999999")]


ODD = ("", "0", "-1", "999999999999999999999", "1e9", "²", "٣", "%", "'; --", "\x00", "𝕏 <b>", "x" * 5000, "\ud800")
"""Requests that no browser should send."""


def shared_labels(kind: type[Site]) -> list[str]:
    """Variants that two words of a site share: if both are on a page, they are indistinguishable."""
    everything = [label for variants in kind.label_variants().values() for label in variants]
    return sorted({one for one in everything if everything.count(one) > 1})
