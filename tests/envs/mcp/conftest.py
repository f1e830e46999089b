"""An episode with a server of our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .around import Around, raw


@pytest.fixture
def env() -> Iterator[Around]:
    """An episode with the server without the SDK."""
    made = Around(servers=[raw()])
    made.reset(seed=0)
    yield made
    made.close()
