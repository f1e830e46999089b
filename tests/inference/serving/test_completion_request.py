"""Time limits of one completion: who is at fault, and how often and how long it is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.errors import (
    InfrastructureError,
    PolicyServerError,
    PolicyTimeoutError,
    ServerSettingsError,
    UsageError,
)
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.retrying import TRIES
from turnwise.inference.serving.server import Capabilities, Pause, ServerResponse

GOOD = ServerResponse(Completion((5,), (-0.1,), (0,), Finish.STOP), (1, 2))
SAMPLING = Sampling(max_tokens=8, stop_ids=(5,), seed=0)
LONG = 0.3
"""Seconds of a request's limit in a test that waits until it expires."""


class Scripted:
    """A server that does what a test says with each request."""

    def __init__(self, answer: Callable[[int], Any], name: str = "one") -> None:
        self.answer, self.address = answer, name
        self.asked = self.probed = 0
        self.started = 1.0
        self.gone = False
        self.look = 0.0
        self.going = asyncio.Event()
        self.going.set()

    async def probe(self) -> Capabilities:
        self.probed += 1
        await asyncio.sleep(self.look)
        if self.gone:
            raise InfrastructureError(f"server {self.address} is lost")
        return Capabilities("0.32.0", "m", 100, control=True, version_spans=True, started=self.started)

    async def generate(self, prompt: Any, sampling: Sampling, **options: Any) -> ServerResponse:
        self.asked += 1
        done = self.answer(self.asked)
        if isinstance(done, Exception):
            raise done
        if isinstance(done, float):
            await asyncio.sleep(done)
        return GOOD

    async def name_version(self, version: int) -> None: ...

    async def pause(self, mode: Pause) -> None: ...

    async def resume(self) -> None: ...

    async def reset_prefix_cache(self) -> None: ...


async def opened(*servers: Any, request: float = 60.0, patience: float = 60.0) -> RemotePolicy:
    policy = RemotePolicy(servers, request_timeout=request, patience=patience, backoff=0.001)
    await policy.open()
    return policy


async def ask(policy: RemotePolicy) -> Completion:
    return await asyncio.wait_for(policy.generate((1, 2), SAMPLING), 60)


# -- whose fault ----------------------------------------------------------------------------------------------------


async def test_who_writes_too_long_at_a_server_that_works_has_failed_itself() -> None:
    server = Scripted(lambda n: 1e6)
    policy = await opened(server, request=LONG)
    server.look = LONG
    tasks = [asyncio.ensure_future(ask(policy)) for _ in range(5)]
    for task in tasks:
        with pytest.raises(PolicyTimeoutError, match=r"no completion after 0\.3 s .*server one works"):
            await task
    assert server.asked == 5, "it was sent again"
    assert server.probed < 1 + 5, "one look serves those that were sent together"
    assert len(policy.live) == 1, "it lost its replica for it"


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_server_that_says_nothing_else_either_is_at_fault(restarted: bool) -> None:
    servers = [Scripted(lambda n: 1e6 if n == 1 else None), Scripted(lambda n: None, "other")]
    policy = await opened(*servers, request=LONG)
    if restarted:
        servers[0].started = 2.0
    else:
        servers[0].gone = True
    assert (await ask(policy)).token_ids == (5,), "the other one answers"
    assert servers[1].asked == 1
    assert len(policy.live) == 1


async def test_a_resend_may_take_longer_than_patience() -> None:
    server = Scripted(lambda n: PolicyServerError("wrong") if n == 1 else 1.0)
    policy = await opened(server, patience=0.2)
    assert (await ask(policy)).token_ids == (5,)
    assert server.asked == 2


async def test_who_waits_for_a_server_has_a_whole_request_once_one_is_there() -> None:
    server = Scripted(lambda n: 1.0)
    policy = await opened(server, patience=0.5)
    policy._replicas.members[0].record_failure(InfrastructureError("was away"), 0.0)
    assert (await ask(policy)).token_ids == (5,)


async def test_waiting_for_room_is_not_waiting_for_a_server() -> None:
    server = Scripted(lambda n: 0.3)
    policy = RemotePolicy([server], max_in_flight=1, request_timeout=30.0, patience=0.2)  # type: ignore[list-item]
    await policy.open()
    many = await asyncio.gather(*(ask(policy) for _ in range(4)))
    assert len(many) == 4


# -- pauses ---------------------------------------------------------------------------------------------------------


async def test_a_pause_does_not_count_against_patience() -> None:
    server = Scripted(lambda n: PolicyServerError("wrong") if n == 1 else None)
    policy = await opened(server, patience=0.2)
    policy._replicas.members[0].record_failure(
        InfrastructureError("was away"), asyncio.get_running_loop().time() + 0.05
    )
    task = asyncio.ensure_future(ask(policy))
    await asyncio.sleep(0)
    policy._replicas.hold(frozen=True)
    await asyncio.sleep(0.6)
    assert not task.done()
    policy._replicas.release()
    assert (await task).token_ids == (5,)


@pytest.mark.parametrize("mode", [Pause.KEEP, Pause.ABORT])
async def test_a_request_that_hangs_is_given_up_though_weights_change_all_the_time(
    mode: Pause, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.inference.serving.remote_policy.GRACE", 0.0)
    policy = await opened(Scripted(lambda n: 1e6), request=LONG)
    task = asyncio.ensure_future(ask(policy))
    for _ in range(200):
        await asyncio.sleep(0.02)
        if task.done():
            break
        await policy.pause(mode)
        await policy.resume()
    with pytest.raises(PolicyTimeoutError):
        await task


async def test_a_frozen_request_is_not_late() -> None:
    policy = await opened(Scripted(lambda n: 1.0), request=0.8)
    task = asyncio.ensure_future(ask(policy))
    await asyncio.sleep(0.01)
    await policy.pause(Pause.KEEP)
    await asyncio.sleep(1.5)
    await policy.resume()
    assert (await task).token_ids == (5,)


async def test_draining_before_new_weights_is_bounded_by_the_request() -> None:
    policy = await opened(Scripted(lambda n: 1e6), request=LONG)
    task = asyncio.ensure_future(ask(policy))
    await asyncio.sleep(0.01)
    await asyncio.wait_for(policy.pause(Pause.WAIT), 60)
    await policy.resume()
    with pytest.raises(PolicyTimeoutError):
        await task


# -- how often ------------------------------------------------------------------------------------------------------


async def test_one_completion_meets_so_many_faults_over_all_replicas_and_no_more() -> None:
    servers = [Scripted(lambda n: PolicyServerError("wrong"), str(i)) for i in range(2)]
    policy = await opened(*servers)
    with pytest.raises(PolicyServerError, match=rf"wrong \(sent {TRIES} times\)"):
        await ask(policy)
    assert [server.asked for server in servers] == [3, 3]


async def test_only_a_good_answer_makes_good_for_failures() -> None:
    server = Scripted(lambda n: None)
    policy = await opened(server)
    (replica,) = policy._replicas.members
    seen: list[int] = []

    def fails_thrice(n: int) -> Any:
        seen.append(replica.failures)
        return InfrastructureError("fails") if n < 4 else None

    server.answer = fails_thrice
    await ask(policy)
    assert seen == [0, 1, 2, 3], "a look alone made good for them, and the pauses do not grow"
    assert replica.failures == 0


async def test_a_setting_of_the_servers_that_cuts_answers_twice_ends_the_run_with_its_remedy() -> None:
    fault = ServerSettingsError("it ended after 2 tokens; start it with --generation-config vllm")
    with pytest.raises(UsageError, match="start it with --generation-config vllm"):
        await ask(await opened(Scripted(lambda n: fault)))
    assert (await ask(await opened(Scripted(lambda n: fault if n == 1 else None)))).token_ids == (5,)
