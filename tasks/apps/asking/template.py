"""Templates: functions from a world to a task, each with a name, the apps that it needs and the levels it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...rng import Rng
from ..world.cast import Cast
from ..world.database import Database, Row
from .expected import AtLeast, Matcher, May, Must
from .plan import Solver
from .talk import Talk
from .task import Kind, Refusal

T = TypeVar("T")


class Unsuitable(Exception):
    """This draw makes no good task (nothing to find, or several right answers); the family draws again."""


@dataclass
class Scene:
    """What a template makes its task from.

    Args:
        db: the world's rows, which the template may read, and change only through ``add``.
        cast: the people.
        rng: the task's own.
        level: 1 to 5; a higher one asks for more conditions, or about more rows.
    """

    db: Database
    cast: Cast
    rng: Rng
    level: int
    setup: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def add(self, table: str, **columns: Any) -> int:
        """Put a row into the world before the episode begins, and give its number."""
        id = self.db.insert(table, **columns)
        self.setup.append((table, {"id": id, **columns}))
        return id

    def need(self, wanted: bool) -> None:
        """Go on only if this holds.

        Raises:
            Unsuitable: it does not.
        """
        if not wanted:
            raise Unsuitable

    def pick(self, items: Sequence[T]) -> T:
        """One of several things.

        Raises:
            Unsuitable: there are none.
        """
        self.need(bool(items))
        return self.rng.pick(items)

    def row(self, sql: str, *values: Any) -> Row:
        """One row of a query, drawn.

        Raises:
            Unsuitable: there is none.
        """
        return self.pick(self.db.rows(sql, *values))

    def next_id(self, table: str) -> AtLeast:
        """The number of a row that is yet to be made: larger than any that there was."""
        return AtLeast(int(self.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", table) or 0) + 1)


@dataclass(frozen=True)
class Asked:
    """What a template made: arguments as of ``AppTask``."""

    prompt: str
    solve: Callable[[Solver], None]
    must: tuple[Must, ...] = ()
    may: tuple[May, ...] = ()
    answer: Matcher | None = None
    refusal: Refusal | None = None
    talk: Talk | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """One way to ask for something.

    Args:
        name: unique, such as ``mail_forward_newest``.
        apps: that a task of it needs.
        kind: of its tasks.
        make: the task, from a scene.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
        levels: that it has.
    """

    name: str
    apps: tuple[str, ...]
    kind: Kind
    make: Callable[[Scene], Asked]
    held_out: bool = False
    levels: tuple[int, ...] = (1, 2, 3, 4, 5)


def template(*apps: str, kind: Kind, held_out: bool = False) -> Callable[[Callable[[Scene], Asked]], Template]:
    """Make a template of a function, whose name becomes the template's.

    Args:
        apps: that its tasks need, the first of which begins its name.
        kind: of its tasks.
        held_out: whether learners never see it.
    """

    def make(function: Callable[[Scene], Asked]) -> Template:
        return Template(function.__name__, apps, kind, function, held_out)

    return make
