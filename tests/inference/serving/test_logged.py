"""Servers in the log: pauses, retries, failures and restarts, once each and without keys."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.errors import InfrastructureError
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.replica import Replica
from turnwise.inference.serving.server import Pause

from ...logged import events as logged
from .fake_server import FakeServer
from .helpers import eventually

Serve = Callable[..., FakeServer]
PROMPT = [3, 1, 4, 1, 5]


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, dict[str, Any]]]]:
    """Return the events so far: kind and fields."""
    caplog.set_level(logging.INFO, logger="turnwise")
    return lambda: logged(caplog.records)


async def test_a_pause_and_its_end_are_one_event_each(fake: FakeServer, events: Callable[[], Any]) -> None:
    policy = RemotePolicy([ServerClient(fake.url)])
    await policy.open(control=True)
    await policy.pause(Pause.ABORT)
    await policy.begin_version(3)
    await policy.resume()
    assert events() == [("pause", {"mode": "abort", "servers": [fake.url]}), ("resume", {"version": 3})]


async def test_a_wrong_answer_is_a_retry_with_the_reason(serve: Serve, events: Callable[[], Any]) -> None:
    server = serve()
    policy = RemotePolicy([ServerClient(server.url)], patience=0.3, backoff=0.01)
    await policy.open()
    server.sabotage.add("truncates")
    with pytest.raises(InfrastructureError, match="truncated the prompt"):
        await policy.generate(PROMPT, Sampling(max_tokens=2))
    found = events()
    retries = [fields for kind, fields in found if kind == "retry"]
    assert [fields["attempt"] for fields in retries] == [1, 2, 3], "one event before each new try"
    assert {fields["server"] for fields in retries} == {server.url}
    assert Counter(kind for kind, _ in found)["server down"] == 1, "it was down once, however often it was probed"


def test_failures_together_are_one_event_and_a_new_process_is_a_restart(
    caplog: pytest.LogCaptureFixture, events: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "key-of-the-server")
    server = ServerClient("http://somebody:password@localhost:1")
    replica = Replica(server, 4, backoff=1.0, longest=5.0)
    for _ in range(3):
        replica.record_failure(InfrastructureError("401 for key-of-the-server"), 10.0)
    ((kind, fields),) = events()
    assert kind == "server down"
    assert "key-of-the-server" not in caplog.text
    assert "password" not in caplog.text + str(fields)


async def test_a_server_that_answers_again_is_said_to_be_back(serve: Serve, events: Callable[[], Any]) -> None:
    server = serve()
    policy = RemotePolicy([ServerClient(server.url)], patience=60.0, backoff=0.01)
    before = await policy.generate(PROMPT, Sampling(max_tokens=2, seed=1))
    await asyncio.to_thread(server.kill)
    task = asyncio.ensure_future(policy.generate(PROMPT, Sampling(max_tokens=2, seed=1)))
    await eventually(lambda: any(kind == "server down" for kind, _ in events()))
    await asyncio.to_thread(server.start)
    assert (await task).token_ids == before.token_ids
    back = [kind for kind, _ in events() if kind in ("server back", "restart")]
    assert len(back) == 1, back
