"""Tasks of the wiki that change a page or the watch list."""

from __future__ import annotations

from ....rows.expected import Evidence, Must, Refusal, Text, deleted, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.accounts import account_of
from ...simulators.wiki.company import SECTIONS, sentences
from ..walk import Walk
from .asked import LOOKUPS, hops, open_page

REMARKS = (
    "Please mention the new building here.",
    "The photo has been missing since March.",
    "Is there a shorter way?",
    "I printed this for the workshop.",
    "This should be linked from the front page.",
    "The numbers are from last year, I think.",
)
ADDED = (
    "Ask at the front desk if in doubt.",
    "The blue form is no longer used.",
    "There has been a list of helpers since this spring.",
    "Questions are answered on the second floor.",
    "A copy hangs in the kitchen.",
)
REASONS = ("requested by the board", "new since Monday", "was missing", "from the front desk", "from the last audit")

WRONG = (
    ("handbook", "Approved by", "Extension", "The person who approved the rules '{}' has a new extension"),
    ("products", "Owner", "Cost center", "The team that owns the product '{}' has a new cost center"),
    ("how-tos", "Contact", "Extension", "The contact of the how-to '{}' has a new extension"),
    ("offices", "Keyholder", "Extension", "The keyholder of '{}' has a new extension"),
)
"""Facts that may be wrong: section, fact with the link to follow, wrong fact, and wording."""


def _mine(scene: Scene) -> tuple[int, str]:
    """Return the id and name of the user's account."""
    row = account_of(scene.db, "wiki")
    return int(str(row["id"])), str(row["name"])


@template("wiki", kind="form")
def wiki_comment(scene: Scene) -> TaskDraft:
    """Comment on a page, at higher levels also watch it."""
    me, name = _mine(scene)
    row = scene.row(
        "SELECT * FROM wiki_pages WHERE id NOT IN (SELECT page_id FROM wiki_watches WHERE account_id = ?)", me
    )
    text, watch = scene.pick(REMARKS), scene.level > 2
    prompt = f"Leave a comment on the wiki page '{row['title']}': {text}"
    must: list[Must] = [inserted("wiki_comments", "comment", page_id=row["id"], author=name, text=Text(text))]
    if watch:
        prompt += " Also add that page to my watch list."
        must.append(inserted("wiki_watches", "watched", account_id=me, page_id=row["id"]))

    def solve(walk: Walk) -> None:
        open_page(walk, row["title"])
        if watch:
            walk.click(walk.word("watch"))
        walk.click(walk.word("talk"))
        walk.fill(walk.word("comment"), text)
        walk.click(walk.word("send"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("wiki", kind="form")
def wiki_edit(scene: Scene) -> TaskDraft:
    """Add a sentence to a paragraph, or at higher levels replace one."""
    _, name = _mine(scene)
    row = scene.row(
        """SELECT wiki_parts.*, title FROM wiki_parts JOIN wiki_pages ON wiki_pages.id = page_id
           WHERE protected_by = ''"""
    )
    sentence, note = scene.pick(ADDED), scene.pick(REASONS)
    old = scene.pick([one for one in sentences()[row["head"]] if one in row["body"]]) if scene.level > 2 else ""

    def changed(text: str) -> str:
        return text.replace(old, sentence) if old else f"{text} {sentence}"

    what = f"replace the sentence '{old}' with '{sentence}'" if old else f"add the sentence '{sentence}' at the end"
    prompt = (
        f"On the wiki page '{row['title']}', under '{row['head']}', {what}. Leave the other sentences as they are."
        f" Enter this as the summary of the change: {note}"
    )
    body = changed(row["body"])
    columns = {"page_id": row["page_id"], "part_id": row["id"], "author": name, "note": Text(note), "body": Text(body)}
    must = (updated("wiki_parts", row["id"], "text", body=Text(body)), inserted("wiki_revisions", "version", **columns))

    def solve(walk: Walk) -> None:
        open_page(walk, row["title"])
        walk.click(f"{walk.word('edit')}: {row['head']}")
        walk.fill(walk.word("text"), changed(walk.fact(walk.word("present"))))
        walk.fill(walk.word("note"), note)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=must)


@template("wiki", kind="checkout")
def wiki_new_page(scene: Scene) -> TaskDraft:
    """Create a page in three steps; at higher levels, add it to the watch list."""
    me, name = _mine(scene)
    section = scene.pick(SECTIONS)
    title = f"{scene.pick(scene.cast.words['topic']).capitalize()} {scene.pick(('plan', 'guide', 'rules', 'basics'))}"
    title += f" {scene.rng.randint(2, 9)}"
    head, body = scene.pick(("Overview", "In short", "Why this page")), " ".join(scene.rng.sample(list(ADDED), 2))
    watch = scene.level > 2
    prompt = (
        f"Write a new page '{title}' in the section '{section}' of the wiki. The heading of its first paragraph is"
        f" '{head}', and its text is: {body}"
    )
    page, part = scene.next_id("wiki_pages"), scene.next_id("wiki_parts")
    first = {"page_id": page, "head": Text(head), "body": Text(body)}
    version = {"page_id": page, "part_id": part, "author": name, "body": Text(body)}
    must: list[Must] = [
        inserted("wiki_pages", "page", title=Text(title), section=section, protected_by=""),
        inserted("wiki_parts", "paragraph", **first),
        inserted("wiki_revisions", "version", **version),
    ]
    if watch:
        prompt += " Then add the page to my watch list."
        must.append(inserted("wiki_watches", "watched", account_id=me, page_id=page))

    def solve(walk: Walk) -> None:
        walk.goto("wiki")
        walk.click(walk.word("new_page"))
        walk.fill(walk.word("name"), title)
        walk.choose(walk.word("section"), section)
        walk.click(walk.word("continue"))
        walk.fill(walk.word("head"), head)
        walk.fill(walk.word("text"), body)
        walk.click(walk.word("continue"))
        walk.click(walk.word("publish"))
        if watch:
            walk.click(walk.word("watch"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(must))


@template("wiki", kind="moderation")
def wiki_restore(scene: Scene) -> TaskDraft:
    """Undo the last change of a paragraph; at higher levels other paragraphs have changed since."""
    _, name = _mine(scene)
    row = scene.row(
        """SELECT wiki_parts.*, title FROM wiki_parts JOIN wiki_pages ON wiki_pages.id = page_id
           WHERE protected_by = ''"""
    )
    past = scene.db.rows("SELECT * FROM wiki_revisions WHERE page_id = ? ORDER BY created_at DESC", row["page_id"])
    own = [one for one in past if one["part_id"] == row["id"]]
    scene.need(len(own) > 1 and (past[0]["part_id"] != row["id"]) == (scene.level > 2))
    body = own[1]["body"]
    prompt = (
        f"The last change to the paragraph '{row['head']}' of the wiki page '{row['title']}' was a mistake. Restore"
        " the previous version of that paragraph."
    )
    version = {"page_id": row["page_id"], "part_id": row["id"], "author": name, "body": Text(body)}
    must = (updated("wiki_parts", row["id"], "text", body=Text(body)), inserted("wiki_revisions", "version", **version))

    def solve(walk: Walk) -> None:
        open_page(walk, row["title"])
        walk.click(walk.word("history"))
        before = [one.name for one in walk.all_entries() if one[walk.word("what")] == row["head"]][1]
        open_page(walk, row["title"])
        walk.click(walk.word("history"))
        walk.click(before, within=walk.entry(before))
        walk.click(walk.word("restore"))
        walk.answer()

    return TaskDraft(prompt, solve, must=must)


@template("wiki", kind="moderation")
def wiki_unwatch(scene: Scene) -> TaskDraft:
    """Remove all pages of one section from the watch list; at higher levels there are several."""
    me, _ = _mine(scene)
    rows = scene.db.rows(
        """SELECT wiki_watches.id, title, section FROM wiki_watches JOIN wiki_pages ON wiki_pages.id = page_id
           WHERE account_id = ?""",
        me,
    )
    section = scene.pick(sorted({row["section"] for row in rows}))
    gone = [row for row in rows if row["section"] == section]
    scene.need(len(gone) < len(rows) and len(gone) >= (2 if scene.level > 2 else 1))
    prompt = (
        f"I am no longer interested in '{section}'. Remove every page of that section of the wiki from my watch list,"
        " and leave the others on it."
    )

    def solve(walk: Walk) -> None:
        walk.goto("wiki")
        walk.click(walk.word("watching"))
        names = [one.name for one in walk.all_entries() if one[walk.word("section")] == section]
        for name in names:
            walk.click(walk.word("watching"))
            walk.click(walk.word("unwatch"), within=walk.entry(name))
        walk.answer()

    return TaskDraft(
        prompt, solve, must=tuple(deleted("wiki_watches", row["id"], f"{row['title']} off") for row in gone)
    )


@template("wiki", kind="refusal")
def wiki_protected(scene: Scene) -> TaskDraft:
    """Add a paragraph to a page that may be protected; the evidence is the name of its protector."""
    _, name = _mine(scene)
    protected = scene.rng.random() < 0.5
    row = scene.row("SELECT * FROM wiki_pages WHERE (protected_by <> '') = ? AND section IN ('handbook', 'how-tos')",
                    protected)  # fmt: skip
    head, body = scene.pick(("Good to know", "Ask first", "New this year")), scene.pick(ADDED)
    note = scene.pick(REASONS)
    prompt = (
        f"Add a paragraph to the end of the wiki page '{row['title']}' with the heading '{head}' and this text: {body}"
        f" Summary of the change: {note}. If I'm not allowed to, change nothing and tell me who protects the page."
    )

    def solve(walk: Walk) -> None:
        open_page(walk, row["title"])
        if walk.sees(walk.word("protected_by")):
            walk.refuse(walk.fact(walk.word("protected_by")))
            return
        walk.click(walk.word("add_part"))
        walk.fill(walk.word("head"), head)
        walk.fill(walk.word("text"), body)
        walk.fill(walk.word("note"), note)
        walk.click(walk.word("save"))
        walk.answer()

    if protected:
        others = scene.texts("SELECT DISTINCT protected_by FROM wiki_pages WHERE protected_by <> ''")
        return TaskDraft(prompt, solve, refusal=Refusal("not_allowed", Evidence((row["protected_by"],), others)))
    part = scene.next_id("wiki_parts")
    version = {"page_id": row["id"], "part_id": part, "author": name, "note": Text(note), "body": Text(body)}
    must = (
        inserted("wiki_parts", "paragraph", page_id=row["id"], head=Text(head), body=Text(body)),
        inserted("wiki_revisions", "version", **version),
    )
    return TaskDraft(prompt, solve, must=must)


@template("wiki", kind="form", held_out=True)
def wiki_fix_fact(scene: Scene) -> TaskDraft:
    """Correct a number on a page given only by a page that links to it."""
    _, name = _mine(scene)
    section, by, label, said = scene.pick(WRONG)
    row = scene.row("SELECT * FROM wiki_pages WHERE section = ?", section)
    fact = hops(scene, row["id"], (by, label))[-1]
    owner = scene.db.row("SELECT * FROM wiki_pages WHERE id = ?", fact["page_id"])
    scene.need(owner is not None and not owner["protected_by"])
    value, note = str(scene.rng.randint(1000, 9999)), scene.pick(REASONS)
    scene.need(value != fact["value"])
    prompt = f"{said.format(row['title'])}: {value}. Correct it in the wiki with this summary of the change: {note}"
    version = {"page_id": fact["page_id"], "part_id": 0, "author": name, "note": Text(note), "body": Text(value)}
    must = (
        updated("wiki_facts", fact["id"], label, value=Text(value)),
        inserted("wiki_revisions", "version", what=label, **version),
    )

    def solve(walk: Walk) -> None:
        open_page(walk, row["title"])
        walk.click(walk.fact(by), first=True)
        walk.click(walk.word("edit_facts"))
        walk.fill(label, value)
        walk.fill(walk.word("note"), note)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=must)


TEMPLATES = (
    *LOOKUPS,
    wiki_comment,
    wiki_edit,
    wiki_new_page,
    wiki_restore,
    wiki_unwatch,
    wiki_protected,
    wiki_fix_fact,
)
"""All templates of the wiki."""
