"""The wiki: who may change what, what versions keep, and that looking changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from turnwise.tasks.rng import Rng
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split
from turnwise.tasks.web.simulators.catalogue import base_world
from turnwise.tasks.web.simulators.http import Request, Response, Values
from turnwise.tasks.web.simulators.sites import Rules, Sites
from turnwise.tasks.web.simulators.theme import theme_of
from turnwise.tasks.web.simulators.wiki.site import Wiki


@pytest.fixture
def sites() -> Iterator[Sites]:
    base = base_world(Split.TRAIN, 0)
    themes = {"wiki": theme_of(Rng("theme"), Wiki.label_variants(), plain=True)}
    made = Sites(Database(base.image), (Wiki,), Rules(themes, 10, base.cast.now))
    made.enter("wiki", made.db.value("SELECT id FROM accounts WHERE site = 'wiki' ORDER BY id"))
    yield made
    made.db.close()


def ask(sites: Sites, path: str, form: dict[str, Any] | None = None, *, member: bool = True) -> Response:
    path, _, query = path.partition("?")
    fields = Values([(name, str(value)) for name, value in (form or {}).items()])
    cookies = {"session": "begun"} if member else {}
    method = "GET" if form is None else "POST"
    return sites.handle(Request(method, "wiki.test", path, Values.of(query), fields, cookies))


def part(sites: Sites, *, protected: bool = False) -> dict[str, Any]:
    row = sites.db.row(
        """SELECT wiki_parts.*, protected_by FROM wiki_parts JOIN wiki_pages ON wiki_pages.id = page_id
           WHERE (protected_by <> '') = ? ORDER BY wiki_parts.id""",
        protected,
    )
    assert row is not None
    return row


def test_a_change_is_kept_as_a_version(sites: Sites) -> None:
    one = part(sites)
    answer = ask(sites, f"/parts/{one['id']}/edit", {"body": "All new.", "note": "cleared up"})
    assert answer.location == f"/pages/{one['page_id']}"
    changed, version = sites.changes()
    assert (changed.table, changed.columns) == ("wiki_parts", {"body": "All new."})
    assert version.columns["note"] == "cleared up"
    assert version.columns["body"] == "All new."


def test_a_change_without_a_summary_is_not_taken_and_what_was_written_stays(sites: Sites) -> None:
    answer = ask(sites, f"/parts/{part(sites)['id']}/edit", {"body": "A long new text.", "note": " "})
    assert answer.status == 422
    assert "A long new text." in answer.body
    assert not sites.changes()


@pytest.mark.parametrize("path", ["/parts/{id}/edit", "/pages/{page_id}/parts", "/pages/{page_id}/facts"])
def test_a_protected_page_is_changed_by_nobody_but_its_keeper(sites: Sites, path: str) -> None:
    one = part(sites, protected=True)
    for form in (None, {"body": "Mine now.", "note": "mine", "head": "Mine"}):
        answer = ask(sites, path.format(**one), form)
        assert answer.status == 403
        assert one["protected_by"] in answer.body
    assert not sites.changes()


def test_a_protected_page_is_not_brought_back_to_an_earlier_version_either(sites: Sites) -> None:
    row = sites.db.row(
        """SELECT wiki_revisions.id FROM wiki_revisions JOIN wiki_pages ON wiki_pages.id = wiki_revisions.page_id
           JOIN wiki_parts ON wiki_parts.id = part_id
           WHERE protected_by <> '' AND wiki_parts.body <> wiki_revisions.body"""
    )
    assert row is not None
    assert ask(sites, f"/versions/{row['id']}/restore", {}).status == 403
    assert not sites.changes()


def test_an_earlier_version_comes_back_as_a_new_one(sites: Sites) -> None:
    row = sites.db.row(
        """SELECT wiki_revisions.* FROM wiki_revisions JOIN wiki_pages ON wiki_pages.id = wiki_revisions.page_id
           JOIN wiki_parts ON wiki_parts.id = part_id
           WHERE protected_by = '' AND wiki_parts.body <> wiki_revisions.body"""
    )
    assert row is not None
    ask(sites, f"/versions/{row['id']}/restore", {})
    text, version = sites.changes()
    assert text.columns == {"body": row["body"]}
    assert version.kind == "insert"
    ask(sites, f"/versions/{row['id']}/restore", {})
    assert len(sites.changes()) == 2, "what it says already is not brought back again"


def test_only_ones_own_comment_is_taken_back(sites: Sites) -> None:
    me = sites.db.value("SELECT name FROM accounts WHERE site = 'wiki' ORDER BY id")
    other = sites.db.value("SELECT id FROM wiki_comments WHERE author <> ?", me)
    assert ask(sites, f"/comments/{other}/delete", {}).status == 403
    ask(sites, "/pages/1/talk", {"text": "I was here."})
    own = sites.db.value("SELECT max(id) FROM wiki_comments")
    ask(sites, f"/comments/{own}/delete", {})
    assert not sites.changes()


def test_a_page_is_made_in_three_steps_none_of_which_can_be_left_out(sites: Sites) -> None:
    assert ask(sites, "/new/publish", {}).status == 409
    ask(sites, "/new", {"title": "Bees on the roof", "section": "how-tos"})
    assert ask(sites, "/new/publish", {}).status == 409
    ask(sites, "/new/text", {"head": "Why", "body": "For the honey."})
    assert not sites.changes()
    ask(sites, "/new/publish", {})
    assert [change.table for change in sites.changes()] == ["wiki_pages", "wiki_parts", "wiki_revisions"]
    assert ask(sites, "/new/publish", {}).status == 409, "it is made once"


def test_two_pages_never_have_one_title(sites: Sites) -> None:
    title = sites.db.value("SELECT title FROM wiki_pages")
    assert ask(sites, "/new", {"title": title.upper(), "section": "people"}).location == "/new"
    assert "already" in ask(sites, "/new").body


def test_a_link_in_the_facts_is_no_text_to_be_changed(sites: Sites) -> None:
    fact = sites.db.row("SELECT * FROM wiki_facts WHERE to_page_id > 0 ORDER BY id")
    assert fact is not None
    ask(sites, f"/pages/{fact['page_id']}/facts", {f"fact{fact['id']}": "nobody", "note": "gone"})
    assert not sites.changes()


def test_who_stops_watching_and_watches_again_has_changed_nothing(sites: Sites) -> None:
    page = sites.db.value("SELECT page_id FROM wiki_watches")
    ask(sites, f"/pages/{page}/watch", {"how": "off"})
    assert sites.changes()
    ask(sites, f"/pages/{page}/watch", {"how": "on"})
    assert not sites.changes()


def test_a_stranger_reads_and_changes_nothing(sites: Sites) -> None:
    assert ask(sites, "/pages/1", member=False).status == 200
    assert ask(sites, "/pages/1/talk", {"text": "Hello"}, member=False).location.startswith("/login")
    assert not sites.changes()


def test_pages_of_a_listing_hold_each_row_once(sites: Sites) -> None:
    count = sites.db.value("SELECT count(*) FROM wiki_pages")
    shown = [ask(sites, f"/pages?page={number}").body for number in range(1, -(-count // 10) + 1)]
    for row in sites.db.rows("SELECT id FROM wiki_pages"):
        assert sum(f'href="/pages/{row["id"]}"' in body for body in shown) == 1
    assert ask(sites, "/pages?page=99999999999").status == 200


def test_what_is_called_so_is_found_before_what_says_so(sites: Sites) -> None:
    sites.db.insert("wiki_pages", title="Badger", section="people", protected_by="")
    body = ask(sites, "/pages?q=badge").body
    assert body.index("Badger") < body.index("/pages/", body.index("Badger"))


def test_looking_writes_nothing(sites: Sites) -> None:
    before = sites.db.writes
    for path in (
        "/",
        "/pages?q=a&sort=oldest",
        "/pages/1",
        "/pages/1/history",
        "/pages/1/talk",
        "/versions/1",
        "/changes",
    ):
        assert ask(sites, path).status == 200
    for path in ("/watching", "/new", "/pages/1/parts", "/pages/1/facts", "/parts/1/edit"):
        assert ask(sites, path).status == 200
    assert sites.db.writes == before
