"""The specification of a task: a frozen, hashable value with a JSON form, from which a family generates the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ..errors import TaskError
from .rng import stable_hash


class Split(StrEnum):
    """The part of a family that a task belongs to. Splits hold out templates and entities, not only seeds."""

    TRAIN = "train"
    """Tasks for training."""
    DEV = "dev"
    """Tasks for choices during training: other instances of the training distribution."""
    TEST_IID = "test_iid"
    """Held-out instances of the training distribution."""
    TEST_TEMPLATE = "test_template"
    """Templates (layouts, phrasings, rules) that no other split uses."""
    TEST_ENTITY = "test_entity"
    """Entities (words, names, facts) that no other split uses."""
    CHALLENGE = "challenge"
    """Both held out, or larger than anything in training."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Names one task. ``generate(spec)`` of its family is a pure function of these five fields.

    Args:
        family: the family's name, e.g. ``"maze"``.
        template: a name known to the family, e.g. ``"rooms"``; ``"default"`` where there is only one.
        level: 1 (easiest) to 5; each family defines its levels by measured numbers.
        seed: a non-negative integer.
        split: the part of the family that the task belongs to.
    """

    family: str
    template: str = "default"
    level: int = 1
    seed: int = 0
    split: Split = Split.TRAIN

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise TaskError(f"task seed must be a non-negative integer; got {self.seed!r}")
        if isinstance(self.level, bool) or not isinstance(self.level, int) or self.level < 1:
            raise TaskError(f"task level must be a positive integer; got {self.level!r}")
        try:
            object.__setattr__(self, "split", Split(self.split))
        except ValueError:
            known = ", ".join(Split)
            raise TaskError(f"unknown task split {self.split!r}; choose one of {known}", option="split") from None

    @property
    def digest(self) -> str:
        """Sixteen hex digits that identify the spec in every process; every episode records them."""
        return stable_hash(self.family, self.template, self.level, self.seed, str(self.split)).hex()[:16]

    def with_seed(self, seed: int) -> TaskSpec:
        """Return the same kind of task with another seed."""
        return replace(self, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict that ``from_json`` parses."""
        # Spelled out: asdict() walks every field, and this runs at every reset.
        return {
            "family": self.family,
            "template": self.template,
            "level": self.level,
            "seed": self.seed,
            "split": str(self.split),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskSpec:
        """Parse the result of ``to_json``.

        Raises:
            TaskError: a field is missing, unknown or of the wrong kind.
        """
        if not isinstance(data, Mapping):
            raise TaskError(f"not a task spec: {data!r:.60}; use a TaskSpec or its JSON object")
        unknown = set(data) - set(cls.__dataclass_fields__)
        if unknown or "family" not in data:
            raise TaskError(
                f"not a task spec: {dict(data)!r} (needs 'family'; knows {', '.join(cls.__dataclass_fields__)})"
            )
        return cls(**data)
