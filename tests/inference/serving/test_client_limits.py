"""Neither a refusal nor the time of another call takes capabilities from a client."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.errors import InfrastructureError
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http.client import ServerClient

from .conftest import Serve
from .fake_server import FakeServer

PROMPT = [1, 2, 3]
SAMPLING = Sampling(max_tokens=6, seed=0)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/inference/v1/generate", 404), ("/inference/v1/generate", 403), ("/is_paused", 404), ("/metrics", 429)],
)
async def test_one_refusal_takes_no_ability_from_a_process(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    client = ServerClient(fake.url)
    before = await client.probe()
    answer, refused = fake._answer, [path]

    async def once(method: str, there: str, *rest: Any) -> Any:
        if there in refused:
            refused.remove(there)
            return status, {"error": {"message": "try later"}}
        return await answer(method, there, *rest)

    monkeypatch.setattr(fake, "_answer", once)
    with pytest.raises(InfrastructureError, match="no longer has"):
        await client.probe()
    assert await client.probe() == before
    served = await client.generate(PROMPT, SAMPLING)
    assert served.completion.token_ids
    assert fake.asked[-1].path == "/inference/v1/generate"


@pytest.mark.slow
async def test_the_time_of_control_calls_does_not_cut_completions(serve: Serve) -> None:
    client = ServerClient(serve(delay=0.6).url, timeout=0.3)
    assert (await client.generate(PROMPT, SAMPLING)).completion.token_ids
    with pytest.raises(InfrastructureError, match=r"has not answered within 0\.3 s"):
        await client.has_embedding(1)
