"""The table of ``docs/serve_environments.md`` names every route, and who may use it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from .environment_servers import ID, OPERATOR, TOKEN

PAGE = Path(__file__).parents[2] / "docs/serve_environments.md"
BEFORE = ("/openenv/{env:path}", "/{env:path}")
"""Beginnings of paths that name an environment."""


def documented() -> dict[str, str]:
    """The users of each path in the table, which may also be below an environment."""
    lines = PAGE.read_text().split("| routes | who may use them |")[1].split("\n\n")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {path: who for routes, who in rows for path in re.findall(r"`(/[^`]*)`", routes) if not path.endswith("/ID")}


def short(path: str) -> str:
    """A path without the environment in front."""
    return next((path.removeprefix(each) for each in BEFORE if path.startswith(each)), path)


def test_the_table_names_every_route(server: Any) -> None:
    served = {short(route.path) for route in server.app.routes} - {"/{path:path}"}  # any path of NeMo Gym's user
    assert served - {""} == set(documented())


def test_only_health_answers_without_a_token(server: Any) -> None:
    who = documented()
    base = server.address.replace("ws", "http", 1)
    with httpx.Client(base_url=base, trust_env=False, timeout=20) as client:
        for route in server.app.routes:
            path, known = route.path.replace("{env:path}", ID), who.get(short(route.path), "clients")
            for method in (getattr(route, "methods", None) or set()) - {"HEAD"}:
                if route.path == "/{path:path}":
                    answer = client.request(method, "/verify", auth=("nemo", "wrong" * 5))
                else:
                    answer = client.request(method, path)
                expected = {200} if known == "everyone" else {401, 405}  # 405: a method of NeMo Gym's agents alone
                assert answer.status_code in expected, (method, path)
        for path in ("/ws", f"/openenv/{ID}/ws", "/turnwise/v1"):
            with pytest.raises(InvalidStatus, match="401"):
                connect(server.address + path).__enter__()


@pytest.mark.parametrize("token", [TOKEN, OPERATOR])
def test_a_token_may_be_a_header_or_the_password_of_a_url(server: Any, token: str) -> None:
    bare = server.address.replace("ws", "http", 1)
    within = bare.replace("http://", f"http://anyone:{token}@")
    ways = [(bare, {"Authorization": f"Bearer {token}"}), (bare, {"X-API-Key": token}), (within, {})]
    for url, headers in ways:
        for path in ("/metadata", "/list_environments"):
            assert httpx.get(url + path, headers=headers, trust_env=False).status_code == 200, (url, path)
    proxied = {"X-API-Key": token, "Authorization": "Basic cHJveHk6c2VjcmV0"}  # those of a proxy in front
    assert httpx.get(f"{bare}/metadata", headers=proxied, trust_env=False).status_code == 200
    assert httpx.get(f"{bare}/metadata", auth=("anyone", "wrong" * 5), trust_env=False).status_code == 401
    with connect(server.address.replace("ws://", f"ws://anyone:{token}@") + "/ws") as socket:
        socket.send('{"type": "state"}')
        assert "state" in str(socket.recv(20))
