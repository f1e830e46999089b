"""``Site``: one web site over the rows of a world. A page is a method; what it shows is a template beside it."""

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
"""The cookie that says who somebody is."""
PAGES = Path(__file__).with_name("pages")
KINDS = {"int": r"\d{1,9}", "word": r"[\w.-]{1,80}"}
"""What may stand for a part of a path, as in ``/products/{id:int}``."""


class Refused(Exception):
    """A page that is not shown, and why.

    Args:
        text: for a person.
        status: of HTTP.
    """

    def __init__(self, text: str, status: int = 403) -> None:
        super().__init__(text)
        self.text, self.status = text, status


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody's session on one site. A value: every change makes another.

    Args:
        account: number of the row in ``accounts`` of who is logged in; 0 for a stranger.
        notice: to be shown once, on the next page.
        kept: what a site remembers between pages, such as the steps of a checkout.
    """

    account: int = 0
    notice: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """A page's address.

    Args:
        method: of HTTP.
        pattern: of the path.
        kinds: of the parts of the path that vary, by name.
        function: the method that answers.
        member: whether only who is logged in sees it.
    """

    method: str
    pattern: re.Pattern[str]
    kinds: Mapping[str, str]
    function: Callable[..., Response]
    member: bool


def page(path: str, method: str = "GET", *, member: bool = False) -> Callable[[F], F]:
    """Mark a method of a site as the page of an address.

    Args:
        path: such as ``/products/{id:int}``; its parts are the method's arguments.
        method: ``GET`` for what only shows, ``POST`` for what changes.
        member: strangers are sent to the login, and come back afterwards.
    """

    def mark(function: F) -> F:
        setattr(function, MARK, (method, path, member))
        return function

    return mark


class Site(Simulator):
    """One request's view of a site.

    A subclass sets the class fields and writes pages (``@page``). Beside its module, ``pages/`` has their HTML and
    ``labels.toml`` its labels. What a page writes and then raises is undone.

    Args:
        db: the world's rows.
        now: the world's time.
        theme: how it looks.
        per_page: rows on a page of a listing.
        request: what is asked.
        visit: who asks.
    """

    title: ClassVar[str]
    """Its name for people; ``name`` begins its host's: ``shop`` is at ``http://shop.test``."""
    menu: ClassVar[Sequence[tuple[str, str]]] = ()
    """Links of the navigation: the label's word, and the path."""
    stray: ClassVar[tuple[str, Mapping[str, str]]]
    """A path and a form: posted by the task's user, they always change something that no task asks for."""

    def __init__(
        self, db: Database, now: datetime, theme: Theme, per_page: int, request: Request, visit: Visit
    ) -> None:
        super().__init__(db, now, per_page)
        self.theme, self.request, self.visit = theme, request, visit
        self.query, self.form = request.query, request.form

    @classmethod
    def label_variants(cls) -> Mapping[str, tuple[str, ...]]:
        """Return the variants of every label, by what it is for; the first is the plain one."""
        return {**lists_beside(__name__, "labels.toml"), **lists_beside(cls.__module__, "labels.toml")}

    # -- what pages are written with --------------------------------------------------------------------------------

    def word(self, what: str) -> str:
        """The label for something in this theme."""
        return self.theme.word(what)

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page from a template of this site, or of all sites.

        Args:
            template: file name, such as ``product.html``.
            status: of HTTP.
            values: for it. ``site``, ``t`` (labels) and ``theme`` are there in any case.
        """
        notice, self.visit = self.visit.notice, replace(self.visit, notice="")
        body = templates(cast(Hashable, type(self))).get_template(template).render(
            site=self, t=self.theme.word, theme=self.theme, notice=notice, user=self.user, **values
        )  # fmt: skip
        return Response(body, status)

    def go(self, path: str, notice: str = "") -> Response:
        """On to another page of this site.

        Args:
            path: of it.
            notice: to be shown there.
        """
        self.visit = replace(self.visit, notice=notice)
        return Response("", 303, path)

    def keep(self, **values: Any) -> None:
        """Remember something until the session ends; ``None`` forgets it."""
        kept = {name: value for name, value in {**self.visit.kept, **values}.items() if value is not None}
        self.visit = replace(self.visit, kept=kept)

    def find(self, table: str, id: int, what: str) -> Row:
        """The row of a table with this number.

        Raises:
            Refused: there is none (any more).
        """
        row = self.db.row(f"SELECT * FROM {table} WHERE id = ?", id)
        if row is None:
            raise Refused(f"This {what} does not exist: {id}.", 404)
        return row

    def paged(self, rows: Sequence[Any]) -> dict[str, Any]:
        """The rows of the page that the query names, and what ``pager`` in ``parts.html`` needs."""
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
        """The account of who is logged in."""
        return self.db.row("SELECT * FROM accounts WHERE id = ?", self.visit.account) if self.visit.account else None

    @property
    def member(self) -> Row:
        """The account of who is logged in, on pages for members.

        Raises:
            Refused: nobody is.
        """
        found = self.user
        if found is None:
            raise Refused("You are not logged in.", 401)
        return found

    @property
    def links(self) -> list[tuple[str, str]]:
        """The navigation as this theme orders it: labels and paths."""
        order = self.theme.order([path for _, path in self.menu], "menu") if self.theme.seed else None
        links = {path: (self.word(what), path) for what, path in self.menu}
        return [links[path] for path in order or links]

    # -- pages of every site ----------------------------------------------------------------------------------------

    @page("/login")
    def login(self) -> Response:
        """The form for logging in."""
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
        """What the site is for."""
        return self.show("help.html")

    # -- the inside -------------------------------------------------------------------------------------------------

    def answer(self) -> Response:
        """Answer the request; what cannot be answered is a page that says why."""
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
    """A path of the same site, whatever was asked for."""
    return path if re.fullmatch(r"/(?!/)[\w./?=&%+-]*", path) else "/"


@lru_cache(maxsize=64)
def routes(kind: Any) -> tuple[Route, ...]:
    """The pages of a site."""
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
    """The templates of a site, and those of all."""
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
