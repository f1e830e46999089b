"""The clients that the server of all episodes' sites answers, without any browser."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from turnwise.envs.web.chromium.server import HEADER, LARGEST, SiteServer

from .hostile import Hostile


@pytest.fixture
async def server() -> AsyncIterator[SiteServer]:
    one = SiteServer()
    await one.start()
    yield one
    await one.stop()


async def asked(server: SiteServer, host: str, key: str = "", path: str = "/", **more: str | bytes) -> httpx.Response:
    """Return the server's answer, optionally to a request with a key."""
    headers = {"host": host, "upgrade-insecure-requests": "1", **({HEADER: key} if key else {})}
    async with httpx.AsyncClient(trust_env=False) as client:
        url, method = f"http://127.0.0.1:{server.port}{path}", "POST" if more else "GET"
        return await client.request(method, url, headers=headers, content=more.get("content"))


@pytest.mark.slow
async def test_only_whoever_has_the_key_is_answered(server: SiteServer) -> None:
    key, episode = server.enter()
    assert (await asked(server, "trap.test", key)).status_code == 404, "an episode that has not begun"
    episode.sites = Hostile()
    assert (await asked(server, "trap.test", key)).status_code == 200
    for other in ("", "guessed", key[:-1], "0" * 32):
        assert (await asked(server, "trap.test", other)).status_code == 404, other
        assert (await asked(server, f"trap.{other}.localhost:{server.port}")).status_code == 404, other
    server.leave(key)
    assert (await asked(server, "trap.test", key)).status_code == 404, "an episode that is over"


async def test_episodes_see_only_their_own_sites(server: SiteServer) -> None:
    keys = []
    for _ in range(2):
        key, episode = server.enter()
        episode.sites = Hostile()
        keys.append(key)
    await asked(server, "trap.test", keys[0], "/inside")
    first, second = (server.episodes[key].sites for key in keys)
    assert isinstance(first, Hostile)
    assert isinstance(second, Hostile)
    assert [one.path for one in first.asked] == ["/inside"]
    assert not second.asked


async def test_a_person_sees_an_episode(server: SiteServer) -> None:
    key, episode = server.enter()
    episode.sites = sites = Hostile()
    sites.cookies["trap.test"] = "begun"
    url = httpx.URL(server.address(key, "trap.test"))
    answer = await asked(server, url.netloc.decode(), path="/inside?a=1")
    assert "Inside." in answer.text
    [request] = sites.asked
    assert (request.host, request.query.get("a"), request.cookies["session"]) == ("trap.test", "1", "begun")


async def test_other_hosts_are_noted_and_answered_with_nothing(server: SiteServer) -> None:
    key, episode = server.enter()
    episode.sites = sites = Hostile()
    for host in ("elsewhere.example", "trap.test:81", f"trap.{key}.localhost:{server.port}", "127.0.0.1"):
        answer = await asked(server, host, key)
        assert (answer.status_code, answer.text) == (204, ""), host
    assert len(episode.refused) == 4
    assert not sites.asked


async def test_what_is_too_large_is_refused(server: SiteServer) -> None:
    key, episode = server.enter()
    episode.sites = sites = Hostile()
    assert (await asked(server, "trap.test", key, content=b"x" * LARGEST)).status_code == 200
    assert (await asked(server, "trap.test", key, content=b"x" * (LARGEST + 1))).status_code == 413
    assert len(sites.asked) == 1


async def test_a_browser_that_asks_for_an_icon_changes_nothing(server: SiteServer) -> None:
    key, episode = server.enter()
    episode.sites = sites = Hostile()
    assert (await asked(server, "trap.test", key, "/favicon.ico")).status_code == 204
    assert not sites.asked
