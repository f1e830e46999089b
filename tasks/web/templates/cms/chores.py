"""Tasks of the newsroom with several changes at once, and tasks about banners."""

from __future__ import annotations

from ....rows.expected import updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.cms.desk import ARTICLES, COMMENTS
from ..walk import Walk


@template("cms", kind="moderation")
def cms_moderate(scene: Scene) -> TaskDraft:
    """Decide about all waiting comments on an article; at higher levels reject those of one reader."""
    waiting = scene.db.rows(f"SELECT * FROM ({COMMENTS}) WHERE status = 'waiting' ORDER BY id")
    title = scene.pick(sorted({row["title"] for row in waiting}))
    rows = [row for row in waiting if row["title"] == title]
    bad = scene.pick(sorted({row["author"] for row in rows})) if scene.level > 2 else ""
    scene.need(len(rows) > 1 and (not bad or any(row["author"] != bad for row in rows)))
    prompt = f"In the newsroom, approve every comment on the article '{title}' that is waiting for a decision"
    prompt += f", but reject those by {bad}." if bad else "."
    must = tuple(
        updated(
            "cms_comments", row["id"], f"comment {row['id']}", status="rejected" if row["author"] == bad else "approved"
        )
        for row in rows
    )

    def listed(walk: Walk) -> None:
        walk.click(walk.word("comments"))
        walk.fill(walk.word("words"), title)
        walk.choose(walk.word("status"), "waiting")
        walk.click(walk.word("search"))

    def solve(walk: Walk) -> None:
        walk.goto("cms")
        listed(walk)
        found = [(one.name, one[walk.word("author")] == bad) for one in walk.all_entries()]
        for verdict, turned_down in (("approve", False), ("reject", True)):
            left = [name for name, by_bad in found if by_bad == turned_down]
            while left:
                listed(walk)
                walk.entry(left[0])
                here = [one for one in walk.entries() if one.name in left]
                for one in here:
                    walk.check(one[walk.word("select")])
                walk.click(walk.word(verdict))
                left = [name for name in left if name not in {one.name for one in here}]
        walk.answer()

    return TaskDraft(prompt, solve, must=must)


@template("cms", kind="moderation")
def cms_hand_in(scene: Scene) -> TaskDraft:
    """Submit all drafts of an author for review, at higher levels all of a category, which has more."""
    of = "author" if scene.level < 3 else "category"
    one = scene.row(f"SELECT DISTINCT {of} AS name FROM ({ARTICLES}) ORDER BY {of}")["name"]
    rows = scene.db.rows(f"SELECT * FROM ({ARTICLES}) WHERE status = 'draft' AND {of} = ? ORDER BY id", one)
    scene.need((1 if scene.level < 3 else 3) <= len(rows) <= 7)
    which = f"by {one}" if of == "author" else f"in the category '{one}'"
    prompt = f"In the newsroom, submit every draft {which} for review, and no other article."

    def solve(walk: Walk) -> None:
        walk.goto("cms")
        walk.click(walk.word("articles"))
        walk.choose(walk.word("status"), "draft")
        walk.choose(walk.word(of), one)
        walk.click(walk.word("search"))
        while here := walk.entries():
            for entry in here:
                walk.check(entry[walk.word("select")])
            walk.choose(walk.word("action"), walk.word("hand_in"))
            walk.click(walk.word("go"))
        walk.answer()

    must = tuple(updated("cms_articles", row["id"], f"{row['title']} handed in", status="review") for row in rows)
    return TaskDraft(prompt, solve, must=must)


@template("cms", kind="form")
def cms_banner(scene: Scene) -> TaskDraft:
    """Change the last day of a banner, at higher levels also the first."""
    rows = scene.db.rows("SELECT * FROM cms_banners ORDER BY id")
    row = scene.pick([one for one in rows if one["ends"] >= scene.cast.day(0)])
    later = scene.rng.randint(60, 90)
    first, last = scene.cast.day(later - scene.rng.randint(2, 20)), scene.cast.day(later)
    begins = first if scene.level > 2 else row["begins"]
    beside = [one for one in rows if one["place"] == row["place"] and one["id"] != row["id"]]
    scene.need(all(one["ends"] < begins or one["begins"] > last for one in beside) and last != row["ends"])
    if scene.level > 2:
        prompt = f"In the newsroom, change the banner '{row['name']}' to run from {begins} to {last}."
        must = updated("cms_banners", row["id"], "banner", begins=begins, ends=last)
    else:
        prompt = f"In the newsroom, change the last day of the banner '{row['name']}' to {last}."
        must = updated("cms_banners", row["id"], "banner", ends=last)
    scene.need(scene.level < 3 or begins != row["begins"])

    def solve(walk: Walk) -> None:
        walk.goto("cms")
        walk.click(walk.word("banners"))
        walk.click(row["name"], within=walk.entry(row["name"]))
        if scene.level > 2:
            walk.fill(walk.word("begins"), begins)
        walk.fill(walk.word("ends"), last)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(must,))


CHORES = (cms_moderate, cms_hand_in, cms_banner)
"""Templates of this module."""
