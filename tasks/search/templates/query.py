"""Questions as values: the templates put them into words, and the reader of ``proof`` parses the words back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """An entity by its name, and by its sort if two share the name."""

    name: str
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Of:
    """The object of a relation of another entity, as in "the author of …"."""

    relation: str
    inner: Node


Node = Named | Of


@dataclass(frozen=True, slots=True)
class Fact:
    """Asks for the current object of a relation."""

    relation: str
    node: Node


@dataclass(frozen=True, slots=True)
class Then:
    """Asks for the object of a relation in a year, or in the revision of a year."""

    relation: str
    node: Node
    year: int


@dataclass(frozen=True, slots=True)
class Since:
    """Asks for the year in which a holder's term started."""

    relation: str
    node: Node
    holder: Node


@dataclass(frozen=True, slots=True)
class Beside:
    """Asks for the holder after another, or before it with ``ahead``."""

    relation: str
    node: Node
    holder: Node
    ahead: bool


@dataclass(frozen=True, slots=True)
class Which:
    """Asks for the only subject of a relation."""

    relation: str
    node: Node


@dataclass(frozen=True, slots=True)
class Both:
    """Asks for the only entity for which two relations hold."""

    relation: str
    node: Node
    other: str
    second: Node


@dataclass(frozen=True, slots=True)
class Count:
    """Asks for the number of subjects; with a year, for the number of those whose year is before it."""

    relation: str
    node: Node
    dated: str = ""
    year: int = 0


@dataclass(frozen=True, slots=True)
class Compare:
    """Asks which of two entities has the greater or smaller number; with ``then``, for a fact about that one."""

    relation: str
    more: bool
    first: Node
    second: Node
    then: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """Asks for an entity's second name."""

    node: Node


Query = Fact | Then | Since | Beside | Which | Both | Count | Compare | Alias
