"""A server that only samples is a policy; what it lacks is refused in words when something asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.policy import Sampling
from turnwise.inference.policy_checks import PolicyContract, Subject
from turnwise.inference.serving.fan_out import fan_out
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import (
    Capabilities,
    Pause,
    Sampler,
    ServerResponse,
    adapter_host,
    weight_receiver,
)
from turnwise.inference.transformers_policy import TransformersPolicy

from .conftest import CONTEXT
from .helpers import scores


class Local:
    """A sampler that someone brings: a model in this process, and nothing but the four members of ``Sampler``."""

    def __init__(self, model: Any, address: str = "local") -> None:
        self.address = address
        self._policy = TransformersPolicy(model, context_length=CONTEXT)

    async def probe(self) -> Capabilities:
        return Capabilities(version="1", model="local", context_length=CONTEXT)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> ServerResponse:
        completion = await self._policy.generate(prompt_ids, sampling, session=session)
        return ServerResponse(completion, tuple(prompt_ids))

    async def close(self) -> None: ...


class TestContract(PolicyContract):
    @pytest.fixture(autouse=True)
    def _over(self, models: list[Any]) -> None:
        self.model = models[0]

    def subject(self) -> Subject:
        prompts = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8, 9, 7, 9]]
        samplers = [Local(self.model, "one"), Local(self.model, "two")]
        return Subject(RemotePolicy(samplers), prompts, CONTEXT, scores(self.model), tolerance=1e-4)


async def test_what_a_sampler_lacks_is_refused_by_name(models: list[Any]) -> None:
    sampler: Sampler = Local(models[0])
    policy = RemotePolicy([sampler])
    await policy.open()
    with pytest.raises(UsageError, match=r"server local \(Local\) cannot be paused, so its weights cannot change"):
        await policy.open(control=True)
    with pytest.raises(UsageError, match=r"server local \(Local\) cannot be paused"):
        await policy.pause(Pause.ABORT)
    with pytest.raises(UsageError, match=r"server local \(Local\) takes no weights; set server\.transfer = adapter"):
        weight_receiver(sampler)
    with pytest.raises(UsageError, match=r"server local \(Local\) loads no adapters; set server\.transfer = native"):
        adapter_host(sampler)
    completion = await policy.generate([1, 2, 3], Sampling(max_tokens=4))
    assert completion.token_ids, "a refusal must leave the policy as it was"


class Named:
    def __init__(self, address: str) -> None:
        self.address = address


async def test_a_fan_out_waits_for_all_and_tells_answers_from_failures() -> None:
    ended: list[str] = []

    async def call(server: Named) -> str:
        if server.address == "gone":
            raise InfrastructureError("no connection to gone")
        if server.address == "hangs":
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        ended.append(server.address)
        return server.address.upper()

    servers = [Named(name) for name in ("a", "gone", "hangs", "b")]
    found = await fan_out(servers, call, what="load a checkpoint", seconds=0.2)
    assert [(server.address, answer) for server, answer in found.answers] == [("a", "A"), ("b", "B")]
    assert [str(error).split(";")[0] for _, error in found.failures] == [
        "no connection to gone",
        "hangs did not load a checkpoint within 0.2 s",
    ]
    assert ended == ["a", "b"]


@pytest.mark.parametrize("error", [UsageError("no"), TimeoutError("of its own"), asyncio.CancelledError()])
async def test_a_refusal_is_raised_after_all_have_ended(error: BaseException) -> None:
    ended: list[str] = []

    async def call(server: Named) -> None:
        if server.address == "refuses":
            raise error
        await asyncio.sleep(0)
        ended.append(server.address)

    with pytest.raises(type(error)):
        await fan_out([Named("refuses"), Named("a"), Named("b")], call, seconds=60)
    assert ended == ["a", "b"]
