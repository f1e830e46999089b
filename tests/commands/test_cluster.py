"""``turnwise cluster``: bad input in one line."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_bad_input_is_one_line(run: Run) -> None:
    run("cluster", "chekc").refused("unknown action: turnwise cluster chekc", "check")
    run("cluster", "check", "rollouts.workers=2").refused("name one with --config")
    run("cluster", "check", "--config", "loop-mazes").refused("there is no configuration 'loop-mazes'", "loop-maze")


@pytest.mark.slow
def test_a_cluster_that_is_not_there(run: Run) -> None:
    pytest.importorskip("ray", reason="turnwise[ray] is not installed")
    run("cluster", "check", "--address", "127.0.0.1:1").refused("there is no Ray cluster at '127.0.0.1:1'")


@pytest.mark.slow
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", None], ids=["closes", "HTTP", "silent"])
@pytest.mark.parametrize("where", ["option", "variable"])
def test_another_program_at_the_address_is_found_out_soon(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: bytes | None, where: str
) -> None:
    """Ray itself tries for minutes, and writes on standard error meanwhile."""
    pytest.importorskip("ray", reason="turnwise[ray] is not installed")
    connection = importlib.import_module("turnwise.rollouts.cluster.connection")
    monkeypatch.setattr(connection, "ANSWER", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as peer:
                peer.recv(1000)
                if answer is None:
                    peer.recv(1000)  # until the client closes
                else:
                    peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address if where == "variable" else "")
        ran = run("cluster", "check", *([] if where == "variable" else ["--address", address]))
        ran.refused("there is no Ray cluster at", "ray start --head")
        thread.join(10)


def test_without_ray_the_message_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    run("cluster", "check").refused("turnwise cluster check needs Ray: pip install 'turnwise[ray]'")
