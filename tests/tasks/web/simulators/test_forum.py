"""The forum: who may write, change and moderate what, and that looking changes nothing."""

from __future__ import annotations

import pytest

from turnwise.tasks.rows.database import Row
from turnwise.tasks.web.simulators.forum.site import Forum

from .visiting import ODD, Visitor, paths, shared_labels


@pytest.fixture
def forum() -> Visitor:
    return Visitor(Forum)


def _thread(forum: Visitor, own: bool, locked: int = 0) -> Row:
    sql = """SELECT forum_threads.* FROM forum_threads JOIN forum_boards ON forum_boards.id = board_id
        WHERE (moderator_id = ?) = ? AND locked = ?"""
    row = forum.db.row(sql, forum.first, own, locked)
    assert row is not None
    return row


def _post(forum: Visitor, mine: bool) -> Row:
    sql = """SELECT forum_posts.* FROM forum_posts JOIN forum_threads ON forum_threads.id = thread_id
        WHERE (forum_posts.account_id = ?) = ? AND NOT hidden AND NOT locked ORDER BY forum_posts.id DESC"""
    row = forum.db.row(sql, forum.first, mine)
    assert row is not None
    return row


def test_looking_changes_nothing(forum: Visitor) -> None:
    for path in paths(forum):
        assert forum.get(path).status in (200, 303, 403, 404, 409), path
    assert forum.changed == []


def test_no_two_words_share_a_label() -> None:
    assert shared_labels(Forum) == []


@pytest.mark.parametrize("odd", ODD)
def test_odd_input_gets_a_page_and_changes_nothing(forum: Visitor, odd: str) -> None:
    thread, post = _thread(forum, own=True)["id"], _post(forum, mine=False)["id"]
    board = _thread(forum, own=True)["board_id"]
    assert forum.post(f"/threads/{thread}/move", board=odd).location == f"/threads/{thread}"
    assert forum.post(f"/posts/{post}/report", reason=odd, remark=odd).status == 400
    assert forum.post(f"/boards/{board}/new", title=odd, text="").status == 400
    for path in ("/threads?q={0}&board={0}&author={0}&sort={0}&status={0}&page={0}", "/posts?q={0}", "/members?q={0}"):
        answer = forum.get(path.format(odd.replace("&", "").replace("#", "")))
        assert answer.status in (200, 400)
    assert forum.changed == []


@pytest.mark.parametrize("act", ["lock", "pin", "move"])
def test_only_the_moderator_of_a_board_keeps_its_threads_in_order(forum: Visitor, act: str) -> None:
    foreign, own = _thread(forum, own=False), _thread(forum, own=True)
    assert forum.post(f"/threads/{foreign['id']}/{act}", board=str(own["board_id"])).status == 403
    assert forum.changed == [], "somebody else's board stays as it is"
    assert "For moderators" not in forum.text(f"/threads/{foreign['id']}")
    forum.post(
        f"/threads/{own['id']}/{act}",
        board=str(foreign["board_id"]),
        **({"how": "end"} if own["pinned"] and act == "pin" else {}),
    )
    assert len(forum.changed) == 1


def test_nobody_replies_to_a_locked_thread(forum: Visitor) -> None:
    row = _thread(forum, own=True, locked=1)
    assert forum.post(f"/threads/{row['id']}/reply", text="But I must say this.").status == 403
    assert forum.changed == []
    forum.post(f"/threads/{row['id']}/lock", how="end")
    forum.post(f"/threads/{row['id']}/reply", text="Now I may.")
    assert [one.split(":")[1] for one in forum.changed] == [" insert", " update of locked"]


def test_only_the_author_changes_a_post(forum: Visitor) -> None:
    mine, foreign = _post(forum, mine=True), _post(forum, mine=False)
    for path in ("edit", "delete"):
        assert forum.post(f"/posts/{foreign['id']}/{path}", text="Something else.").status == 403
    assert forum.changed == []
    forum.post(f"/posts/{mine['id']}/edit", text="Something else.")
    assert forum.changed == [f"forum_posts {mine['id']}: update of text"]


def test_what_is_wrong_is_told_and_what_was_written_is_kept(forum: Visitor) -> None:
    row = _thread(forum, own=False)
    answer = forum.post(f"/threads/{row['id']}/reply", text="y" * 2001)
    assert answer.status == 400
    assert "the limit is 2000" in answer.body
    assert "y" * 2001 in answer.body
    again = forum.post("/boards/1/new", title=row["title"].upper(), text="The same once more.")
    assert "A thread with this title already exists." in again.body
    assert "The same once more." in again.body


def test_a_thread_is_published_in_two_steps(forum: Visitor) -> None:
    assert forum.post("/threads").status == 409
    forum.post("/boards/2/new", title="Brand new", text="Nobody has said this.")
    assert forum.changed == [], "a preview is seen by nobody else"
    forum.post("/threads")
    assert [one.split()[0] for one in forum.changed] == ["forum_posts", "forum_threads"]
    assert forum.post("/threads").status == 409, "sent twice, it is published once"


def test_likes_are_for_others_and_a_second_one_is_none(forum: Visitor) -> None:
    mine, other = _post(forum, mine=True), _post(forum, mine=False)
    assert forum.post(f"/posts/{mine['id']}/like").status == 403
    had = forum.db.value("SELECT count(*) FROM forum_likes WHERE post_id = ?", other["id"])
    forum.post(f"/posts/{other['id']}/like", how="end")
    before = forum.db.value("SELECT count(*) FROM forum_likes WHERE post_id = ?", other["id"])
    for _ in range(2):
        forum.post(f"/posts/{other['id']}/like")
    assert forum.db.value("SELECT count(*) FROM forum_likes WHERE post_id = ?", other["id"]) == before + 1
    assert had in (before, before + 1)


def test_reports_are_decided_once_and_by_the_right_moderator(forum: Visitor) -> None:
    sql = """SELECT forum_reports.id, post_id FROM forum_reports JOIN forum_posts ON forum_posts.id = post_id
        JOIN forum_threads ON forum_threads.id = thread_id JOIN forum_boards ON forum_boards.id = board_id
        WHERE (moderator_id = ?) = ? AND state = 'open'"""
    own, foreign = forum.db.row(sql, forum.first, 1), forum.db.row(sql, forum.first, 0)
    assert own is not None
    assert foreign is not None
    assert forum.get(f"/reports/{foreign['id']}").status == 403
    assert forum.post(f"/reports/{foreign['id']}", how="upheld").status == 403
    assert forum.changed == []
    forum.post(f"/reports/{own['id']}", how="upheld")
    forum.post(f"/reports/{own['id']}", how="dismissed")
    assert forum.changed == [
        f"forum_posts {own['post_id']}: update of hidden",
        f"forum_reports {own['id']}: update of state",
    ]


def test_a_hidden_post_is_read_by_its_moderator_only(forum: Visitor) -> None:
    thread = _thread(forum, own=True)
    post = forum.db.row("SELECT * FROM forum_posts WHERE thread_id = ?", thread["id"])
    assert post is not None
    forum.post(f"/posts/{post['id']}/hide")
    assert post["text"] in forum.text(f"/threads/{thread['id']}")
    forum.be(0)
    assert post["text"] not in forum.text(f"/threads/{thread['id']}")
    assert forum.get(f"/posts/{post['id']}").status == 403
    assert f'/posts/{post["id"]}"' not in forum.text(f"/posts?q={post['text']}")


def test_strangers_read_and_do_not_write(forum: Visitor) -> None:
    forum.be(0)
    assert forum.get("/threads/1").status == 200
    assert forum.post("/threads/1/reply", text="Hello.").location.startswith("/login")
    assert forum.get("/reports").location.startswith("/login")
    assert forum.changed == []


def test_pages_show_every_thread_once(forum: Visitor) -> None:
    shown = [forum.text(f"/threads?sort=title&page={page}") for page in range(1, 9)]
    titles = [row["title"] for row in forum.db.rows("SELECT title FROM forum_threads")]
    assert all(sum(f">{title}<" in page for page in shown) == 1 for title in titles)
    assert forum.text("/threads?sort=title&page=99") == shown[-1].replace("page=8", "page=99"), (
        "beyond the last is the last"
    )
