"""A family of tasks: the specs that exist, and the pure function from a spec to its task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from traceback import extract_tb
from typing import Any, Generic, TypeVar

from ..errors import ContractError, TaskError, TurnwiseError, UsageError
from .rng import Rng
from .spec import Split, TaskSpec

T = TypeVar("T")


class TaskFamily(ABC, Generic[T]):
    """A procedural family. Subclasses set the class fields and write ``build``.

    ``build`` gets a private ``Rng`` that is a pure function of the spec, and must use nothing else that varies:
    no clock, no global generator, no environment variable, no network.
    """

    name: str
    """Name of the family, which ``TaskSpec.family`` must equal."""
    levels: tuple[int, ...] = (1,)
    """Levels that can be generated."""
    splits: tuple[Split, ...] = (Split.TRAIN, Split.DEV, Split.TEST_IID)
    """Splits of the family."""
    seeds: int | None = None
    """Number of distinct seeds (``None``: unlimited). Fixed lists of instances set it."""

    @property
    def usual(self) -> tuple[int, ...]:
        """Levels to use if a caller names none: all, unless they differ only in the budget."""
        return self.levels

    def templates(self, split: Split) -> tuple[str, ...]:
        """Return the template names of a split; held-out splits name other templates than ``train``."""
        return ("default",)

    @abstractmethod
    def build(self, spec: TaskSpec, rng: Rng) -> T:
        """Return the task of ``spec``: a frozen object, equal for equal specs."""

    def generate(self, spec: TaskSpec) -> T:
        """Check the spec, then ``build`` it on its private generator.

        Raises:
            TaskError: the spec names another family, or a level, split, template or seed that does not exist here.
            ContractError: ``build`` raised; the message has its line.
        """
        self.check(spec)
        try:
            return self.build(spec, Rng("task", spec.digest))
        except TurnwiseError:
            raise
        except Exception as error:
            file, line, function, _ = extract_tb(error.__traceback__)[-1]
            raise ContractError(
                f"{type(self).__name__}.build() raised {type(error).__name__}: {error} for level {spec.level}, seed "
                f"{spec.seed} in {spec.split} (at {file}:{line} in {function})"
            ) from error

    def check(self, spec: TaskSpec) -> None:
        """Raise ``TaskError`` unless this family can generate ``spec``."""
        if not isinstance(spec, TaskSpec):
            raise TaskError(
                f"family {self.name!r} generates tasks from a TaskSpec; got a {type(spec).__name__}. In start(), the "
                "argument is the generated task already: use it as it is (self.task is its specification)"
            )
        if spec.family != self.name:
            raise TaskError(f"the task spec names family {spec.family!r}, but this is family {self.name!r}")
        if spec.level not in self.levels:
            known = ", ".join(map(str, self.levels))
            raise TaskError(f"family {self.name!r} has no level {spec.level}; choose one of {known}", option="level")
        if spec.split not in self.splits:
            raise self._no_split(spec.split)
        if spec.template not in self.templates(spec.split):
            known = ", ".join(self.templates(spec.split))
            raise TaskError(
                f"family {self.name!r} has no template {spec.template!r} in split '{spec.split}'; choose {known}",
                option="template",
            )
        if self.seeds is not None and spec.seed >= self.seeds:
            raise TaskError(f"family {self.name!r} has seeds 0 to {self.seeds - 1}; got {spec.seed}", option="seed")

    def spec(
        self, seed: int = 0, *, split: Split | str = Split.TRAIN, level: int | None = None, template: str | None = None
    ) -> TaskSpec:
        """Return a checked spec; the seed draws an omitted template, and an omitted level is the lowest usual one."""
        part = TaskSpec(self.name, split=Split(split) if split in list(Split) else split).split  # type: ignore[arg-type]
        if part not in self.splits:
            raise self._no_split(part)
        if self.seeds is not None:
            seed %= self.seeds
        if template is None:
            names = self.templates(part)
            template = names[Rng("template", self.name, str(part), seed).randrange(len(names))]
        spec = TaskSpec(self.name, template, self.usual[0] if level is None else level, seed, part)
        self.check(spec)
        return spec

    def _no_split(self, split: Split) -> TaskError:
        known = ", ".join(self.splits)
        return TaskError(f"family {self.name!r} has no split '{split}'; choose one of {known}", option="split")

    def sample(
        self, n: int, *, split: Split | str = Split.TRAIN, level: int | None = None, first_seed: int = 0
    ) -> Iterator[TaskSpec]:
        """Return ``n`` specs with consecutive seeds; the usual levels alternate unless one is named."""
        for i in range(n):
            yield self.spec(
                first_seed + i, split=split, level=self.usual[i % len(self.usual)] if level is None else level
            )


def listed(templates: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the templates that a caller named.

    Raises:
        UsageError: none is named, or a text is given in place of a list.
    """
    if isinstance(templates, str) or not templates:
        raise UsageError(f"templates must be a list of names, such as {sorted(known)[:2]}; got {templates!r}")
    return tuple(templates)


def named(templates: Sequence[str] | None, known: Mapping[str, T], family: str) -> dict[str, T]:
    """Return some of a family's templates by their names; all, if none is named.

    Raises:
        TaskError: there is no such template.
    """
    for one in sorted(set(templates or ()) - set(known)):
        near = ", ".join(get_close_matches(one, known, n=5, cutoff=0.0))
        raise TaskError(f"there is no template {one!r} in {family!r}; the nearest are {near}")
    return {one: known[one] for one in templates or known}


class SeededFamily(TaskFamily[TaskSpec]):
    """The family of an environment that declares none: the spec itself is the task, and only its seed matters.

    It has no split that holds out templates or entities: there are none to hold out.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, spec: TaskSpec, rng: Rng) -> TaskSpec:
        return spec

    def __reduce__(self) -> Any:
        return (SeededFamily, (self.name,))
