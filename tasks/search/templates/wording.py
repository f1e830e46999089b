"""Wordings of questions. Most come from the relations; those that combine several relations are here."""

from __future__ import annotations

from ...rng import Rng
from ..wiki.relations import Relation, relations
from .query import Alias, Beside, Both, Compare, Count, Fact, Named, Node, Query, Since, Then, Which

ALIAS = ("What other name is {s} known by?", "What else is {s} called?", "Which second name does {s} go by?")
BOTH = ("Which {noun} {first} and {second}?", "Name the {noun} of which both are true: it {first} and it {second}.")
BOTH_PERSON = ("Which person {first} and {second}?", "Name the person who {first} and who {second}.")
BEFORE = (
    "Of the {nouns} of {which} each {clause}, how many {before}?",
    "Think of all {nouns} of {which} each {clause}: how many of them {before}?",
)
COMPARE = ("Which of these two {more}: {first} or {second}?", "Of {first} and {second}, which {more}?")
THAT = ("Of {first} and {second}, one {more}. {ask}", "One of these two {more}: {first} or {second}. {ask}")
THAT_ONE = "that very one"


def worded(query: Query, rng: Rng) -> str:
    """Return a question in a random wording."""
    text = _worded(query, rng)
    return _tidy(text[0].upper() + text[1:])


def named(node: Node, rng: Rng) -> str:
    """Return a phrase for an entity."""
    if isinstance(node, Named):
        return f"the {node.sort} {node.name}" if node.sort else node.name
    return rng.pick(relations()[node.relation].np).format(s=named(node.inner, rng))


def both_forms(relation: Relation) -> tuple[str, ...]:
    """Return the wordings of a question that combines two clauses about a relation's subjects."""
    return BOTH_PERSON if relation.of == "person" else BOTH


def which(relation: Relation) -> str:
    """Return the pronoun for a relation's subjects."""
    return "whom" if relation.of == "person" else "which"


def clear(forms: tuple[str, ...], node: Node) -> tuple[str, ...]:
    """Return the wordings that have nothing behind a description, which would read as a part of it."""
    return forms if isinstance(node, Named) else tuple(form for form in forms if form.endswith("{s}?"))


def _worded(query: Query, rng: Rng) -> str:
    known = relations()
    match query:
        case Fact(relation, node):
            return rng.pick(known[relation].ask).format(s=named(node, rng))
        case Then(relation, node, year):
            return rng.pick(clear(known[relation].then, node)).format(s=named(node, rng), y=year)
        case Since(relation, node, holder):
            return rng.pick(clear(known[relation].since, node)).format(s=named(node, rng), o=named(holder, rng))
        case Beside(relation, node, holder, ahead):
            some = known[relation].ahead if ahead else known[relation].after
            return rng.pick(clear(some, node)).format(s=named(node, rng), o=named(holder, rng))
        case Which(relation, node):
            return rng.pick(known[relation].which).format(o=named(node, rng))
        case Alias(node):
            return rng.pick(ALIAS).format(s=named(node, rng))
        case Both():
            return _both(query, rng)
        case Count():
            return _count(query, rng)
        case Compare():
            return _compare(query, rng)


def _both(query: Both, rng: Rng) -> str:
    first, second = relations()[query.relation], relations()[query.other]
    return rng.pick(both_forms(first)).format(
        noun=first.noun or second.noun,
        first=first.clause.format(o=named(query.node, rng)),
        second=second.clause.format(o=named(query.second, rng)),
    )


def _count(query: Count, rng: Rng) -> str:
    relation, text = relations()[query.relation], named(query.node, rng)
    if not query.dated:
        return rng.pick(relation.count).format(o=text)
    before = relations()[query.dated].before.format(y=query.year)
    clause = relation.clause.format(o=text)
    return rng.pick(BEFORE).format(nouns=relation.nouns, which=which(relation), clause=clause, before=before)


def _compare(query: Compare, rng: Rng) -> str:
    relation = relations()[query.relation]
    more = rng.pick(relation.more if query.more else relation.less)
    first, second = named(query.first, rng), named(query.second, rng)
    if not query.then:
        return rng.pick(COMPARE).format(more=more, first=first, second=second)
    ask = rng.pick(relations()[query.then].ask).format(s=THAT_ONE)
    return rng.pick(THAT).format(more=more, first=first, second=second, ask=ask)


def _tidy(text: str) -> str:
    """Remove doubled articles, which occur where both a phrase and its slot have one."""
    for doubled, single in (("the the ", "the "), ("The the ", "The "), (f"the {THAT_ONE}", THAT_ONE)):
        text = text.replace(doubled, single)
    return text
