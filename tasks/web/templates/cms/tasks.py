"""Tasks of the newsroom about articles."""

from __future__ import annotations

from ....rows.expected import Evidence, Matcher, Number, Refusal, Text, inserted, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.cms.desk import ARTICLES, CATEGORIES, phrases, slug_of
from ..walk import Walk
from .chores import CHORES


def open_article(walk: Walk, title: str) -> None:
    """Find an article by its title."""
    walk.goto("cms")
    walk.click(walk.word("articles"))
    walk.fill(walk.word("words"), title)
    walk.click(walk.word("search"))
    walk.click(title, within=walk.entry(title))


def new_title(scene: Scene) -> str:
    """Draw a title that no article has, nor its slug."""
    words = scene.cast.words
    made = scene.pick(phrases()["titles"]).format(topic=scene.pick(words["topic"]), city=scene.pick(words["city"]))
    title = f"{made[0].upper()}{made[1:]}, part {scene.rng.randint(2, 9)}"
    scene.need(not scene.db.rows("SELECT id FROM cms_articles WHERE slug = ?", slug_of(title)))
    return title


@template("cms", kind="lookup")
def cms_fact(scene: Scene) -> TaskDraft:
    """Ask for a fact about an article, at higher levels about its author."""
    row = scene.row(f"SELECT * FROM ({ARTICLES}) WHERE status = 'published'")
    what = scene.pick(("views", "published") if scene.level < 3 else ("email", "phone"))
    said = {
        "views": "How many views does the article '{}' in the newsroom have?",
        "published": "On what date was the article '{}' in the newsroom published?",
        "email": "What is the email address of the author of the article '{}' in the newsroom?",
        "phone": "What is the phone number of the author of the article '{}' in the newsroom?",
    }
    author = scene.row("SELECT * FROM cms_authors WHERE id = ?", row["author_id"])
    value = {"views": row["views"], "published": row["publish_on"], **author}[what]
    answer: Matcher = Number(value) if what == "views" else Text(value)

    def solve(walk: Walk) -> None:
        open_article(walk, row["title"])
        if what in ("email", "phone"):
            walk.click(walk.fact(walk.word("author")))
        walk.answer(walk.fact(walk.word(what)))

    return TaskDraft(said[what].format(row["title"]), solve, answer=answer, secrets=() if what == "views" else (value,))


@template("cms", kind="filter")
def cms_most_read(scene: Scene) -> TaskDraft:
    """Ask for the most read article of a category, at higher levels for the most or least read one of an author."""
    least = scene.level > 2 and scene.rng.random() < 0.5
    of = "category" if scene.level < 3 else "author"
    one = scene.row(f"SELECT DISTINCT {of} AS name FROM ({ARTICLES}) ORDER BY {of}")["name"]
    rows = scene.db.rows(f"SELECT * FROM ({ARTICLES}) WHERE status = 'published' AND {of} = ? ORDER BY views DESC", one)
    scene.need(len(rows) > 3)
    title = rows[-1 if least else 0]["title"]
    which = f"in the category '{one}'" if of == "category" else f"by {one}"
    how = "fewest" if least else "most"
    prompt = f"Of the published articles {which} in the newsroom, which one has the {how} views? Tell me its headline."

    def solve(walk: Walk) -> None:
        walk.goto("cms")
        walk.click(walk.word("articles"))
        walk.choose(walk.word("status"), "published")
        walk.choose(walk.word(of), one)
        walk.choose(walk.word("sort"), walk.word("views"))
        walk.click(walk.word("search"))
        walk.answer(walk.all_entries()[-1].name if least else walk.entries()[0].name)

    return TaskDraft(prompt, solve, answer=Text(title), secrets=(title,))


@template("cms", kind="form")
def cms_edit(scene: Scene) -> TaskDraft:
    """Change the headline and slug of an article, at higher levels also its category."""
    row, title = scene.row(f"SELECT * FROM ({ARTICLES})"), new_title(scene)
    slug = f"{slug_of(title)}-{scene.rng.randint(10, 99)}"
    category = scene.pick([one for one in CATEGORIES if one != row["category"]]) if scene.level > 2 else ""
    prompt = f"In the newsroom, give the article '{row['title']}' the headline '{title}' and the slug '{slug}'"
    prompt += f", and move it to the category '{category}'." if category else "."
    columns = {"title": Text(title), "slug": slug, **({"category": category} if category else {})}

    def solve(walk: Walk) -> None:
        open_article(walk, row["title"])
        walk.click(walk.word("edit"))
        walk.fill(walk.word("headline"), title)
        walk.fill(walk.word("slug"), slug)
        if category:
            walk.choose(walk.word("category"), category)
        walk.click(walk.word("save"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(updated("cms_articles", row["id"], "article", **columns),))


@template("cms", kind="checkout")
def cms_story(scene: Scene) -> TaskDraft:
    """Write an article, tag it and submit it for review; at higher levels with two tags."""
    title, lead, text = new_title(scene), scene.pick(phrases()["leads"]), scene.pick(phrases()["texts"])
    category, author = scene.pick(CATEGORIES), scene.row("SELECT * FROM cms_authors")
    tags = scene.rng.sample(scene.db.rows("SELECT * FROM cms_tags ORDER BY id"), 1 if scene.level < 3 else 2)
    slug = slug_of(title)
    prompt = (
        f"Write an article in the newsroom: headline '{title}', slug '{slug}', category '{category}', author"
        f" {author['name']}. Its introduction: {lead} Its text: {text} Then add the"
        f" {' and the '.join('tag ' + repr(tag['name']) for tag in tags)}, and submit it for review."
    )
    article = scene.next_id("cms_articles")
    columns = {"title": Text(title), "slug": slug, "category": category, "author_id": author["id"], "lead": Text(lead)}
    new = inserted("cms_articles", "article", **columns, text=Text(text), status="review", publish_on="", views=0)
    put = [inserted("cms_taggings", f"tag {tag['name']}", article_id=article, tag_id=tag["id"]) for tag in tags]

    def solve(walk: Walk) -> None:
        walk.goto("cms")
        walk.click(walk.word("new_article"))
        for what, value in (("headline", title), ("slug", slug), ("lead", lead), ("text", text)):
            walk.fill(walk.word(what), value)
        walk.choose(walk.word("category"), category)
        walk.choose(walk.word("author"), author["name"])
        walk.click(walk.word("save"))
        for tag in tags:
            walk.choose(walk.word("tag"), tag["name"])
            walk.click(walk.word("add_tag"))
        walk.click(walk.word("hand_in"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(new, *put))


@template("cms", kind="form")
def cms_schedule(scene: Scene) -> TaskDraft:
    """Schedule an article for a day, at higher levels two articles for two days."""
    rows = scene.db.rows("SELECT * FROM cms_articles WHERE status = 'review' ORDER BY id")
    count = 1 if scene.level < 3 else 2
    scene.need(len(rows) >= count)
    chosen = [(row, scene.cast.day(day)) for row, day in
              zip(scene.rng.sample(rows, count), scene.rng.sample(range(3, 60), count), strict=True)]  # fmt: skip
    said = " and ".join(f"the article '{row['title']}' for {day}" for row, day in chosen)
    must = tuple(
        updated("cms_articles", row["id"], f"{row['title']} planned", status="scheduled", publish_on=day)
        for row, day in chosen
    )

    def solve(walk: Walk) -> None:
        for row, day in chosen:
            open_article(walk, row["title"])
            walk.fill(walk.word("publish_day"), day)
            walk.click(walk.word("schedule"))
        walk.answer()

    return TaskDraft(f"In the newsroom, schedule {said}.", solve, must=must)


@template("cms", kind="refusal")
def cms_publish(scene: Scene) -> TaskDraft:
    """Publish an article. A draft may need a review first; the evidence is who is in charge."""
    row = scene.row(
        """SELECT cms_articles.*, review, head FROM cms_articles JOIN cms_categories ON cms_categories.name = category
           WHERE (status = 'draft' AND review = ?1) OR (status = 'review' AND review AND NOT ?1)""",
        scene.rng.random() < 0.5,
    )
    prompt = (
        f"Publish the article '{row['title']}' in the newsroom today. If a rule forbids that, change nothing and tell"
        " me who is in charge of its category."
    )

    def solve(walk: Walk) -> None:
        open_article(walk, row["title"])
        category = walk.fact(walk.word("category"))
        walk.click(walk.word("publish"))
        if walk.fact(walk.word("status")) == "published":
            walk.answer()
            return
        walk.click(walk.word("categories"))
        walk.refuse(walk.entry(category)[walk.word("head")])

    if row["status"] == "draft" and row["review"]:
        heads = scene.texts("SELECT DISTINCT head FROM cms_categories")
        return TaskDraft(prompt, solve, refusal=Refusal("not_allowed", Evidence((row["head"],), heads)))
    online = updated("cms_articles", row["id"], "online", status="published", publish_on=scene.cast.day(0))
    return TaskDraft(prompt, solve, must=(online,))


@template("cms", kind="form", held_out=True)
def cms_tag_most_read(scene: Scene) -> TaskDraft:
    """Add a tag to the most read article of an author, and report its slug."""
    author = scene.row("SELECT * FROM cms_authors")
    rows = scene.db.rows(
        "SELECT * FROM cms_articles WHERE status = 'published' AND author_id = ? ORDER BY views DESC", author["id"]
    )
    scene.need(len(rows) > 2)
    article = rows[0]["id"]
    tag = scene.row("SELECT * FROM cms_tags WHERE id NOT IN (SELECT tag_id FROM cms_taggings WHERE article_id = ?)",
                    article)  # fmt: skip
    prompt = (
        f"In the newsroom, add the tag '{tag['name']}' to the published article by {author['name']} with the most"
        " views, and tell me its slug."
    )
    must = (inserted("cms_taggings", "tag", article_id=article, tag_id=tag["id"]),)

    def solve(walk: Walk) -> None:
        walk.goto("cms")
        walk.click(walk.word("articles"))
        walk.choose(walk.word("status"), "published")
        walk.choose(walk.word("author"), author["name"])
        walk.choose(walk.word("sort"), walk.word("views"))
        walk.click(walk.word("search"))
        first = walk.entries()[0]
        walk.click(first.name, within=first)
        slug = walk.fact(walk.word("slug"))
        walk.choose(walk.word("tag"), tag["name"])
        walk.click(walk.word("add_tag"))
        walk.answer(slug)

    return TaskDraft(prompt, solve, must=must, answer=Text(rows[0]["slug"]), secrets=(rows[0]["slug"],))


TEMPLATES = (
    cms_fact,
    cms_most_read,
    cms_edit,
    cms_story,
    cms_schedule,
    cms_publish,
    *CHORES,
    cms_tag_most_read,
)
"""All templates of the newsroom."""
