"""Limits that an engine cannot enforce are never promised; without an engine, the error says how to start one."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import SandboxUnavailableError
from turnwise.sandboxes.backend import Enforcement
from turnwise.sandboxes.docker.backend import DockerBackend
from turnwise.sandboxes.docker.engine import PRIVATE, address
from turnwise.sandboxes.docker.probe import guarantees, notes
from turnwise.sandboxes.spec import Limit

ALL: dict[str, Any] = {"MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True}


def test_every_limit_is_spoken_of() -> None:
    held = guarantees(ALL, "runc")
    assert set(held) == set(Limit)
    assert {each.enforcement for each in held.values()} == {Enforcement.ENFORCED}


@pytest.mark.parametrize(
    ("flag", "limit"), [("MemoryLimit", Limit.MEMORY), ("PidsLimit", Limit.PIDS), ("CpuCfsQuota", Limit.CPUS)]
)
def test_what_the_kernel_cannot_count_is_not_promised(flag: str, limit: Limit) -> None:
    assert guarantees({**ALL, flag: False}, "runc")[limit].enforcement is Enforcement.ABSENT
    assert flag in guarantees({}, "runc")[limit].how


def test_swap_that_is_not_counted_is_said() -> None:
    held = guarantees({**ALL, "SwapLimit": False}, "runc")[Limit.MEMORY]
    assert held.enforcement is Enforcement.BEST_EFFORT
    assert "swap" in held.how


def test_another_kernel_counts_other_things() -> None:
    held = guarantees(ALL, "runsc")
    assert held[Limit.INODES].enforcement is Enforcement.ABSENT
    assert held[Limit.PIDS].enforcement is Enforcement.BEST_EFFORT
    assert any("share the host's kernel" in note for note in notes(ALL, "runc"))
    assert not any("share the host's kernel" in note for note in notes(ALL, "runsc"))


async def test_where_no_engine_answers_it_is_said_how_to_start_one(tmp_path: Path) -> None:
    backend = DockerBackend(engine=f"unix://{tmp_path}/none.sock")
    found = await backend.probe()
    assert not found.available
    for works in ("apt-get install docker.io", "set DOCKER_HOST=unix:///path"):
        assert works in found.why, "what a user without a checkout can do"
    assert "\n" not in found.why
    with pytest.raises(SandboxUnavailableError, match=r"apt-get install docker\.io"):
        await backend.create()
    assert (await backend.reap()).sandboxes == 0
    await backend.close()


def test_the_engine_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///some/where.sock")
    assert address() == "unix:///some/where.sock"


@pytest.mark.parametrize("named", ["ssh://me@there", "npipe:////./pipe/docker"])
def test_an_engine_that_cannot_be_spoken_with_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", named)
    with pytest.raises(SandboxUnavailableError, match="not supported"):
        address()


def test_the_private_engine_is_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = tmp_path / PRIVATE
    place.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        assert address() == f"unix://{place}"
