"""A folder arrives over HTTP as it was sent, or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from turnwise.errors import InfrastructureError
from turnwise.inference.serving.http import delivery
from turnwise.inference.serving.http.delivery import deliver
from turnwise.inference.serving.launch.receiver import KEPT, MODEL, Receiver

HERE = "127.0.0.1"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    found = Receiver(tmp_path / "received", HERE, "secret")
    yield found
    found.close()


def folder(place: Path, **files: bytes) -> Path:
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


def content(place: Path | None) -> dict[str, bytes]:
    assert place is not None, "the entry is not there"
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 100])
async def test_every_byte_arrives(receiver: Receiver, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    await deliver(folder(tmp_path / "v1", first=data, empty=b""), receiver.url, "secret", "v1", chunk=10)
    assert content(receiver.entry("v1")) == {"first": data, "empty": b""}


async def test_a_chunk_that_was_changed_on_its_way_is_sent_again(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, faults = receiver.write, iter([b"cut", b"\0" * 10])

    def damaged(entry: str, file: str, offset: int, data: bytes, checksum: str) -> tuple[HTTPStatus, str]:
        return write(entry, file, offset, next(faults, data) if offset == 10 else data, checksum)

    monkeypatch.setattr(receiver, "write", damaged)
    monkeypatch.setattr(delivery, "PAUSE", 0.001)
    data = os.urandom(25)
    await deliver(folder(tmp_path / "v1", weights=data), receiver.url, "secret", "v1", chunk=10)
    assert content(receiver.entry("v1")) == {"weights": data}
    assert next(faults, None) is None, "the damage was not tried"


async def test_an_answer_that_is_lost_does_no_harm(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, lost = httpx.AsyncClient.put, list[str]()

    async def losing(self: httpx.AsyncClient, url: str, **how: object) -> httpx.Response:
        answer = await put(self, url, **how)  # type: ignore[arg-type]
        if url.endswith("offset=10") and not lost:
            lost.append(url)
            raise httpx.ReadError("the connection broke")
        return answer

    monkeypatch.setattr(httpx.AsyncClient, "put", losing)
    monkeypatch.setattr(delivery, "PAUSE", 0.001)
    data = os.urandom(35)
    await deliver(folder(tmp_path / "v1", weights=data), receiver.url, "secret", "v1", chunk=10)
    assert lost
    assert content(receiver.entry("v1")) == {"weights": data}, "the chunk is there twice, or not at all"


async def test_what_an_earlier_delivery_left_is_replaced(receiver: Receiver, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"x" * 100).hexdigest()
    assert receiver.write("v1", "weights", 0, b"x" * 100, digest)[0] == HTTPStatus.OK
    await deliver(folder(tmp_path / "v1", weights=b"short"), receiver.url, "secret", "v1")
    assert content(receiver.entry("v1")) == {"weights": b"short"}


async def test_a_full_disk_is_the_machines_fault(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> tuple[HTTPStatus, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(receiver, "write", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        await deliver(folder(tmp_path / "v1", weights=b"1"), receiver.url, "secret", "v1")
    assert receiver.entry("v1") is None


async def test_only_the_newest_entries_and_the_model_remain(receiver: Receiver, tmp_path: Path) -> None:
    names = [MODEL, *(f"v{number}" for number in range(KEPT + 2))]
    for name in names:
        await deliver(folder(tmp_path / name, weights=name.encode()), receiver.url, "secret", name)
    assert [name for name in names if receiver.entry(name)] == [MODEL, *names[-KEPT:]]
    assert not [path for path in receiver.folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("method", "path", "key", "body", "status"),
    [
        ("PUT", "/v1/weights?offset=0", "wrong", b"1", 401),
        ("PUT", "/v1/weights?offset=0", "secre", b"1", 401),
        ("POST", "/v1", "wrong", b"{}", 401),
        ("PUT", "/../weights?offset=0", "secret", b"1", 404),
        ("PUT", "/%2e%2e/weights?offset=0", "secret", b"1", 404),
        ("PUT", "/v1/..?offset=0", "secret", b"1", 404),
        ("PUT", "/.v1.half/weights?offset=0", "secret", b"1", 404),
        ("PUT", "/v1/deep/weights?offset=0", "secret", b"1", 404),
        ("PUT", "/v1/weights", "secret", b"1", 400),
        ("PUT", "/v1/weights?offset=x", "secret", b"1", 400),
        ("PUT", "/v1/weights?offset=-1", "secret", b"1", 400),
        ("PUT", "/v1/weights?offset=7", "secret", b"1", 409),
        ("POST", "/v1", "secret", b"[]", 400),
        ("POST", "/v1", "secret", b"{", 400),
        ("POST", "/v1", "secret", b'{"weights": 1}', 409),
        ("GET", "/v1/weights", "secret", b"", 501),
    ],
)
def test_nothing_else_is_taken(
    receiver: Receiver, tmp_path: Path, method: str, path: str, key: str, body: bytes, status: int
) -> None:
    digest = hashlib.sha256(body).hexdigest()
    headers = {"authorization": f"Bearer {key}", "x-sha256": digest}
    before = {path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size}
    answer = httpx.request(method, httpx.URL(receiver.url, raw_path=path.encode()), content=body, headers=headers)
    assert answer.status_code == status
    assert {path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size} == before
    assert receiver.entry("v1") is None
