"""Our own backends through the check suite, on this machine."""

from __future__ import annotations

import pytest

from turnwise.sandboxes.check.check import check
from turnwise.sandboxes.check.report import Outcome
from turnwise.sandboxes.named import backend_named

INSTALL = {
    "bubblewrap": "scripts/install-sandboxes (or: apt-get install bubblewrap)",
    "docker": "scripts/install-sandboxes, then scripts/start-docker (or set DOCKER_HOST to an engine that runs)",
}
MAY_NOT_APPLY = {6: "bubblewrap limits the number of files by the memory that they cost"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", INSTALL)
async def test_it_keeps_its_promises(name: str) -> None:
    backend = backend_named(name)
    try:
        found = await backend.probe()
        if not found.available:
            pytest.skip(f"{name} is NOT CHECKED, it does not work here: {found.why}; install it: {INSTALL[name]}")
        report = await check(backend, kills=5)
    finally:
        await backend.close()
    assert report.passed, str(report)
    untried = {each.number for each in report.verdicts if each.outcome is Outcome.NOT_APPLICABLE}
    assert untried <= set(MAY_NOT_APPLY), f"nothing else may go untried: {untried}"
