"""Templates about dates, about facts that no page states, and about two entities with the same name."""

from __future__ import annotations

from ..wiki.relations import Relation, relations
from ..wiki.world import SHARED, THIS_YEAR, Term
from .query import Beside, Fact, Named, Since, Then
from .scene import NOBODY, UNKNOWN, Described, Scene, TaskDraft, Unsuitable
from .simple import THINGS, asked
from .template import Template


def held(scene: Scene) -> tuple[Relation, Described, tuple[Term, ...]]:
    """Draw an office that people hold one after another, with its terms."""
    relation = scene.pick([one for one in relations().values() if one.dated])
    one = scene.entity(relation.of)
    terms = scene.world.terms.get((one.number, relation.name))
    if terms is None:
        raise Unsuitable
    return relation, scene.described(one), terms


def holder_then(scene: Scene) -> TaskDraft:
    """Ask for a holder by a year, as in "Who was mayor of … in …?"."""
    relation, about, terms = held(scene)
    term = scene.pick(terms)
    year = scene.rng.randint(term.start + 1, (term.end or THIS_YEAR) - 1)
    rests = (*about.rests, scene.rest_then(about.entity, relation, year, about.called))
    return TaskDraft(Then(relation.name, about.node, year), term.holder.spellings, rests, len(rests))


def holder_now(scene: Scene) -> TaskDraft:
    """Ask for the current holder where an earlier revision names another one."""
    relation, about, terms = held(scene)
    if about.entity.number not in scene.wiki.revisions:
        raise Unsuitable
    rests = (*about.rests, scene.rest(about.entity, relation, name=about.called))
    return TaskDraft(Fact(relation.name, about.node), terms[-1].holder.spellings, rests, len(rests))


def since(scene: Scene) -> TaskDraft:
    """Ask for a start, as in "In which year did … become mayor of …?"."""
    relation, about, terms = held(scene)
    term = scene.pick(terms)
    holder = scene.described(term.holder, 0)
    rests = (*about.rests, scene.rest_then(about.entity, relation, term.start, about.called))
    return TaskDraft(Since(relation.name, about.node, holder.node), (str(term.start),), rests, len(rests))


def beside(scene: Scene, *, ahead: bool) -> TaskDraft:
    """Ask for a holder by the next one, or by the previous one."""
    relation, about, terms = held(scene)
    i = scene.rng.randrange(len(terms) - 1)
    first, second = terms[i], terms[i + 1]
    named, found = (second, first) if ahead else (first, second)
    holder = scene.described(named.holder, 0)
    rests = (*about.rests, scene.rest_then(about.entity, relation, second.start, about.called))
    return TaskDraft(Beside(relation.name, about.node, holder.node, ahead), found.holder.spellings, rests, len(rests))


def holder_after(scene: Scene) -> TaskDraft:
    """Ask for the next holder, as in "Who followed … as mayor of …?"."""
    return beside(scene, ahead=False)


def holder_before(scene: Scene) -> TaskDraft:
    """Ask for the previous holder, as in "Who was mayor of … just before …?"."""
    return beside(scene, ahead=True)


def revised(scene: Scene) -> tuple[Relation, Described]:
    """Draw a number whose value differs in an earlier revision."""
    some = [(of, name) for of, name in scene.world.earlier if of in scene.wiki.revisions]
    of, name = scene.pick(some)
    return relations()[name], scene.described(scene.world.entities[of])


def number_now(scene: Scene) -> TaskDraft:
    """Ask for a current number where an earlier revision gives another one."""
    relation, about = revised(scene)
    rests = (*about.rests, scene.rest(about.entity, relation, name=about.called))
    value = scene.value(about.entity, relation)
    return TaskDraft(Fact(relation.name, about.node), (str(value),), rests, len(rests))


def number_then(scene: Scene) -> TaskDraft:
    """Ask for an earlier number, as in "What was the population of … in the revision of …?"."""
    relation, about = revised(scene)
    year = scene.world.revised[about.entity.number]
    rests = (*about.rests, scene.rest_revision(about.entity, year, about.called))
    value = scene.world.earlier[about.entity.number, relation.name]
    return TaskDraft(Then(relation.name, about.node, year), (str(value),), rests, len(rests))


def unknown(scene: Scene, *, numeric: bool) -> TaskDraft:
    """Ask for a fact that the pages call unknown."""
    some = [(of, name) for of, name in sorted(scene.world.gaps) if relations()[name].numeric is numeric]
    of, name = scene.pick(some)
    about = scene.described(scene.world.entities[of])
    rests = (*about.rests, scene.rest(about.entity, relations()[name], name=about.called))
    return TaskDraft(Fact(name, about.node), UNKNOWN, rests, len(rests))


def unknown_fact(scene: Scene) -> TaskDraft:
    """Ask for an unknown object, as in "Where was … born?"."""
    return unknown(scene, numeric=False)


def unknown_number(scene: Scene) -> TaskDraft:
    """Ask for an unknown year or number, as in "When was … born?"."""
    return unknown(scene, numeric=True)


def nobody_then(scene: Scene) -> TaskDraft:
    """Ask for the mayor of a year in which there was none."""
    relation, about, terms = held(scene)
    year = terms[0].start - scene.rng.randint(1, 40)
    rests = (*about.rests, scene.rest_then(about.entity, relation, year, about.called))
    return TaskDraft(Then(relation.name, about.node, year), (*NOBODY, *UNKNOWN), rests, len(rests))


def twin(scene: Scene) -> Described:
    """Draw one of two entities with the same name, or an entity that facts lead to from it."""
    one = scene.pick([one for kind in SHARED for one in scene.world.of_kind(kind) if one.shared])
    return scene.walked(one, Named(one.name, one.sort))


def twin_fact(scene: Scene) -> TaskDraft:
    """Ask for an object of a namesake, as in "Where was the painter … born?"."""
    return asked(scene, twin(scene), "person", "town", "company", *THINGS)


def twin_number(scene: Scene) -> TaskDraft:
    """Ask for a number of a namesake, as in "In which year was the painter … born?"."""
    return asked(scene, twin(scene), "year", "number")


def twins_then(scene: Scene) -> TaskDraft:
    """Ask for the holder in a year, of a namesake or of an entity that facts lead to from one."""
    about = twin(scene)
    relation = scene.pick([one for one in relations().values() if one.dated and one.of == about.entity.kind])
    terms = scene.world.terms.get((about.entity.number, relation.name))
    if terms is None:
        raise Unsuitable
    term = scene.pick(terms)
    year = scene.rng.randint(term.start + 1, (term.end or THIS_YEAR) - 1)
    rests = (*about.rests, scene.rest_then(about.entity, relation, year, about.called))
    return TaskDraft(Then(relation.name, about.node, year), term.holder.spellings, rests, len(rests))


TEMPLATES = (
    Template("holder-then", "as-of", holder_then),
    Template("holder-now", "as-of", holder_now),
    Template("since", "as-of", since, held_out=True),
    Template("holder-after", "as-of", holder_after),
    Template("holder-before", "as-of", holder_before, held_out=True),
    Template("number-now", "as-of", number_now),
    Template("number-then", "as-of", number_then),
    Template("unknown-fact", "unanswerable", unknown_fact),
    Template("unknown-number", "unanswerable", unknown_number, held_out=True),
    Template("nobody-then", "unanswerable", nobody_then),
    Template("twin-fact", "disambiguation", twin_fact),
    Template("twin-number", "disambiguation", twin_number, held_out=True),
    Template("twins-then", "disambiguation", twins_then, held_out=True, hard=True),
)
