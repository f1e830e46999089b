"""Tasks of the forum: looking up facts, and writing posts."""

from __future__ import annotations

from typing import Any

from ....rows.database import Row
from ....rows.expected import Must, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.accounts import account_of
from ...simulators.forum.rows import POSTS, REASONS, THREADS
from ..walk import Walk
from .duties import TEMPLATES as DUTIES
from .walking import open_post, open_thread

SAID = (
    "Thank you, that helped me a lot.",
    "I had the same problem last winter.",
    "Mine works fine after three years.",
    "Have you asked the manufacturer?",
    "I would wait for the next sale.",
    "The library has a manual.",
)
ALONE = f"""SELECT * FROM ({POSTS}) AS post WHERE NOT hidden AND account_id <> ?
    AND (SELECT count(*) FROM forum_posts WHERE thread_id = post.thread_id AND account_id = post.account_id) = 1"""
"""Posts of others that are the only one of their author in their thread."""


def me_in(scene: Scene) -> Any:
    """Return the id of the user's account."""
    return account_of(scene.db, "forum")["id"]


@template("forum", kind="lookup")
def forum_member(scene: Scene) -> TaskDraft:
    """Ask for a fact about a member, at higher levels without the member's name."""
    thread = scene.row(f"SELECT * FROM ({THREADS}) WHERE account_id <> ?", me_in(scene))
    named = scene.level < 3
    profile = scene.row("SELECT * FROM forum_profiles WHERE account_id = ?", thread["account_id"])
    what = scene.rng.pick(("joined", "motto"))
    who = thread["author"] if named else f"the member who started the thread '{thread['title']}'"
    prompt = {
        "joined": f"On what date did {who} join the forum?",
        "motto": f"What is the forum motto of {who}?",
    }[what]

    def solve(walk: Walk) -> None:
        if named:
            walk.goto("forum")
            walk.click(walk.word("members"))
            walk.fill(walk.word("words"), who)
            walk.click(walk.word("search"))
            walk.click(who, within=walk.entry(who))
        else:
            open_thread(walk, thread["title"])
            walk.click(walk.fact(walk.word("author")))
        walk.answer(walk.fact(walk.word(what)))

    return TaskDraft(prompt, solve, answer=Text(profile[what]), secrets=(profile[what],))


@template("forum", kind="filter")
def forum_top_thread(scene: Scene) -> TaskDraft:
    """Ask for the thread of a board with the most replies or likes; at higher levels only among unlocked ones."""
    board = scene.row("SELECT * FROM forum_boards")
    most, unlocked = scene.rng.pick(("replies", "likes")), scene.level > 2
    rows = scene.db.rows(
        f"SELECT * FROM ({THREADS}) WHERE board_id = ? AND (NOT locked OR ?)", board["id"], not unlocked
    )
    rows.sort(key=lambda row: -int(row[most]))
    scene.need(len(rows) > 2 and rows[0][most] > rows[1][most])
    limit = " that are not locked" if unlocked else ""
    what = "replies" if most == "replies" else "likes on all its posts"
    where = f"Of the threads in the forum's board '{board['name']}'{limit}"
    prompt = f"{where}, which one has the most {what}? Tell me its title."

    def solve(walk: Walk) -> None:
        walk.goto("forum")
        walk.click(walk.word("threads"), first=True)
        walk.choose(walk.word("board"), board["name"])
        if unlocked:
            walk.choose(walk.word("status"), "open")
        walk.choose(walk.word("sort"), walk.word(most))
        walk.click(walk.word("search"))
        walk.answer(walk.entries()[0].name)

    return TaskDraft(prompt, solve, answer=Text(rows[0]["title"]), secrets=(rows[0]["title"],))


@template("forum", kind="form")
def forum_reply(scene: Scene) -> TaskDraft:
    """Reply to a thread, and at higher levels also subscribe to it."""
    me, too = me_in(scene), scene.level > 2
    followed = "SELECT thread_id FROM forum_follows WHERE account_id = ?"
    row = scene.row(f"SELECT * FROM forum_threads WHERE NOT locked AND id NOT IN ({followed})", me)
    text = scene.rng.pick(SAID)
    also = " Also subscribe to that thread." if too else ""
    prompt = f"Reply to the thread '{row['title']}' in the forum with this text: {text}{also}"
    must: list[Must] = [inserted("forum_posts", "reply", thread_id=row["id"], account_id=me, text=Text(text), hidden=0)]
    if too:
        must.append(inserted("forum_follows", "subscribed", thread_id=row["id"], account_id=me))

    def solve(walk: Walk) -> None:
        open_thread(walk, row["title"])
        if too:
            walk.click(walk.word("follow"))
        walk.fill(walk.word("text"), text)
        walk.click(walk.word("reply"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("forum", kind="checkout")
def forum_new_thread(scene: Scene) -> TaskDraft:
    """Start a thread in a board, and at higher levels subscribe to it."""
    me, board, too = me_in(scene), scene.row("SELECT * FROM forum_boards"), scene.level > 2
    words, text = scene.cast.words, scene.rng.pick(SAID)
    title = f"Meeting in {scene.pick(words['city'])} about the {scene.pick(words['topic'])}"
    scene.need(scene.db.row("SELECT id FROM forum_threads WHERE lower(title) = lower(?)", title) is None)
    also = " Then subscribe to the new thread." if too else ""
    prompt = (
        f"Start a thread in the forum's board '{board['name']}' with the title '{title}' and this text: {text}{also}"
    )
    id = scene.next_id("forum_threads")
    columns = {"board_id": board["id"], "account_id": me, "title": Text(title), "pinned": 0, "locked": 0}
    must: list[Must] = [
        inserted("forum_threads", "thread", **columns),
        inserted("forum_posts", "first post", thread_id=id, account_id=me, text=Text(text), hidden=0),
    ]
    if too:
        must.append(inserted("forum_follows", "subscribed", thread_id=id, account_id=me))

    def solve(walk: Walk) -> None:
        walk.goto("forum")
        walk.click(board["name"], within=walk.entry(board["name"]))
        walk.click(walk.word("new_thread"))
        walk.fill(walk.word("title"), title)
        walk.fill(walk.word("text"), text)
        walk.click(walk.word("continue"))
        walk.click(walk.word("publish"))
        if too:
            walk.click(walk.word("follow"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("forum", kind="form")
def forum_like(scene: Scene) -> TaskDraft:
    """Like another member's post, at higher levels two posts; or remove a like."""
    me = me_in(scene)
    liked = {row["post_id"]: row["id"] for row in scene.db.rows("SELECT * FROM forum_likes WHERE account_id = ?", me)}
    off = scene.rng.random() < 0.35
    rows = [row for row in scene.db.rows(ALONE, me) if (row["id"] in liked) == off]
    many = 1 if scene.level < 3 or off else 2
    scene.need(len(rows) >= many)
    chosen = scene.rng.sample(rows, many)
    which = " and ".join(f"the post by {row['author']} in the thread '{row['title']}'" for row in chosen)
    prompt = f"In the forum, remove my like from {which}." if off else f"In the forum, like {which}."
    must = [
        deleted("forum_likes", liked[row["id"]]) if off
        else inserted("forum_likes", f"like {row['id']}", post_id=row["id"], account_id=me)
        for row in chosen
    ]  # fmt: skip

    def solve(walk: Walk) -> None:
        for row in chosen:
            open_post(walk, row["title"], row["author"])
            walk.click(walk.word("unlike" if off else "like"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("forum", kind="form")
def forum_report(scene: Scene) -> TaskDraft:
    """Report a post, given by its thread and author, or at higher levels by its words."""
    me, by_words = me_in(scene), scene.level > 2
    row, reason = scene.row(ALONE, me), scene.rng.pick(REASONS)
    remark = scene.rng.pick(("Please have a look.", "This is the third time.", "I know the author well.", "See above."))
    which = f'that says "{row["text"]}"' if by_words else f"by {row['author']} in the thread '{row['title']}'"
    prompt = f"Report the post {which} to the forum's moderator. The reason is '{reason}'; add the remark: {remark}"
    wanted = {"post_id": row["id"], "account_id": me, "reason": reason, "remark": Text(remark), "state": "open"}

    def solve(walk: Walk) -> None:
        if by_words:
            walk.goto("forum")
            walk.click(walk.word("find_posts"))
            walk.fill(walk.word("words"), row["text"])
            walk.click(walk.word("search"))
            entry = walk.seek(lambda one: one[walk.word("text")] == row["text"])
            walk.click(entry.name, within=entry)
        else:
            open_post(walk, row["title"], row["author"])
        walk.click(walk.word("report"))
        walk.choose(walk.word("reason"), reason)
        walk.fill(walk.word("remark"), remark)
        walk.click(walk.word("send"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(inserted("forum_reports", "report", **wanted),))


@template("forum", kind="form")
def forum_edit(scene: Scene) -> TaskDraft:
    """Rewrite a post of the user's, given by its thread, or at higher levels by a word and its age."""
    me, text = account_of(scene.db, "forum"), scene.rng.pick(SAID)
    sql = f"SELECT * FROM ({POSTS}) WHERE NOT hidden AND account_id = ? ORDER BY created_at DESC"
    mine = scene.db.rows(sql, me["id"])
    row, word = scene.pick(mine), ""
    if scene.level < 3:
        scene.need(sum(one["thread_id"] == row["thread_id"] for one in mine) == 1)
        which = f"my post in the thread '{row['title']}'"
    else:
        words = [*scene.cast.words["city"], *scene.cast.words["brand"], *scene.cast.words["thing"]]
        word = scene.pick([one for one in words if one in row["text"]])
        found: list[Row] = [one for one in mine if word.lower() in one["text"].lower()]
        scene.need(len(found) > 1 and found[0]["created_at"] > found[1]["created_at"])
        row, which = found[0], f"my latest post that contains '{word}'"
    scene.need(not row["locked"])
    prompt = f"In the forum, replace the whole text of {which} with: {text}"

    def solve(walk: Walk) -> None:
        if word:
            walk.goto("forum")
            walk.click(walk.word("find_posts"))
            walk.fill(walk.word("words"), word)
            walk.choose(walk.word("author"), str(me["name"]))
            walk.click(walk.word("search"))
            entry = walk.entries()[0]
            walk.click(entry.name, within=entry)
        else:
            open_post(walk, row["title"], str(me["name"]))
        walk.click(walk.word("edit"))
        walk.fill(walk.word("text"), text)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(updated("forum_posts", row["id"], "text", text=Text(text)),))


TEMPLATES = (
    forum_member,
    forum_top_thread,
    forum_reply,
    forum_new_thread,
    forum_like,
    forum_report,
    forum_edit,
    *DUTIES,
)
"""All templates of the forum."""
