"""Tasks of the wiki that ask for a fact."""

from __future__ import annotations

from ....rows.database import Row
from ....rows.expected import Text
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.wiki.company import SECTIONS
from ...simulators.wiki.reading import CHANGES, FACTS, PAGES
from ..walk import Walk

CHAINS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("products", ("Item number",), "the item number of the product '{}'"),
    ("people", ("Extension",), "the extension of {}"),
    ("offices", ("Phone",), "the phone number of '{}'"),
    ("teams", ("Cost center",), "the cost center of the '{}'"),
    ("handbook", ("Valid from",), "the effective date of the handbook rules '{}'"),
    ("products", ("Owner", "Cost center"), "the cost center of the team that owns the product '{}'"),
    ("offices", ("Keyholder", "Extension"), "the extension of the keyholder of '{}'"),
    ("how-tos", ("Contact", "Extension"), "the extension of the contact for the how-to '{}'"),
    ("handbook", ("Approved by", "Extension"), "the extension of the person who approved the rules '{}'"),
    ("teams", ("Office", "Phone"), "the phone number of the office of the '{}'"),
    ("products", ("Owner", "Lead", "Extension"), "the extension of the lead of the team that owns the product '{}'"),
    ("products", ("Owner", "Office", "Phone"), "the phone number of the office of the team that owns the product '{}'"),
    ("how-tos", ("Contact", "Office", "Phone"), "the phone number of the office of the contact for the how-to '{}'"),
    ("people", ("Team", "Lead", "Extension"), "the extension of the lead of the team of {}"),
    (
        "handbook",
        ("Approved by", "Team", "Cost center"),
        "the cost center of the team of the person who approved the rules '{}'",
    ),
)
"""Questions: the section of the given page, the chain of facts to follow, and the wording."""


def open_page(walk: Walk, title: str) -> None:
    """Find a page by its title."""
    walk.goto("wiki")
    walk.fill(walk.word("words"), title)
    walk.click(walk.word("search"))
    walk.click(title, within=walk.entry(title))


def hops(scene: Scene, page: int, labels: tuple[str, ...]) -> list[Row]:
    """Return the facts met by following labels from page to page."""
    found: list[Row] = []
    for label in labels:
        fact = next(one for one in scene.db.rows(FACTS, page) if one["label"] == label)
        found.append(fact)
        page = fact["to_page_id"]
    return found


@template("wiki", kind="lookup")
def wiki_fact(scene: Scene) -> TaskDraft:
    """Ask for a fact; at higher levels one or two links lead to it."""
    steps = (1, 2, 2, 3, 3)[scene.level - 1]
    section, labels, said = scene.pick([one for one in CHAINS if len(one[1]) == steps])
    row = scene.row("SELECT * FROM wiki_pages WHERE section = ?", section)
    value = hops(scene, row["id"], labels)[-1]["value"]
    prompt = f"Look this up in the wiki: what is {said.format(row['title'])}?"

    def solve(walk: Walk) -> None:
        open_page(walk, row["title"])
        for label in labels[:-1]:
            walk.click(walk.fact(label), first=True)
        walk.answer(walk.fact(labels[-1]))

    return TaskDraft(prompt, solve, answer=Text(value), secrets=(value,))


@template("wiki", kind="filter")
def wiki_oldest(scene: Scene) -> TaskDraft:
    """Ask for the page of a section with the latest or earliest change; at higher levels among pages with a text."""
    section, oldest = scene.pick(SECTIONS), scene.rng.random() < 0.5
    said = ""
    if scene.level > 2:
        said = scene.row("SELECT body FROM wiki_parts JOIN wiki_pages ON wiki_pages.id = page_id WHERE section = ?",
                         section)["body"].split(". ")[0].rstrip(".")  # fmt: skip
    rows = scene.db.rows(
        f"""SELECT * FROM ({PAGES}) WHERE section = ?1 AND (?2 = '' OR id IN
            (SELECT page_id FROM wiki_parts WHERE instr(lower(body), lower(?2)))) ORDER BY changed""",
        section,
        said,
    )
    scene.need(len(rows) > 2 and rows[0]["changed"] < rows[1]["changed"] and rows[-2]["changed"] < rows[-1]["changed"])
    wanted = rows[0 if oldest else -1]["title"]
    scene.need(wanted != scene.cast.user.name)  # the prompt names the user
    those = f" that contain the text '{said}'" if said else ""
    when = "was changed least recently" if oldest else "was changed most recently"
    prompt = f"Of the pages in the section '{section}' of the wiki{those}, which one {when}? Tell me its title."

    def solve(walk: Walk) -> None:
        walk.goto("wiki")
        walk.click(walk.word("pages"))
        if said:
            walk.fill(walk.word("words"), said)
        walk.choose(walk.word("section"), section)
        walk.choose(walk.word("sort"), walk.word("oldest" if oldest else "changed"))
        walk.click(walk.word("search"))
        walk.answer(walk.entries()[0].name)

    return TaskDraft(prompt, solve, answer=Text(wanted), secrets=(wanted,))


@template("wiki", kind="lookup")
def wiki_last_change(scene: Scene) -> TaskDraft:
    """Ask for the page that an author changed last, at higher levels in one section only."""
    section = scene.pick(SECTIONS) if scene.level > 2 else ""
    editor = scene.row("SELECT DISTINCT author FROM wiki_revisions ORDER BY author")["author"]
    rows = scene.db.rows(
        f"{CHANGES} WHERE author = ?1 AND (section = ?2 OR ?2 = '') ORDER BY created_at DESC", editor, section
    )
    scene.need(len(rows) > 2)
    title = rows[0]["title"]
    scene.need(title not in (editor, scene.cast.user.name))  # the prompt names both
    where = f" in the section '{section}'" if section else ""
    prompt = f"Which wiki page{where} did {editor} change most recently? Tell me the title of the page."

    def solve(walk: Walk) -> None:
        walk.goto("wiki")
        walk.click(walk.word("changes"))
        walk.choose(walk.word("editor"), editor)
        if section:
            walk.choose(walk.word("section"), section)
        walk.click(walk.word("apply"))
        walk.answer(walk.entries()[0][walk.word("name")])

    return TaskDraft(prompt, solve, answer=Text(title), secrets=(title,))


LOOKUPS = (wiki_fact, wiki_oldest, wiki_last_change)
"""Templates of this module."""
