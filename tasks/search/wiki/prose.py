"""Text of the fictional wiki's pages, in sentences that the reader of ``proof`` can parse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...rng import Rng
from .names import words
from .relations import Relation, relations, relations_of
from .world import THIS_YEAR, Entity, Term, Value, World

LEAD = ("{t} is {sort}.",)
LEAD_TWICE = (
    "{t}, also known as {alias}, is {sort}.",
    "{t}, called {alias} by some, is {sort}.",
    "{t} ({alias} by another name) is {sort}.",
)
GAP = ("The records do not say {gap}.", "It is not known {gap}.", "No source says {gap}.")
LISTED = ("This list is complete: {all}.", "All of them are known: {all}.")
STUB = "This page is a stub."
COPY = "This is a copy of the page {t}, word for word or nearly so."
OLD = "This is the {y} revision of the page {t}; it was not updated after that year."
QUOTE = "This page repeats what the {source} says about {t}."
SOURCE = (
    "The {source} is unreliable: where it differs from the other pages of this wiki, the other pages are right.",
    "The {source} has been superseded: where it differs from the other pages of this wiki, the other pages are right.",
)
ABOUT = (
    f"The pages of this wiki were last revised in {THIS_YEAR}. A page whose title names a year is an earlier revision: "
    "it gives the facts of that year, and the page without a year gives the current facts. A page whose title calls it "
    "a copy is as reliable as the page that it was copied from. Do not trust pages that repeat what an almanac or a "
    "register says where the page about that almanac or register says so. A term of office includes its first and its "
    "last year; in those years, two people held the office one after the other. What the pages call unknown is unknown."
)


def lead(one: Entity, rng: Rng, *, plain: bool = False) -> str:
    """Return the first sentence of a page; with ``plain``, without a second name."""
    sort = f"{'an' if one.sort[0] in 'aeiou' else 'a'} {one.sort}"
    return rng.pick(LEAD_TWICE if one.alias and not plain else LEAD).format(t=one.title, alias=one.alias, sort=sort)


def spoken(value: Value) -> str:
    """Return an object as sentences name it."""
    return value.title if isinstance(value, Entity) else str(value)


def sentence(rng: Rng, relation: Relation, one: Entity, value: Value) -> str:
    """Return a random sentence that states a fact."""
    return begin(rng.pick(relation.says).format(s=one.title, o=spoken(value)))


def begin(text: str) -> str:
    """Return a sentence with an initial capital."""
    return text[0].upper() + text[1:]


def term_sentences(rng: Rng, relation: Relation, one: Entity, terms: Sequence[Term]) -> list[str]:
    """State who held an office, in random order, and that it had no holder before."""
    sentences = [
        rng.pick(relation.now if term.end is None else relation.past).format(
            s=one.title, o=term.holder.title, a=term.start, b=term.end
        )
        for term in terms
    ]
    rng.shuffle(sentences)
    return [begin(text) for text in [*sentences, rng.pick(relation.none).format(s=one.title, a=terms[0].start)]]


def facts_of(world: World, one: Entity, rng: Rng) -> list[list[str]]:
    """Return the facts on an entity's page, a list of sentences for each relation."""
    facts = []
    for relation in relations_of(one.kind):
        key = (one.number, relation.name)
        if key in world.gaps:
            facts.append([rng.pick(GAP).format(gap=relation.gap.format(s=one.title))])
        elif relation.dated and key in world.terms:
            facts.append(term_sentences(rng, relation, one, world.terms[key]))
        elif key in world.facts:
            facts.append([sentence(rng, relation, one, world.facts[key])])
    return facts


def page(world: World, one: Entity, rng: Rng) -> str:
    """Return the text of an entity's page."""
    return _text(one, rng, facts_of(world, one, rng))


def copy(world: World, one: Entity, rng: Rng) -> str:
    """Return the text of a copy of an entity's page, which says the same in other words."""
    return f"{COPY.format(t=one.title)} {page(world, one, rng)}"


def revision(world: World, one: Entity, rng: Rng) -> str:
    """Return the text of an earlier revision, with the holders up to then and the numbers of that year."""
    year, facts = world.revised[one.number], []
    for relation in relations_of(one.kind):
        key = (one.number, relation.name)
        if key in world.terms:
            facts.append(term_sentences(rng, relation, one, until(world.terms[key], year)))
        elif key in world.earlier:
            facts.append([sentence(rng, relation, one, world.earlier[key])])
    return f"{OLD.format(t=one.title, y=year)} {_text(one, rng, facts)}"


def until(terms: Sequence[Term], year: int) -> list[Term]:
    """Return the terms as a page of that year would list them."""
    return [
        term if term.end is not None and term.end <= year else Term(term.start, None, term.holder)
        for term in terms
        if term.start <= year
    ]


def quote(world: World, one: Entity, source: str, rng: Rng) -> str:
    """Return the text of a page that repeats an unreliable source: false objects of some relations."""
    facts = []
    for relation in relations_of(one.kind):
        true = world.facts.get((one.number, relation.name))
        if true is not None and rng.random() < 0.6:
            facts.append([sentence(rng, relation, one, _false(world, relation, true, rng))])
    return f"{QUOTE.format(source=source, t=one.title)} {_text(one, rng, facts, plain=True)}"


def _false(world: World, relation: Relation, true: Value, rng: Rng) -> Value:
    for _ in range(50):
        other: Value
        if relation.numeric:
            other = rng.randint(relation.range[0], relation.range[1])
        elif relation.linked:
            other = rng.pick(world.of_kind(relation.to))
        else:
            other = rng.pick(words()["always"][relation.to])
        if other != true:
            return other
    return true


def listing(name: str, of: Entity, subjects: Iterable[Entity], rng: Rng) -> tuple[str, str]:
    """Return the title and the text of a page with all subjects of a relation to an entity."""
    title = relations()[name].list.format(o=of.title)
    some = [one.title for one in subjects]
    rng.shuffle(some)
    joined = f"{', '.join(some[:-1])} and {some[-1]}"
    return title, f"{title}. {rng.pick(LISTED).format(all=joined)} {rng.pick(words()['filler'][of.kind])}"


def _text(one: Entity, rng: Rng, facts: Sequence[Sequence[str]], *, plain: bool = False) -> str:
    """Return the first sentence, and then the facts in random order among sentences without facts."""
    some = [*facts]
    rng.shuffle(some)
    filler = [*words()["filler"][one.kind]]
    rng.shuffle(filler)
    sentences = [lead(one, rng, plain=plain)]
    for i, part in enumerate(some):
        sentences += part
        if i < len(filler) and rng.random() < 0.5:
            sentences.append(filler[i])
    if len(some) <= 2 and not plain:
        sentences.append(STUB)
    return " ".join(sentences)
