"""``Relation``: what can be said of an entity of the fictional wiki, and every wording of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

KINDS = ("person", "town", "river", "guild", "ship", "book", "instrument", "company", "festival", "building")
"""Of entities."""


@dataclass(frozen=True)
class Relation:
    """What an entity has, or had for some time. The wordings are explained in ``relations.toml``.

    Args:
        name: of the relation.
        of: the kind of its subjects.
        to: the kind of its objects; ``year``, ``number``, or what sort of word they are.
        says: sentences that tell it.
        past: sentences for a closed term.
        now: sentences for the term that lasts.
        none: sentences that say that there was nobody before.
        np: phrases that name the object.
        ask: questions for the object.
        then: questions for the object in a year, or in a revision.
        since: questions for the year in which a holder's term began.
        after: questions for the holder after another.
        ahead: questions for the holder before another.
        which: questions for the only subject.
        count: questions for the number of subjects.
        less: what is said of the one with the smaller number.
        more: what is said of the one with the greater number.
        range: the smallest and the greatest number.
        gap: an indirect question.
        noun: what a subject is called.
        nouns: what subjects are called.
        clause: what is said of a subject.
        list: the title of a page with all subjects.
        before: what is said of subjects whose year is before another.
        changes: whether an earlier revision tells another number.
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
    """Whether it is held for some time."""
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
    """Every relation by its name."""
    told: dict[str, dict[str, Any]] = tomllib.loads(
        Path(__file__).with_name("relations.toml").read_text(encoding="utf-8")
    )
    found = {}
    for name, fields in told.items():
        values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in fields.items()}
        found[name] = Relation(name, **values)
    return found


@lru_cache(maxsize=16)
def relations_of(kind: str) -> tuple[Relation, ...]:
    """Those whose subjects are of a kind."""
    return tuple(one for one in relations().values() if one.of == kind)
