"""Warn once that an environment server was lost, and once that it is back, however many connections notice it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...logs import event
from .address import Address

LOG = logging.getLogger(__name__)
_lost: set[Address] = set()
"""Servers that were reported as lost in this process, and not yet as back."""


def report_lost(address: Address, text: str) -> None:
    """Warn that a server is lost, unless that was reported."""
    if address not in _lost:
        _lost.add(address)
        event(LOG, "environments lost", text, {"server": str(address)}, level=logging.WARNING)


def forget(addresses: Iterable[Address]) -> None:
    """Forget which servers were reported, since another run starts, which has warnings of its own."""
    _lost.difference_update(addresses)


def report_back(address: Address) -> None:
    """Warn that a server is back, if it was reported as lost."""
    if address in _lost:
        _lost.discard(address)
        event(LOG, "environments back", f"{address} is back", {"server": str(address)}, level=logging.WARNING)
