"""Chromium for tests: one for the process, and pools of their own for those that kill it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from turnwise.envs.web.chromium.launch import executable
from turnwise.errors import UsageError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests without an installed browser, and say what is missing."""
    try:
        executable()
    except UsageError as error:
        for item in items:
            if item.get_closest_marker("slow") and "chromium" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"needs a browser: {error}"))


@pytest.fixture
async def pools() -> AsyncIterator[Callable[..., Any]]:
    """Makes pools with settings, and closes them."""
    from turnwise.envs.web.chromium.pool import Pool, Settings

    made: list[Pool] = []

    def make(**settings: Any) -> Pool:
        made.append(Pool(Settings(**settings)))
        return made[-1]

    yield make
    for one in made:
        await one.close()
