"""``Sites``: all sites of one episode, as a function from requests to responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from ...rows.database import Database
from ...rows.simulator import Simulation
from .http import Request, Response
from .site import SESSION, Site, Visit
from .theme import Theme

DOMAIN = "test"
"""Top-level domain of all sites, which no real host has."""
KIND = ("GET", "HEAD", "POST")


@dataclass(frozen=True)
class Rules:
    """The look and the time of the sites in one episode.

    Args:
        themes: themes by site name.
        per_page: rows on one page of a listing.
        now: time of the world, which stands still.
    """

    themes: Mapping[str, Theme]
    per_page: int
    now: datetime


class Sites(Simulation[Site]):
    """Live sites over one database.

    A failed request changes no row. The changes since the start are known at any time, and a fork copies the database.
    A cookie identifies a session; it carries no information and is the same in every episode.

    Args:
        db: rows of the world.
        kinds: classes of the sites.
        rules: look and time of the sites.
        visits: sessions, by host and cookie.
    """

    def __init__(
        self,
        db: Database,
        kinds: Sequence[type[Site]],
        rules: Rules,
        visits: Mapping[tuple[str, str], Visit] | None = None,
    ) -> None:
        super().__init__(db, kinds)
        self.rules = rules
        self._by_host = {host_of(kind): kind for kind in kinds}
        self.visits: dict[tuple[str, str], Visit] = dict(visits or {})

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts of the sites."""
        return frozenset(self._by_host)

    def enter(self, site: str, account: int) -> None:
        """Log the browser in to a site from the start, with the cookie ``"begun"``."""
        kind = next(one for one in self.simulators if one.name == site)
        self.visits[host_of(kind), BEGUN] = Visit(account)

    @property
    def cookies(self) -> dict[str, str]:
        """Initial cookies of a browser, by host, for sites with a login from the start."""
        return {host: token for host, token in self.visits if token == BEGUN}

    def handle(self, request: Request) -> Response:
        """Answer a request."""
        kind = self._by_host.get(request.host)
        if kind is None:
            return Response("<!doctype html><title>No such site</title><p>There is no such site.</p>", 404)
        token = request.cookies.get(SESSION, "")
        visit = self.visits.get((request.host, token))
        if request.method not in KIND:
            return Response("<!doctype html><title>Refused</title><p>This is not taken.</p>", 405)
        known = visit if visit is not None else Visit()
        site = kind(self.db, self.rules.now, self.rules.themes[kind.name], self.rules.per_page, request, known)
        response = site.answer()
        if (site.visit == known and visit is not None) or site.visit == Visit():
            if visit is not None:
                self.visits[request.host, token] = site.visit
            return response
        if visit is None or site.visit.account != known.account:  # a new cookie prevents session fixation
            self.visits.pop((request.host, token), None)
            token = f"s{sum(host == request.host for host, _ in self.visits) + 1}-{request.host}"
            response = replace(response, cookies={**response.cookies, SESSION: token})
        self.visits[request.host, token] = site.visit
        return response

    def fork(self) -> Self:
        """Return independent sites in the same state."""
        return type(self)(self.db.fork(), self.simulators, self.rules, self.visits)


BEGUN = "begun"
"""Cookie of the initial sessions."""


def host_of(kind: type[Site]) -> str:
    """Return the host of a site."""
    return f"{kind.name}.{DOMAIN}"
