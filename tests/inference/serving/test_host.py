"""A host keeps one server alive, takes its model if the machine lacks it, and says what is wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.inference.serving.http.delivery import deliver
from turnwise.inference.serving.launch import host as module
from turnwise.inference.serving.launch.host import HostOptions, HostState, HostStatus, ServerHost, listing_of
from turnwise.inference.serving.launch.process import ServerOptions, healthy
from turnwise.inference.serving.launch.receiver import MODEL

from .test_launch import Bench, eventually

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK", 0.05)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    found = Bench(tmp_path)
    found.notes.touch()
    yield found
    assert eventually(found.all_gone), "a server outlived its host"


def hosting(bench: Bench, mode: str = "well", model: str | None = None, **given: object) -> ServerHost:
    options = ServerOptions(environment={"MODE": mode, "NOTES": str(bench.notes)})
    folder = bench.folder / "model"
    found = HostOptions(model or str(folder), listing_of(folder), options, str(bench.python), **given)  # type: ignore[arg-type]
    return ServerHost(found)


def until(host: ServerHost, state: HostState, starts: int = 0) -> HostStatus:
    assert eventually(lambda: host.status().state is state and host.status().starts >= starts), host.status()
    return host.status()


def test_a_server_that_dies_is_started_again_with_the_reason_on_record(bench: Bench) -> None:
    host = hosting(bench)
    try:
        first = until(host, HostState.READY)
        assert healthy(int(first.url.rpartition(":")[2]))
        os.kill(bench.started()[0][0], signal.SIGKILL)
        again = until(host, HostState.READY, starts=2)
        assert again.failures == 0
        assert len(bench.started()) == 2
    finally:
        host.stop()


def test_a_server_that_never_starts_is_tried_again_and_counted(bench: Bench) -> None:
    host = hosting(bench, "dies")
    try:
        assert eventually(lambda: host.status().failures >= 2)
        assert "head_dim 7 is not supported" in host.status().said
        assert host.status().state is HostState.STARTING
    finally:
        host.stop()


def test_a_host_can_be_stopped_while_its_server_starts(bench: Bench) -> None:
    host = hosting(bench, "hangs")
    assert eventually(lambda: bool(bench.started()))
    began = time.monotonic()
    host.stop()
    assert time.monotonic() - began < 30


def test_what_no_wait_would_cure_is_final(bench: Bench) -> None:
    (bench.folder / "model" / "config.json").rename(bench.folder / "model" / "other.json")
    host = hosting(bench)
    try:
        assert "no config.json" in until(host, HostState.FAILED).said
    finally:
        host.stop()


async def test_a_machine_that_lacks_the_model_starts_with_the_one_it_is_sent(bench: Bench) -> None:
    host = hosting(bench, model="/nowhere/model")
    try:
        status = until(host, HostState.LACKS_MODEL)
        assert not bench.started()
        await deliver(bench.folder / "model", status.receiver, status.key, MODEL)
        until(host, HostState.READY)
    finally:
        host.stop()
    assert not host._folder.exists(), "received files were left behind"


def test_a_folder_of_the_same_path_with_other_files_is_another_folder(bench: Bench) -> None:
    host = hosting(bench)
    try:
        until(host, HostState.READY)
        folder = bench.folder / "v1"
        folder.mkdir()
        (folder / "weights").write_bytes(b"1234")
        listing = listing_of(folder)
        assert host.find(str(folder), "v1", listing) == str(folder)
        assert host.find("", "v1", listing) == "", "only a received one counts"
        os.utime(folder / "weights", ns=(1, 1))  # the same sizes, written at another time: another run's
        assert host.find(str(folder), "v1", listing) == ""
        assert host.find(str(bench.folder / "v2"), "v2", {}) == ""
    finally:
        host.stop()
