"""``Site``: one web site over the rows of a world. A page is a method with a template file next to its module."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import urlencode

import jinja2

from ...rows.data import lists_beside
from ...rows.database import Database, NoRoom, Row
from ...rows.simulator import Simulator
from .http import Request, Response, number
from .theme import Theme

F = TypeVar("F", bound=Callable[..., Response])
MARK = "_turnwise_web_page"
SESSION = "session"
"""Name of the session cookie."""
PAGES = Path(__file__).with_name("pages")
KINDS = {"int": r"\d{1,9}", "word": r"[\w.-]{1,80}"}
"""Patterns for variable parts of a path, as in ``/products/{id:int}``."""


class Refused(Exception):
    """Raised instead of showing a page.

    Args:
        text: reason, for the reader of the page.
        status: HTTP status.
    """

    def __init__(self, text: str, status: int = 403) -> None:
        super().__init__(text)
        self.text, self.status = text, status


@dataclass(frozen=True, slots=True)
class Visit:
    """A session on one site. It is immutable: every change creates another.

    Args:
        account: id of the logged-in account; 0 for a stranger.
        notice: message to show once, on the next page.
        kept: values that a site keeps between pages, such as the steps of a checkout.
    """

    account: int = 0
    notice: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """The URL pattern of a page.

    Args:
        method: HTTP method.
        pattern: regular expression of the path.
        kinds: kinds of the variable parts of the path, by name.
        function: method that answers.
        member: whether the page requires a login.
    """

    method: str
    pattern: re.Pattern[str]
    kinds: Mapping[str, str]
    function: Callable[..., Response]
    member: bool


def page(path: str, method: str = "GET", *, member: bool = False) -> Callable[[F], F]:
    """Mark a method of a site as the page of a path.

    Args:
        path: path such as ``/products/{id:int}``; its variable parts become the method's arguments.
        method: ``GET`` for pages that only show, ``POST`` for pages that change rows.
        member: whether to send strangers to the login, from which they return afterwards.
    """

    def mark(function: F) -> F:
        setattr(function, MARK, (method, path, member))
        return function

    return mark


class Site(Simulator):
    """A site during one request. A subclass sets the class fields and defines pages (``@page``). Next to its module,
    ``pages/`` contains their HTML and ``labels.toml`` its labels. If a page raises, its changes are undone.

    Args:
        db: rows of the world.
        now: time of the world.
        theme: look of the site.
        per_page: rows on one page of a listing.
        request: the request.
        visit: the visitor's session.
    """

    title: ClassVar[str]
    """Its name for readers; ``name`` starts its host name: ``shop`` is at ``http://shop.test``."""
    menu: ClassVar[Sequence[tuple[str, str]]] = ()
    """Links of the navigation: key of the label, and path."""
    stray: ClassVar[tuple[str, Mapping[str, str]]]
    """A path and a form. Posted by the task's user, they always change a row that no task allows."""

    def __init__(
        self, db: Database, now: datetime, theme: Theme, per_page: int, request: Request, visit: Visit
    ) -> None:
        super().__init__(db, now, per_page)
        self.theme, self.request, self.visit = theme, request, visit
        self.query, self.form = request.query, request.form

    @classmethod
    def label_variants(cls) -> Mapping[str, tuple[str, ...]]:
        """Return the variants of every label, by key; the first one is the plain one."""
        return {**lists_beside(__name__, "labels.toml"), **lists_beside(cls.__module__, "labels.toml")}

    # -- helpers of pages -------------------------------------------------------------------------------------------

    def word(self, what: str) -> str:
        """Return the label of a key in this theme."""
        return self.theme.word(what)

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a template of this site, or one shared by all sites.

        Args:
            template: file name, such as ``product.html``.
            status: HTTP status.
            values: values for the template, in addition to ``site``, ``t`` (labels) and ``theme``.
        """
        notice, self.visit = self.visit.notice, replace(self.visit, notice="")
        body = templates(cast(Hashable, type(self))).get_template(template).render(
            site=self, t=self.theme.word, theme=self.theme, notice=notice, user=self.user, **values
        )  # fmt: skip
        return Response(body, status)

    def go(self, path: str, notice: str = "") -> Response:
        """Redirect to another page of this site.

        Args:
            path: path of the page.
            notice: message to show there.
        """
        self.visit = replace(self.visit, notice=notice)
        return Response("", 303, path)

    def keep(self, **values: Any) -> None:
        """Keep values until the session ends; ``None`` deletes one."""
        kept = {name: value for name, value in {**self.visit.kept, **values}.items() if value is not None}
        self.visit = replace(self.visit, kept=kept)

    def find(self, table: str, id: int, what: str) -> Row:
        """Return the row of a table with an id.

        Raises:
            Refused: there is no such row (any more).
        """
        row = self.db.row(f"SELECT * FROM {table} WHERE id = ?", id)
        if row is None:
            raise Refused(f"This {what} does not exist: {id}.", 404)
        return row

    def paged(self, rows: Sequence[Any]) -> dict[str, Any]:
        """Return the rows of the page that the query selects, and the values that ``pager`` in ``parts.html`` needs."""
        pages = max(1, math.ceil(len(rows) / self.per_page))
        shown = min(max(1, number(self.query.get("page"))), pages)
        begin = (shown - 1) * self.per_page
        rest = self.query.without("page").pairs

        def link(to: int) -> str:
            return f"{self.request.path}?{urlencode([*rest, ('page', to)])}"

        return {
            "rows": rows[begin : begin + self.per_page],
            "total": len(rows),
            "page": shown,
            "pages": pages,
            "previous": link(shown - 1) if shown > 1 else "",
            "next": link(shown + 1) if shown < pages else "",
        }

    @property
    def user(self) -> Row | None:
        """The logged-in account, or ``None``."""
        return self.db.row("SELECT * FROM accounts WHERE id = ?", self.visit.account) if self.visit.account else None

    @property
    def member(self) -> Row:
        """The logged-in account, on pages for members.

        Raises:
            Refused: the visitor is not logged in.
        """
        found = self.user
        if found is None:
            raise Refused("You are not logged in.", 401)
        return found

    @property
    def links(self) -> list[tuple[str, str]]:
        """Labels and paths of the navigation, in this theme's order."""
        order = self.theme.order([path for _, path in self.menu], "menu") if self.theme.seed else None
        links = {path: (self.word(what), path) for what, path in self.menu}
        return [links[path] for path in order or links]

    # -- pages of every site ----------------------------------------------------------------------------------------

    @page("/login")
    def login(self) -> Response:
        """Show the login form."""
        return self.show("login.html", back=_local(self.query.get("back", "/")), wrong="", username="")

    @page("/login", "POST")
    def logged_in(self) -> Response:
        """Log in."""
        username, back = self.form.get("username"), _local(self.form.get("back", "/"))
        row = self.db.row(
            "SELECT * FROM accounts WHERE site = ? AND username = ? AND password = ?",
            self.name,
            username,
            self.form.get("password"),
        )
        if row is None:
            wrong = "The user name or password is wrong."
            return self.show("login.html", 403, back=back, wrong=wrong, username=username)
        self.visit = Visit(row["id"])
        return self.go(back, f"Welcome, {row['name']}.")

    @page("/logout", "POST")
    def logged_out(self) -> Response:
        """Log out."""
        self.visit = Visit()
        return self.go("/", "You have been logged out.")

    @page("/help")
    def help(self) -> Response:
        """Show the purpose of the site."""
        return self.show("help.html")

    # -- internals --------------------------------------------------------------------------------------------------

    def answer(self) -> Response:
        """Answer the request; a refusal is a page that gives the reason."""
        try:
            route, arguments = self._routed()
            if route.member and self.user is None:
                back = self.request.path if route.method == "GET" else "/"
                return self.go(f"/login?{urlencode({'back': back})}", "Please log in first.")
            with self.db.whole():
                return route.function(self, **arguments)
        except Refused as refused:
            return self.show("refused.html", refused.status, text=refused.text)
        except NoRoom:
            return self.show("refused.html", 507, text="There is not enough space: delete something first.")
        except (UnicodeEncodeError, OverflowError):
            return self.show("refused.html", 400, text="This contains characters or numbers that cannot be stored.")

    def _routed(self) -> tuple[Route, dict[str, Any]]:
        method = "GET" if self.request.method == "HEAD" else self.request.method
        other = False
        for route in routes(cast(Hashable, type(self))):
            found = route.pattern.fullmatch(self.request.path)
            if found is not None and route.method == method:
                parts = found.groupdict().items()
                return route, {name: int(part) if route.kinds[name] == "int" else part for name, part in parts}
            other = other or found is not None
        if other:
            raise Refused("This URL does not accept this method.", 405)
        raise Refused(f"The page {self.request.path[:100]!r} does not exist.", 404)


def _local(path: str) -> str:
    """Return a path if it is one of this site, otherwise ``/``."""
    return path if re.fullmatch(r"/(?!/)[\w./?=&%+-]*", path) else "/"


@lru_cache(maxsize=64)
def routes(kind: Any) -> tuple[Route, ...]:
    """Return the routes of a site."""
    found = []
    for name in dir(kind):
        function = getattr(kind, name, None)
        if (marked := getattr(function, MARK, None)) is not None and callable(function):
            method, path, member = marked
            kinds = dict(re.findall(r"\{(\w+):(\w+)\}", path))
            pattern = re.sub(r"\{(\w+):(\w+)\}", lambda part: f"(?P<{part[1]}>{KINDS[part[2]]})", path)
            found.append(Route(method, re.compile(pattern), kinds, function, member))
    return tuple(found)


@lru_cache(maxsize=64)
def templates(kind: Any) -> jinja2.Environment:
    """Return the templates of a site, and those of all sites."""
    own = Path(sys.modules[kind.__module__].__file__ or "").with_name("pages")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([own, PAGES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["money"] = lambda hundredths: f"{hundredths / 100:.2f}"
    made.filters["day"] = lambda stamp: str(stamp)[:10]
    made.filters["pairs"] = lambda names: [(name, name) for name in names]
    return made
