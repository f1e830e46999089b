"""A policy served to other processes: exact tokens, its own errors, and requests that end with their connection."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from turnwise.errors import InfrastructureError, PolicyServerError, PromptTooLongError
from turnwise.inference import policy_service
from turnwise.inference.policy import Completion, Finish, Policy, Sampling
from turnwise.inference.policy_service import PolicyConnection, PolicyService, receive, send
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.remote_policy import RemotePolicy

HOST = "127.0.0.1"


class Scripted:
    """Repeats its prompt, in its own versions, or raises."""

    def __init__(self) -> None:
        self.version = 3
        self.asked: list[tuple[tuple[int, ...], Sampling, str]] = []
        self.hang: asyncio.Event | None = None
        self.cancelled = asyncio.Event()
        self.error: BaseException | None = None

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        self.asked.append((tuple(prompt_ids), sampling, session))
        if self.error is not None:
            raise self.error
        if self.hang is not None:
            self.hang.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        ids = tuple(prompt_ids)[: sampling.max_tokens]
        versions = tuple(self.version + (place > 0) for place in range(len(ids)))
        return Completion(ids, tuple(-0.1 * id / 3 for id in ids), versions, Finish.LENGTH, 0.25)


@pytest.fixture
async def service() -> AsyncIterator[PolicyService]:
    opened = PolicyService()
    await opened.open(HOST)
    yield opened
    await opened.close()


@pytest.fixture
async def connection(service: PolicyService) -> AsyncIterator[PolicyConnection]:
    opened = PolicyConnection(service.address, service.key)
    yield opened
    await opened.close()


async def test_a_completion_arrives_exactly(service: PolicyService, connection: PolicyConnection) -> None:
    policy = Scripted()
    there = connection.policy(service.offer(policy), None)
    sampling = Sampling(0.7, 3, (5, 6), seed=2**55 + 1, top_p=0.9)

    found = await there.generate((9, 2**40, 7, 1), sampling, session="e-0")

    assert policy.asked == [((9, 2**40, 7, 1), sampling, "e-0")], "the policy must see the request of the worker"
    assert found == await policy.generate((9, 2**40, 7, 1), sampling), (
        "tokens, floats and versions must be the policy's"
    )
    assert isinstance(there, Policy)


async def test_policies_are_told_apart_and_offered_once(service: PolicyService, connection: PolicyConnection) -> None:
    old, new = Scripted(), Scripted()
    new.version = 9
    numbers = [service.offer(policy) for policy in (old, new, old)]

    found = await asyncio.gather(*(connection.policy(n, None).generate((4,), Sampling()) for n in numbers))

    assert [completion.versions for completion in found] == [(3,), (9,), (3,)]
    assert numbers[0] == numbers[2]


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(PromptTooLongError("no room"), PromptTooLongError), (ZeroDivisionError("a bug"), InfrastructureError)],
    ids=["its own", "any other"],
)
async def test_errors_keep_their_kind(
    service: PolicyService, connection: PolicyConnection, raised: Exception, kind: type[Exception]
) -> None:
    policy = Scripted()
    policy.error = raised

    with pytest.raises(kind, match=str(raised)):
        await connection.policy(service.offer(policy), None).generate((1,), Sampling())


async def test_a_policys_own_limit_is_known_at_the_other_end(connection: PolicyConnection) -> None:
    assert getattr(connection.policy(0, 12.5), "max_wait", None) == 12.5
    assert not hasattr(connection.policy(0, None), "max_wait"), "a policy without a limit must not be SelfTimed"


async def test_a_cancelled_call_is_cancelled_at_the_policy(
    service: PolicyService, connection: PolicyConnection
) -> None:
    policy = Scripted()
    policy.hang = asyncio.Event()
    call = asyncio.create_task(connection.policy(service.offer(policy), None).generate((1,), Sampling()))
    await policy.hang.wait()

    call.cancel()

    await asyncio.wait_for(policy.cancelled.wait(), 60)


async def test_a_worker_that_dies_takes_its_requests_along(service: PolicyService) -> None:
    policy = Scripted()
    policy.hang = asyncio.Event()
    dying = PolicyConnection(service.address, service.key)
    call = asyncio.create_task(dying.policy(service.offer(policy), None).generate((1,), Sampling()))
    await policy.hang.wait()

    await dying.close()

    with pytest.raises(PolicyServerError, match="broke"):
        await call
    await asyncio.wait_for(policy.cancelled.wait(), 60)


async def test_a_closed_service_fails_calls_and_later_ones(
    service: PolicyService, connection: PolicyConnection
) -> None:
    policy = Scripted()
    policy.hang = asyncio.Event()
    there = connection.policy(service.offer(policy), None)
    call = asyncio.create_task(there.generate((1,), Sampling()))
    await policy.hang.wait()

    await service.close()

    with pytest.raises(PolicyServerError):
        await call
    with pytest.raises(PolicyServerError, match="cannot be reached"):
        await there.generate((1,), Sampling())


async def test_a_stranger_learns_nothing(service: PolicyService) -> None:
    policy = Scripted()
    service.offer(policy)
    stranger = PolicyConnection(service.address, "not the key")

    with pytest.raises(PolicyServerError):
        await stranger.policy(0, None).generate((1,), Sampling())

    assert policy.asked == [], "without the key, no request may reach a policy"
    await stranger.close()


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack("!I", 2**31),
        struct.pack("!I", 3) + b"[1]",
        struct.pack("!I", 4) + b"\xff\xfe{}",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["too long", "no object", "no JSON", "HTTP"],
)
async def test_garbage_closes_its_connection_only(
    service: PolicyService, connection: PolicyConnection, sent: bytes
) -> None:
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(sent)
    await writer.drain()

    assert await reader.read() == b"", "a connection with garbage must be closed without an answer"

    writer.close()
    found = await connection.policy(service.offer(Scripted()), None).generate((8,), Sampling())
    assert found.token_ids == (8,)


async def test_a_known_client_with_a_broken_request_is_cut_off(service: PolicyService) -> None:
    reader, writer = await asyncio.open_connection(*service.address)
    await send(writer, {"key": service.key})
    await send(writer, {"id": 1, "policy": 0, "prompt": [1], "sampling": {"no": 1}, "session": ""})

    answer = await receive(reader, 1 << 20)

    assert (answer["error"], answer["id"]) == ("", 1)
    writer.close()


async def test_a_policy_on_servers_is_made_again_elsewhere_unless_its_weights_change_here() -> None:
    policy = RemotePolicy([ServerClient("http://127.0.0.1:9", api_key="k")], patience=5.0, request_timeout=7.0)
    policy.servers[0].vocabulary = 99  # type: ignore[attr-defined]

    made = pickle.loads(pickle.dumps(policy.recipe()))()

    assert [server.address for server in made.servers] == ["http://127.0.0.1:9"]
    assert made.servers[0].vocabulary == 99
    assert (made.limits.patience, made.limits.request) == (5.0, 7.0)
    await policy.begin_version(1, adapter="v1")
    assert policy.recipe() is None, "only this process knows which weights a server has"


async def test_a_completion_that_cannot_be_sent_is_an_error_and_no_silence(
    service: PolicyService, connection: PolicyConnection
) -> None:
    class Odd(Scripted):
        async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
            return Completion((1,), (np.float32(-0.5),), (0,), Finish.STOP, 0.0)  # type: ignore[arg-type]

    policy = connection.policy(service.offer(Odd()), None)
    async with asyncio.timeout(10):
        with pytest.raises(InfrastructureError, match="a completion cannot be sent: TypeError"):
            await policy.generate((1, 2), Sampling(max_tokens=2))


@pytest.mark.parametrize("cycles", range(4))
async def test_a_service_that_closes_as_a_client_greets_it_does_not_wait_for_the_client(
    monkeypatch: pytest.MonkeyPatch, cycles: int
) -> None:
    service, greeted, waiting = PolicyService(), asyncio.Event(), asyncio.Event()

    async def received(reader: asyncio.StreamReader, longest: int) -> dict[str, Any]:
        waiting.set()
        await greeted.wait()
        greeted.clear()  # and then nothing more
        return {"key": service.key}

    monkeypatch.setattr(policy_service, "receive", received)
    await service.open(HOST)
    _, writer = await asyncio.open_connection(*service.address)
    await waiting.wait()
    greeted.set()
    for _ in range(cycles):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await service.close()
    writer.close()


async def test_a_policy_that_cancels_itself_is_an_error_and_no_silence(
    service: PolicyService, connection: PolicyConnection
) -> None:
    policy = Scripted()
    policy.error = asyncio.CancelledError()  # such as that of a task within it
    async with asyncio.timeout(10):
        with pytest.raises(InfrastructureError, match="the policy was canceled, and not by its caller"):
            await connection.policy(service.offer(policy), None).generate((1, 2), Sampling(max_tokens=2))
