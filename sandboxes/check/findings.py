"""What trying a case can find, other than that all is well."""

from __future__ import annotations


class Failed(Exception):
    """A promise is not kept; the text says what happened, with values."""


class NotApplicable(Exception):
    """The case has no meaning for this backend on this machine; the text says why."""


def expect(holds: object, otherwise: str) -> None:
    """See that something holds.

    Raises:
        Failed: it does not; with the words of ``otherwise``.
    """
    if not holds:
        raise Failed(otherwise)
