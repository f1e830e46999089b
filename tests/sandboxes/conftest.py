"""A sandbox for tests: unconfined, for what the runner does, and bubblewrap's, for what keeps it in."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from turnwise.sandboxes.bubblewrap.backend import BubblewrapBackend
from turnwise.sandboxes.sandbox import Sandbox
from turnwise.sandboxes.spec import Limit, Limits, SandboxSpec
from turnwise.sandboxes.unconfined import UnconfinedBackend

SMALL = Limits(memory=64 * 2**20, pids=32, disk=2**20, inodes=512, output=4096)


@pytest.fixture
async def trusted() -> AsyncIterator[Sandbox]:
    """An unconfined sandbox: our own code only."""
    backend = UnconfinedBackend()
    yield await backend.create(SandboxSpec(limits=SMALL, relaxed=frozenset(Limit)))
    await backend.close()


@pytest.fixture
async def bubblewrap() -> AsyncIterator[BubblewrapBackend]:
    """The backend, where it works; where it does not, tests say what is missing."""
    backend = BubblewrapBackend()
    found = await backend.probe()
    if not found.available:
        await backend.close()
        pytest.skip(f"NOT TESTED with bubblewrap: {found.why}")
    yield backend
    await backend.close()


@pytest.fixture
async def confined(bubblewrap: BubblewrapBackend) -> Sandbox:
    """A sandbox of bubblewrap's with small limits, of which some may be missing on this machine."""
    absent = frozenset({Limit.MEMORY, Limit.PIDS, Limit.CPUS, Limit.INODES})
    return await bubblewrap.create(SandboxSpec(limits=SMALL, relaxed=absent))
