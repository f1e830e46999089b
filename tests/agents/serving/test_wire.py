"""What is at an address and is no server of a policy."""

from __future__ import annotations

import asyncio
import socket

import pytest

from turnwise.agents.serving.client import ServerClient
from turnwise.errors import InfrastructureError


async def test_what_accepts_and_never_speaks_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.agents.serving.client.VERSION_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, and nobody reads
        client = ServerClient(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(InfrastructureError, match="cannot be reached: ReadTimeout"):
            await asyncio.wait_for(client.probe(), 20)
        await client.close()
