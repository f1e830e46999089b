"""The guards of conftest.py guard."""

from __future__ import annotations

import os
import socket
import threading

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 443)])
def test_no_test_reaches_the_network(address: tuple[str, int]) -> None:
    with socket.socket() as outside, pytest.raises(RuntimeError, match="tried to reach the network"):
        outside.connect(address)
    with socket.socket() as outside, pytest.raises(RuntimeError, match="tried to reach the network"):
        outside.connect_ex(address)


def test_this_machine_stays_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.append(server.accept()[0]))
        thread.start()
        client.connect(server.getsockname())
        thread.join()
        assert len(accepted) == 1, "connecting to this machine is allowed"
        accepted[0].close()


def test_models_are_never_downloaded() -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["TRANSFORMERS_OFFLINE"] == "1"
