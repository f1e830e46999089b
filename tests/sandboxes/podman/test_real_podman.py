"""Sandboxes on a real Podman: the check suite, and what Podman does otherwise than Docker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from turnwise.errors import SandboxUnavailableError
from turnwise.sandboxes.backend import Enforcement
from turnwise.sandboxes.check.check import check
from turnwise.sandboxes.docker.backend import DockerBackend
from turnwise.sandboxes.podman.backend import PodmanBackend
from turnwise.sandboxes.spec import Limit, SandboxSpec
from turnwise.verdicts import Status

from ..check.test_backends import PARTS
from .service import podman_service

pytestmark = [pytest.mark.slow, pytest.mark.shift("sandboxes: podman")]

ENDS = "grep -c ' /work .*nr_inodes=' /proc/self/mountinfo; ls /etc/hosts /etc/resolv.conf; env | grep -ci proxy"


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of a service."""
    with podman_service() as address:
        yield address


@pytest.mark.parametrize("part", PARTS)
async def test_it_keeps_its_promises(service: str, part: str) -> None:
    backend = PodmanBackend(engine=service)
    try:
        found = await backend.probe()
        absent = [limit for limit in Limit if found.limits[limit].enforcement is Enforcement.ABSENT]
        if absent:
            pytest.skip(f"NOT CHECKED on {found.why}, which cannot limit {', '.join(absent)}")
        report = await check(backend, cases=PARTS[part], kills=2)
    finally:
        await backend.close()
    assert report.passed, str(report)
    assert len(report.verdicts) == len(PARTS[part])
    assert not {each.number for each in report.verdicts if each.status is Status.SKIP}


async def test_what_podman_would_let_in_stays_out(service: str) -> None:
    """Files without number in folders in memory, the host's resolver and names, and its proxy."""
    backend = PodmanBackend(engine=service)
    try:
        relaxed = frozenset({Limit.MEMORY, Limit.PIDS, Limit.CPUS})  # absent without root and control groups v2
        async with await backend.create(SandboxSpec(relaxed=relaxed)) as sandbox:
            said = await sandbox.exec(ENDS)
    finally:
        await backend.close()
    assert said.stdout.text.split() == ["1", "0"], "a limit on files, no /etc/hosts or resolv.conf, no proxy"


async def test_the_docker_backend_names_the_right_one(service: str) -> None:
    backend = DockerBackend(engine=service)
    with pytest.raises(SandboxUnavailableError, match="is podman, which has a sandbox backend of its own: podman"):
        await backend.create()
    await backend.close()
