"""What is asked, as a value: from which a question is worded, and to which the reader of ``proof`` reads it back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """An entity by a name, and by what it is where two have the name."""

    name: str
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Of:
    """What stands in a relation to another: the author of …"""

    relation: str
    inner: Node


Node = Named | Of


@dataclass(frozen=True, slots=True)
class Fact:
    """Asks for what stands in a relation to something, now."""

    relation: str
    node: Node


@dataclass(frozen=True, slots=True)
class Then:
    """Asks for the same in a year, or in the revision of a year."""

    relation: str
    node: Node
    year: int


@dataclass(frozen=True, slots=True)
class Since:
    """Asks for the year in which a holder began."""

    relation: str
    node: Node
    holder: Node


@dataclass(frozen=True, slots=True)
class Beside:
    """Asks for the holder after another, or just before."""

    relation: str
    node: Node
    holder: Node
    ahead: bool


@dataclass(frozen=True, slots=True)
class Which:
    """Asks for the only one of which something is so."""

    relation: str
    node: Node


@dataclass(frozen=True, slots=True)
class Both:
    """Asks for the only one of which two things are so."""

    relation: str
    node: Node
    other: str
    second: Node


@dataclass(frozen=True, slots=True)
class Count:
    """Asks of how many something is so; with a year, of how many of those a year is before it."""

    relation: str
    node: Node
    dated: str = ""
    year: int = 0


@dataclass(frozen=True, slots=True)
class Compare:
    """Asks which of two has the greater or smaller number; with ``then``, for something of that one."""

    relation: str
    more: bool
    first: Node
    second: Node
    then: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """Asks for a second name."""

    node: Node


Query = Fact | Then | Since | Beside | Which | Both | Count | Compare | Alias
