"""Laws of every site: its pages can be read, looking changes nothing, and every request gets an answer."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from turnwise.envs.web.html.document import INLINE_TAGS, ROLES, SILENT
from turnwise.envs.web.page import FIELDS, Node, with_ids
from turnwise.tasks.web.simulators.catalogue import IDLE, SITES
from turnwise.tasks.web.simulators.http import Values
from turnwise.tasks.web.simulators.site import Site
from turnwise.tasks.web.simulators.sites import Sites
from turnwise.tasks.web.simulators.theme import Listing

from ....shifts import sampled
from .crawl import Form, Seen, ask, followed, opened, pages, steps, variants

LISTINGS: tuple[Listing, ...] = ("table", "cards", "lines")
BUILT = frozenset({"html", "body", "div", "form", "input", "select", "legend", "dl", "br", "header", "footer"})
"""Elements that have no role of their own."""
SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    "",
    "x" * 20_000,
    "a\x01\x07\x1b\x7fb",
    "\ud800",
    "' OR 1=1; DROP TABLE accounts; --",
    f'">{SCRIPT}',
    "9" * 30,
    "99999999",
    "-1",
    "1e400",
    "nan",
    "٣",
    "2025-02-30",
    "0001-01-01",
    "9999-12-31",
    "%s%(x)s{x}{{7*7}}",
    "../../etc/passwd",
)
MARK = "<i>mark</i>"
every_site = pytest.mark.parametrize("kind", SITES, ids=lambda kind: str(kind.name))


def faults(kind: type[Site], seen: Seen) -> list[str]:
    """Return the faults of a page."""
    root, body = seen.page.root, seen.response.body
    found = []
    if seen.response.status != 200:
        found.append(f"it is answered {seen.response.status}")
    if not seen.page.title.strip():
        found.append("it has no title")
    if len(heads := root.findall(".//h1")) != 1:
        found.append(f"it has {len(heads)} heads of the first order")
    ids = Counter(one.get("id") for one in root.iter() if isinstance(one.tag, str) and one.get("id"))
    found += [f"there are {count} elements with the id {id!r}" for id, count in ids.items() if count > 1]
    tags = {one.tag for one in root.iter() if isinstance(one.tag, str)}
    found += [f"<{tag}> is not known" for tag in tags - set(ROLES) - INLINE_TAGS - SILENT - BUILT]
    found += _named(with_ids(seen.page.nodes()))
    if "Traceback" in body or "jinja2" in body:
        found.append("it shows what went wrong inside")
    words = variants(kind)
    labels = sorted(seen.labels)
    for number, one in enumerate(labels):
        for other in labels[number + 1 :]:
            if both := set(map(str.lower, words[one])) & set(map(str.lower, words[other])):
                found.append(f"both {one!r} and {other!r} may be called {min(both)!r}")
    return found


def _named(nodes: tuple[Node, ...]) -> list[str]:
    """Fields without a label; fields, and buttons outside of listings, that are called the same."""
    found, names = [], Counter[tuple[str, str]]()

    def walk(node: Node, inside: bool) -> None:
        inside = inside or node.role in ("row", "listitem")
        if (node.role in FIELDS or node.role in ("button", "link")) and not node.name.strip():
            found.append(f"a {node.role} has no name")
        if (node.role in FIELDS and node.role != "radio") or (node.role == "button" and not inside):
            names["field" if node.role in FIELDS else "button", node.name] += 1
        for child in node.children:
            walk(child, inside)

    for node in nodes:
        walk(node, False)
    return [*found, *(f"{count} {what}s are called {name!r}" for (what, name), count in names.items() if count > 1)]


def changed(sites: Sites) -> list[str]:
    """Return the changes, except those by looking."""
    found = []
    for change in sites.changes():
        idle = IDLE.get(change.table, frozenset())
        if change.kind != "update" or not set(change.columns) <= idle:
            found.append(str(change))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "listing", "member"),
    [
        pytest.param(
            kind,
            listing,
            member,
            id=f"{kind.name}-{listing}-{'member' if member else 'stranger'}",
            marks=() if (number + place + member) % 3 == 0 else pytest.mark.shift,
        )
        for number, kind in enumerate(SITES)
        for place, listing in enumerate(LISTINGS)
        for member in (False, True)
    ],
)
def test_every_page_that_links_lead_to_can_be_read_and_looking_changes_nothing(
    kind: type[Site], listing: Listing, member: bool
) -> None:
    sites = opened(kind, listing, member=member, number=LISTINGS.index(listing))
    wrong = {fault: seen.path for seen in pages(sites, kind) for fault in faults(kind, seen)}
    assert not wrong, "\n".join(f"{path}: {fault}" for fault, path in wrong.items())
    assert not changed(sites), f"looking changes {changed(sites)}"


def answered(sites: Sites, kind: type[Site], form: Form, values: list[tuple[str, str]]) -> None:
    """Check that sending a form with some values gives a valid page."""
    fork = sites.fork()
    if form.method == "POST":
        _, response = followed(fork, kind, form.path, Values(values))
    else:
        _, response = followed(fork, kind, f"{form.path.partition('?')[0]}?{Values(_sendable(values))}")
    said = f"{form.method} {form.path} with {str(values)[:300]!r}"
    assert response.status < 500, f"{said} is answered {response.status}"
    assert not response.location, f"{said} leads on and on"
    assert "<h1>" in response.body, f"{said} shows no page"
    assert SCRIPT not in response.body, f"{said} is a part of the page as it is"
    assert "Traceback" not in response.body
    fork.db.close()


def _sendable(values: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value.encode("utf-8", "replace").decode()) for name, value in values]


@pytest.mark.slow
@every_site
@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(tuple(sampled(HOSTILE, 4, key="hostile")), id="some"),
        pytest.param(HOSTILE, id="all", marks=pytest.mark.shift),
    ],
)
def test_whatever_is_sent_is_answered_with_a_page(kind: type[Site], hostile: tuple[str, ...]) -> None:
    sites = opened(kind, per_page=30)
    for state, form in steps(sites, kind):
        names = sorted({name for name, _ in form.sent})
        answered(state, kind, form, [])
        for value in hostile:
            answered(state, kind, form, [(name, value) for name in names])
            for name in names:
                others = [(one, text) for one, text in form.sent if one != name]
                answered(state, kind, form, [*others, (name, value)])


@every_site
def test_numbers_of_other_rows_are_answered_with_a_page(kind: type[Site]) -> None:
    sites = opened(kind, per_page=30)
    for state, form in steps(sites, kind):
        for id in ("0", "1", "2", "7", "24", "99999", "999999999"):
            path = re.sub(r"\d+", id, form.path)
            sent = [(name, id if value.isdecimal() else value) for name, value in form.sent]
            answered(state, kind, Form(form.method, path, form.sent, form.at), sent)


@every_site
def test_a_page_that_is_not_there_says_so(kind: type[Site]) -> None:
    sites = opened(kind)
    for path in ("/nothing", "/%3Cscript%3E", "//x", "/\ud800", "/login/x", f"/{SCRIPT}"):
        response = ask(sites, kind, path)
        assert response.status == 404
        assert SCRIPT not in response.body


@every_site
def test_what_strangers_send_changes_nothing_that_belongs_to_members(kind: type[Site]) -> None:
    sites, stranger = opened(kind), opened(kind, member=False)
    mine = {row["name"] for row in sites.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for _, form in steps(sites, kind):
        if form.method == "POST":
            ask(stranger, kind, form.path, Values(form.sent))
    touched = {change.table for change in stranger.changes()}
    owned = {table for table in mine if _owned(sites, table)}
    assert not touched & owned, f"a stranger changes {touched & owned}"


def _owned(sites: Sites, table: str) -> bool:
    return any(row["name"] == "account_id" for row in sites.db.rows(f"PRAGMA table_info({table})"))


@every_site
@pytest.mark.parametrize(
    "listing", [pytest.param(one, marks=() if one == LISTINGS[0] else pytest.mark.shift) for one in LISTINGS]
)
def test_markup_in_rows_is_shown_as_it_is_written(kind: type[Site], listing: Listing) -> None:
    sites = opened(kind, listing)
    marked = 0
    for table in sites.db.rows(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ? || '_%'", kind.name
    ):
        for column in sites.db.rows(f"PRAGMA table_info({table['name']})"):
            marked += _mark(sites, table["name"], column["name"]) if column["type"] == "TEXT" else 0
    assert marked, "nothing could be marked"
    bodies = [(seen.path, seen.response.body) for seen in pages(sites, kind, 3)]
    assert not [path for path, body in bodies if MARK in body]
    assert any("&lt;i&gt;mark" in body for _, body in bodies), "no mark is shown anywhere"


def _mark(sites: Sites, table: str, column: str) -> int:
    """Write markup into a column, if it holds texts that nothing depends on."""
    rows = sites.db.rows(f"SELECT id, {column} AS text FROM {table} WHERE {column} IS NOT NULL")
    texts = {str(row["text"]) for row in rows}
    free = len(texts) > 8 and any(" " in text for text in texts)
    if not free or any(re.fullmatch(r"\d{4}-\d\d-\d\d.*", text) for text in texts):
        return 0
    for row in rows:
        sites.db.update(table, row["id"], **{column: f"{row['text']}{MARK}"})
    return len(rows)


@every_site
def test_what_is_stray_changes_one_row(kind: type[Site]) -> None:
    sites = opened(kind)
    path, form = kind.stray
    ask(sites, kind, path, form)
    assert len(sites.changes()) == 1


@every_site
def test_variants_of_a_label_differ(kind: type[Site]) -> None:
    for what, names in variants(kind).items():
        assert len(set(map(str.lower, names))) == len(names), what
