"""Only a browser on this machine reads, with the token, from the viewer's own pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from turnwise.errors import UsageError
from turnwise.view.app import build_app
from turnwise.view.guard import new_token
from turnwise.view.runs import Runs

from .conftest import TOKEN

PAGES = ("/", "/app.js", "/api/runs", "/api/live", "/api/runs/none/episodes?store=episodes", "/nowhere")


@pytest.fixture
def stranger(shared: Path) -> TestClient:
    """A browser without the token."""
    return TestClient(build_app(Runs([shared]), TOKEN), base_url="http://127.0.0.1:8484", follow_redirects=False)


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_shown_without_the_token(stranger: TestClient, page: str) -> None:
    answer = stranger.get(page)
    assert answer.status_code == 403
    assert "turnwise view" in answer.text, "the refusal says what to do"


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "é" * 30])
def test_a_wrong_token_opens_nothing(stranger: TestClient, token: str) -> None:
    assert stranger.get("/", params={"token": token}).status_code == 403
    assert not stranger.cookies


def test_a_wrong_cookie_opens_nothing(client: TestClient, stranger: TestClient) -> None:
    (name,) = client.cookies.keys()
    stranger.cookies.set(name, "wrong")
    assert stranger.get("/api/runs").status_code == 403


def test_the_token_leaves_the_address_and_enters_a_cookie(stranger: TestClient) -> None:
    answer = stranger.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie, "no script of a page reads the token"
    assert "SameSite=strict" in cookie, "no other site sends it"
    assert stranger.get("/").status_code == 200


def test_two_viewers_on_one_host_do_not_share_a_cookie(client: TestClient, shared: Path) -> None:
    other = TestClient(build_app(Runs([shared]), TOKEN[::-1]), base_url="http://127.0.0.1:9999")
    other.get("/", params={"token": TOKEN[::-1]})
    assert set(client.cookies) & set(other.cookies) == set()


REBOUND = ("evil.example", "evil.example:8484", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0:8484")
MALFORMED = ("127.0.0.1@evil.example", "[::", "", "10.0.0.1", "127.0.0.1/evil")


@pytest.mark.parametrize("host", [*REBOUND, *MALFORMED])
def test_rebound_names_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/runs", headers={"Host": host})
    assert answer.status_code == 421, f"{host!r} may be a name of another site that leads here"
    assert "done" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8484", "localhost:9000", "[::1]:8484", "LOCALHOST"])
def test_names_of_this_machine_are_served(client: TestClient, host: str) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    assert client.get("/api/runs", headers={"Host": host, "Cookie": cookie}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_origins_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.get("/api/runs", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")], "no CORS"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_viewer_only_reads(client: TestClient, method: str) -> None:
    assert client.request(method, "/api/runs").status_code == 405


@pytest.mark.parametrize("page", ["/", "/app.js", "/api/runs", "/nowhere", "/api/runs/none"])
def test_every_answer_is_strict(client: TestClient, page: str) -> None:
    headers = client.get(page).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy, "no text becomes markup, whatever a page does"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_a_token_cannot_be_guessed() -> None:
    assert new_token() != new_token()
    for weak in ("", "short", "x" * 15, "sixteen letters!", "ünicode-token-that-is-long"):
        with pytest.raises(UsageError, match=r"TURNWISE_VIEW_TOKEN.* must be at least 16 letters"):
            new_token(weak)
    assert new_token(TOKEN) == TOKEN
