"""``Relation``: one kind of fact about entities of the fictional wiki, with all of its wordings."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

KINDS = ("person", "town", "river", "guild", "ship", "book", "instrument", "company", "festival", "building")
"""Kinds of entities."""


@dataclass(frozen=True)
class Relation:
    """A kind of fact about entities, permanent or for a term. ``relations.toml`` explains the wordings.

    Args:
        name: name of the relation.
        of: kind of its subjects.
        to: kind of its objects; ``year``, ``number``, or a sort of word.
        says: sentences that state it.
        past: sentences for a closed term.
        now: sentences for the current term.
        none: sentences that state that there was no holder before.
        np: phrases that name the object.
        ask: questions for the object.
        then: questions for the object in a year, or in a revision.
        since: questions for the year in which a holder's term started.
        after: questions for the holder after another.
        ahead: questions for the holder before another.
        which: questions for the only subject.
        count: questions for the number of subjects.
        less: predicates of the subject with the smaller number.
        more: predicates of the subject with the greater number.
        range: smallest and greatest number.
        gap: indirect question.
        noun: noun for a subject.
        nouns: noun for several subjects.
        clause: predicate of a subject.
        list: title of a page with all subjects.
        before: predicate of subjects whose year is before another.
        changes: whether an earlier revision gives another number.
    """

    name: str
    of: str
    to: str
    says: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    np: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    since: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    which: tuple[str, ...] = ()
    count: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    range: tuple[int, ...] = ()
    gap: str = ""
    noun: str = ""
    nouns: str = ""
    clause: str = ""
    list: str = ""
    before: str = ""
    changes: bool = False

    dated: bool = field(init=False)
    """Whether holders have it for a term."""
    lasting: bool = field(init=False)
    """Whether it never changes."""
    numeric: bool = field(init=False)
    """Whether its objects are numbers or years."""
    linked: bool = field(init=False)
    """Whether its objects are entities."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dated", bool(self.now))
        object.__setattr__(self, "lasting", not (self.now or self.changes))
        object.__setattr__(self, "numeric", self.to in ("year", "number"))
        object.__setattr__(self, "linked", self.to in KINDS)


@lru_cache(maxsize=1)
def relations() -> dict[str, Relation]:
    """Return every relation by its name."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(
        Path(__file__).with_name("relations.toml").read_text(encoding="utf-8")
    )
    found = {}
    for name, fields in tables.items():
        values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in fields.items()}
        found[name] = Relation(name, **values)
    return found


@lru_cache(maxsize=16)
def relations_of(kind: str) -> tuple[Relation, ...]:
    """Return the relations whose subjects are of a kind."""
    return tuple(one for one in relations().values() if one.of == kind)
