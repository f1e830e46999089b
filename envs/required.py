"""Check the methods that every environment defines: ``start(task, rng)`` and ``act(action)``."""

from __future__ import annotations

import inspect

from ..errors import ContractError
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
        method = getattr(cls, name)
        if method is getattr(base, name):
            where = at(defined_at(cls))
            raise ContractError(f"{cls.__name__} has no {name}(); write {written}, which returns {returns}{where}")
        signature = signature_of(cls, name)
        try:
            if signature is not None:
                signature.bind(*[None] * count)
        except TypeError:
            where = at(defined_at(method))
            raise ContractError(
                f"{cls.__name__}.{name}{signature} cannot be called with {count} positional argument"
                f"{'s'[: count - 1]}; write {written}{where}"
            ) from None


def signature_of(owner: type, name: str) -> inspect.Signature | None:
    """Return the signature of a method without ``self``, or ``None`` if Python cannot tell it."""
    method = inspect.getattr_static(owner, name)
    bound = method.__get__(object(), owner) if hasattr(method, "__get__") else method
    try:
        return inspect.signature(bound)
    except (TypeError, ValueError):
        return None
