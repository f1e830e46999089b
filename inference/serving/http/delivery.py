"""``deliver``: send a folder to a ``Receiver`` in chunks with checksums, each sent again if it does not arrive."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import httpx

from ....errors import InfrastructureError
from ..launch.receiver import CHECKSUM, CHUNK, NAME

TRIES = 5
"""Number of times that one chunk is sent."""
PAUSE = 0.2
"""Seconds before a chunk is sent again; doubles each time."""
SECONDS = 60.0
"""Maximum seconds for one chunk."""


async def deliver(folder: Path, url: str, key: str, entry: str, *, chunk: int = CHUNK) -> None:
    """Send the files of a folder; the receiver has all of them afterwards, or no entry of this name.

    Args:
        folder: folder without subfolders.
        url: URL of the receiver.
        key: key of the receiver.
        entry: name of the folder there.
        chunk: bytes per request.

    Raises:
        InfrastructureError: the receiver cannot be reached, or its disk is full.
    """
    files = await asyncio.to_thread(_sizes, folder)
    headers = {"authorization": f"Bearer {key}"}
    try:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=SECONDS, trust_env=False) as http:
            for name, size in files.items():
                await _send_file(http, folder / name, size, f"/{entry}/{name}", chunk)
            answer = await http.post(f"/{entry}", json=files)
            if answer.status_code != httpx.codes.OK:
                raise _refusal(entry, answer)
    except httpx.HTTPError as error:
        raise InfrastructureError(f"{entry} cannot be sent to {url}: {error or type(error).__name__}") from error


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file, without hidden ones such as ``.gitattributes``, which no model needs."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and NAME.fullmatch(path.name)]
    return {path.name: path.stat().st_size for path in files}


async def _send_file(http: httpx.AsyncClient, path: Path, size: int, target: str, chunk: int) -> None:
    with path.open("rb") as opened:
        for offset in range(0, max(size, 1), chunk):  # also an empty file
            data = await asyncio.to_thread(opened.read, chunk)
            await _send_chunk(http, data, f"{target}?offset={offset}")


async def _send_chunk(http: httpx.AsyncClient, data: bytes, target: str) -> None:
    digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
    for tried in range(TRIES):
        await asyncio.sleep(PAUSE * 2**tried if tried else 0.0)
        try:
            answer = await http.put(target, content=data, headers={CHECKSUM: digest})
        except httpx.TransportError:
            if tried + 1 == TRIES:
                raise
            continue
        if answer.status_code == httpx.codes.OK:
            return
        if answer.status_code != httpx.codes.UNPROCESSABLE_ENTITY:
            raise _refusal(target, answer)
    raise InfrastructureError(f"{http.base_url}{target} arrived with another checksum {TRIES} times")


def _refusal(target: str, answer: httpx.Response) -> InfrastructureError:
    return InfrastructureError(f"{answer.url.host} refuses {target} ({answer.status_code}): {answer.text[:300]}")
