"""Our own backends through the check suite, on this machine."""

from __future__ import annotations

import pytest

from turnwise.sandboxes.check.check import CASES, check
from turnwise.sandboxes.named import backend_named
from turnwise.verdicts import Status

from ...shifts import sampled

INSTALL = {
    "bubblewrap": "scripts/install-sandboxes (or: apt-get install bubblewrap)",
    "docker": "scripts/install-sandboxes, then scripts/start-docker (or set DOCKER_HOST to an engine that runs)",
}
MAY_NOT_APPLY = {6: "bubblewrap limits the number of files by the memory that they cost"}


HOSTILE = tuple(case.number for case in CASES if case.number <= 48)
CONTRACT = tuple(case.number for case in CASES if case.number > 48)
PARTS = {
    "hostile one": HOSTILE[::3],
    "hostile two": HOSTILE[1::3],
    "hostile three": HOSTILE[2::3],
    "contract one": CONTRACT[::2],
    "contract two": CONTRACT[1::2],
}
"""The cases in parts, so that several processes share them."""
IN_CORE = sampled([f"docker-{part}" for part in PARTS], 2, key="parts of the check")
"""Parts that the core tries on Docker; shifts try the others. On bubblewrap, the core tries all."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(name, part, id=id, marks=pytest.mark.shift if name == "docker" and id not in IN_CORE else ())
        for name in ("bubblewrap", "docker")
        for part in PARTS
        for id in (f"{name}-{part}",)
    ],
)
async def test_it_keeps_its_promises(name: str, part: str) -> None:
    backend = backend_named(name)
    try:
        found = await backend.probe()
        if not found.available:
            pytest.skip(f"{name} is NOT CHECKED, it does not work here: {found.why}; install it: {INSTALL[name]}")
        report = await check(backend, cases=PARTS[part], kills=2)
    finally:
        await backend.close()
    assert report.passed, str(report)
    assert len(report.verdicts) == len(PARTS[part])
    untried = {each.number for each in report.verdicts if each.status is Status.SKIP}
    assert untried <= set(MAY_NOT_APPLY), f"nothing else may go untried: {untried}"
