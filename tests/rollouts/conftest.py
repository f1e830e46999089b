"""A cluster for the tests of rollouts on Ray, started once for each module that needs one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from turnwise.rollouts.engine import pool_of

from .ray_cluster import ENV, alive, on, two_nodes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="turnwise[ray] is not installed")
    with two_nodes() as started:
        yield started


@pytest.fixture
async def pool(cluster: Any) -> AsyncIterator[Any]:
    opened: Any = pool_of(on(), ENV)
    yield opened
    await opened.close()
    assert opened.open == 0
    assert await asyncio.to_thread(alive) == [], "a closed pool must leave no actor behind"
