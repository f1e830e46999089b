"""A server of environments that the tests of several protocols share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import turnwise as tw

from .environment_servers import APPS, ID, Tally, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A server of two environments, with three places."""
    tw.register(ID, Tally)
    with serving([ID, APPS], capacity=3) as server:
        yield server
