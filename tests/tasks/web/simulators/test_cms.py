"""The newsroom: what may be published, who may change what, and what of several things at once is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from turnwise.tasks.rng import Rng
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split
from turnwise.tasks.web.simulators.catalogue import base_world
from turnwise.tasks.web.simulators.cms.site import Newsroom
from turnwise.tasks.web.simulators.http import Request, Response, Values
from turnwise.tasks.web.simulators.sites import Rules, Sites
from turnwise.tasks.web.simulators.theme import theme_of


@pytest.fixture
def sites() -> Iterator[Sites]:
    base = base_world(Split.TRAIN, 0)
    themes = {"cms": theme_of(Rng("theme"), Newsroom.label_variants(), plain=True)}
    made = Sites(Database(base.image), (Newsroom,), Rules(themes, 10, base.cast.now))
    become(made, "editor")
    yield made
    made.db.close()


def become(sites: Sites, role: str) -> str:
    """Log in as a user with a role, and return the name."""
    row = sites.db.row("SELECT * FROM accounts WHERE site = 'cms' AND role = ? ORDER BY id", role)
    assert row is not None
    sites.enter("cms", row["id"])
    return str(row["name"])


def ask(sites: Sites, path: str, form: Any = None) -> Response:
    """Form: a mapping, or pairs where a name comes several times."""
    path, _, query = path.partition("?")
    pairs = form.items() if isinstance(form, dict) else form or ()
    fields = Values([(name, str(value)) for name, value in pairs])
    method, cookies = "GET" if form is None else "POST", {"session": "begun"}
    return sites.handle(Request(method, "cms.test", path, Values.of(query), fields, cookies))


def article(sites: Sites, where: str, *values: Any) -> dict[str, Any]:
    row = sites.db.row(
        f"""SELECT cms_articles.*, review, cms_authors.name AS author FROM cms_articles
            JOIN cms_categories ON cms_categories.name = category JOIN cms_authors ON cms_authors.id = author_id
            WHERE {where}""",
        *values,
    )
    assert row is not None
    return row


def entered(row: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {name: row[name] for name in ("title", "slug", "category", "author", "lead", "text")} | changed


@pytest.mark.parametrize("form", [{"how": "publish"}, {"how": "schedule", "day": "2030-01-01"}])
def test_a_draft_of_the_strict_desk_is_not_published_before_it_was_reviewed(sites: Sites, form: dict[str, str]) -> None:
    row = article(sites, "status <> 'published' AND review")
    sites.db.update("cms_articles", row["id"], status="draft", publish_on="")
    sites.db.forget()
    ask(sites, f"/articles/{row['id']}/state", form)
    assert not sites.changes()
    ask(sites, f"/articles/{row['id']}/state", {"how": "hand_in"})
    ask(sites, f"/articles/{row['id']}/state", form)
    (change,) = sites.changes()
    assert change.columns["status"] in ("published", "scheduled")


def test_a_draft_of_another_desk_is_published_at_once(sites: Sites) -> None:
    row = article(sites, "status = 'draft' AND NOT review")
    ask(sites, f"/articles/{row['id']}/state", {"how": "publish"})
    (change,) = sites.changes()
    assert change.columns == {"status": "published", "publish_on": sites.rules.now.date().isoformat()}


@pytest.mark.parametrize("day", ["", "tomorrow", "2030-02-30", "2001-01-01", "99999999"])
def test_a_day_that_is_none_or_past_is_not_planned(sites: Sites, day: str) -> None:
    row = article(sites, "status = 'review'")
    ask(sites, f"/articles/{row['id']}/state", {"how": "schedule", "day": day})
    assert not sites.changes()


def test_no_two_articles_have_one_slug(sites: Sites) -> None:
    row = article(sites, "status = 'draft'")
    other = article(sites, "cms_articles.id <> ?", row["id"])
    answer = ask(sites, f"/articles/{row['id']}/edit", entered(row, slug=other["slug"], lead="Something new."))
    assert answer.status == 422
    assert "Something new." in answer.body
    assert other["slug"] in answer.body
    assert ask(sites, "/articles/new", entered(row)).status == 422
    assert not sites.changes()


@pytest.mark.parametrize(
    ("name", "value"), [("title", ""), ("slug", "No Slug"), ("category", "gossip"), ("author", "x")]
)
def test_what_is_wrong_in_a_form_is_said_and_nothing_is_kept(sites: Sites, name: str, value: str) -> None:
    row = article(sites, "status = 'draft'")
    answer = ask(sites, f"/articles/{row['id']}/edit", entered(row, **{name: value}))
    assert answer.status == 422
    assert answer.body.count('class="wrong"') == 1
    assert not sites.changes()


def test_a_reporter_changes_only_what_is_their_own_and_publishes_nothing(sites: Sites) -> None:
    name = become(sites, "reporter")
    own, other = article(sites, "cms_authors.name = ?", name), article(sites, "cms_authors.name <> ?", name)
    assert ask(sites, f"/articles/{other['id']}/edit", entered(other, title="Mine")).status == 403
    assert ask(sites, f"/articles/{own['id']}/edit", entered(own, author=other["author"])).status == 422
    assert ask(sites, f"/articles/{own['id']}/state", {"how": "publish"}).status == 403
    assert ask(sites, "/comments", {"how": "approve", "comment": 1}).status == 403
    assert not sites.changes()
    ask(sites, f"/articles/{own['id']}/edit", entered(own, title="Mine"))
    assert len(sites.changes()) == 1


def test_several_articles_are_handed_in_together_or_not_at_all(sites: Sites) -> None:
    drafts = sites.db.rows("SELECT id FROM cms_articles WHERE status = 'draft' LIMIT 3")
    online = article(sites, "status = 'published'")
    chosen = [("article", row["id"]) for row in drafts]
    ask(sites, "/articles", [*chosen, ("article", online["id"]), ("how", "hand_in")])
    assert not sites.changes()
    ask(sites, "/articles", [*chosen, ("how", "hand_in")])
    assert [change.columns for change in sites.changes()] == [{"status": "review"}] * 3


def test_comments_are_decided_together_and_the_filter_stays(sites: Sites) -> None:
    rows = sites.db.rows("SELECT id FROM cms_comments WHERE status = 'waiting' LIMIT 2")
    chosen = [("comment", row["id"]) for row in rows]
    answer = ask(sites, "/comments", [*chosen, ("how", "reject"), ("back", "status=waiting&q=a")])
    assert answer.location == "/comments?status=waiting&q=a"
    assert [change.columns for change in sites.changes()] == [{"status": "rejected"}] * 2


def test_two_banners_never_stand_at_one_place_on_one_day(sites: Sites) -> None:
    first, second = sites.db.rows("SELECT * FROM cms_banners WHERE place = 'top' ORDER BY begins LIMIT 2")
    form = {"name": first["name"], "place": "top", "begins": first["begins"], "ends": second["begins"]}
    answer = ask(sites, f"/banners/{first['id']}", form)
    assert answer.status == 422
    assert second["name"] in answer.body
    backwards = {"name": "Backwards", "place": "top", "begins": "2030-01-02", "ends": "2030-01-01"}
    assert ask(sites, "/banners/new", backwards).status == 422
    assert not sites.changes()


def test_a_tag_that_is_in_use_stays(sites: Sites) -> None:
    used = sites.db.value("SELECT tag_id FROM cms_taggings")
    ask(sites, f"/tags/{used}/delete", {})
    assert not sites.changes()
    article_id = sites.db.value("SELECT article_id FROM cms_taggings WHERE tag_id = ?", used)
    for how in ("off", "on"):
        ask(sites, f"/articles/{article_id}/tags", {"tag": used, "how": how})
    assert not sites.changes(), "taken off and put on again, it is where it was"


def test_only_the_chief_gives_roles(sites: Sites) -> None:
    id = sites.db.value("SELECT id FROM accounts WHERE site = 'cms' AND role = 'reporter'")
    assert ask(sites, f"/users/{id}/role", {f"role{id}": "chief"}).status == 403
    become(sites, "chief")
    ask(sites, f"/users/{id}/role", {f"role{id}": "editor"})
    assert [change.columns for change in sites.changes()] == [{"role": "editor"}]
    assert ask(sites, "/users/1/role", {"role1": "editor"}).status == 403, "accounts of other sites are none of ours"


def test_pages_of_a_listing_hold_each_row_once(sites: Sites) -> None:
    shown = [ask(sites, f"/articles?page={number}").body for number in range(1, 10)]
    for row in sites.db.rows("SELECT id FROM cms_articles"):
        assert sum(f'href="/articles/{row["id"]}"' in body for body in shown) == 1


def test_looking_writes_nothing(sites: Sites) -> None:
    before = sites.db.writes
    paths = (
        "/",
        "/articles?q=a&sort=views",
        "/articles/1",
        "/articles/1/edit",
        "/articles/new",
        "/comments",
        "/banners",
    )
    for path in (*paths, "/banners/1", "/media?sort=size", "/tags", "/authors", "/authors/1", "/categories", "/users"):
        assert ask(sites, path).status == 200
    assert sites.db.writes == before
