"""Check what every environment defines: ``start(task, rng)`` and ``act(action)``, and its family."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ..errors import ContractError, UsageError
from ..tasks.family import TaskFamily
from ..tasks.spec import Split
from .author_line import at, defined_at

REQUIRED = {
    "start": ("start(self, task, rng)", 2, "the first observation"),
    "act": ("act(self, action)", 1, "tw.running(...), tw.success(...) or tw.failure(...)"),
}
"""Each method as an author writes it, the number of arguments that it receives, and what it returns."""


def check_required(cls: type, base: type) -> None:
    """Check that a class defines the required methods itself, and that they take the arguments they will receive.

    Args:
        cls: the class of an environment.
        base: ``TurnEnv``, whose own methods do not count.

    Raises:
        ContractError: a method is missing or takes other arguments; the message has the author's line.
    """
    for name, (written, count, returns) in REQUIRED.items():
        if getattr(cls, name) is getattr(base, name):
            where = at(defined_at(cls))
            raise ContractError(f"{cls.__name__} has no {name}(); write {written}, which returns {returns}{where}")
        _check_arguments(cls, name, written, count)


def check_family(cls: type, family: Any) -> None:
    """Check what the author of an environment declares as its family.

    Args:
        cls: the class of the environment.
        family: its ``family``.

    Raises:
        ContractError: it is not a family, or a field has the wrong type; the message has the author's line.
    """
    if family is None:
        return
    if not isinstance(family, TaskFamily):
        cure = f"family = {family.__name__}()" if isinstance(family, type) else "family = MyFamily(), a tw.TaskFamily"
        raise ContractError(f"{cls.__name__}.family is {family!r:.80}; write {cure}{at(defined_at(cls))}")
    kind, levels, splits = type(family), family.levels, family.splits
    wrong = [] if isinstance(getattr(family, "name", None), str) else ["name must be text, such as name = 'deals'"]
    if not isinstance(levels, Sequence) or not levels or not all(isinstance(level, int) for level in levels):
        wrong.append(f"levels must be a tuple of integers, such as (1, 2); got {levels!r}")
    if not isinstance(splits, Sequence) or not splits or any(split not in list(Split) for split in splits):
        wrong.append(f"splits must be a tuple of tw.Split ({', '.join(Split)}); got {splits!r}")
    if wrong:
        raise ContractError(f"{kind.__name__}.{wrong[0]}{at(defined_at(kind))}")
    _check_arguments(kind, "build", "build(self, spec, rng)", 2)


def check_limit(cls: type, limit: object) -> None:
    """Check the turn limit that a class declares.

    Raises:
        ContractError: it is not a positive integer; the message has the author's line.
    """
    if not isinstance(limit, int) or limit < 1:
        where = at(defined_at(cls))
        raise ContractError(f"{cls.__name__}.max_turns must be a positive integer; got {limit!r}{where}")


def usable_limit(limit: int) -> int:
    """Return a turn limit that a caller asks for in place of the declared one.

    Raises:
        UsageError: it is not a positive integer.
        TypeError: it is not a number; ``make`` names the argument.
    """
    if limit < 1 or not isinstance(limit, int) or isinstance(limit, bool):
        raise UsageError(f"max_turns must be an integer of at least 1; got {limit!r}")
    return limit


def _check_arguments(cls: type, name: str, written: str, count: int) -> None:
    signature = signature_of(cls, name)
    try:
        if signature is not None:
            signature.bind(*[None] * count)
    except TypeError:
        raise ContractError(
            f"{cls.__name__}.{name}{signature} cannot be called with {count} positional argument"
            f"{'s'[: count - 1]}; write {written}{at(defined_at(getattr(cls, name)))}"
        ) from None


def signature_of(owner: type, name: str) -> inspect.Signature | None:
    """Return the signature of a method without ``self``, or ``None`` if Python cannot tell it."""
    method = inspect.getattr_static(owner, name)
    bound = method.__get__(object(), owner) if hasattr(method, "__get__") else method
    try:
        return inspect.signature(bound)
    except (TypeError, ValueError):
        return None
