"""A real vLLM server that joins between two transfers has the newest adapter before it samples."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from turnwise import Sampling
from turnwise.inference.models import load_model
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.launch.process import ServerOptions, VllmProcess
from turnwise.inference.serving.launch.receiver import Receiver
from turnwise.inference.serving.placed import PlacedServer
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.weights.adapter import Adapter
from turnwise.trainers.weights.canary import logprobs_of
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.weight_sync import WeightSync

from ...inference.serving.helpers import sampled
from ...inference.serving.test_placed import FakeHost
from .fake import nudge

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600), pytest.mark.shift("vllm: late adapter")]

PROMPT = tuple(range(5, 45))
TOLERANCE = 1e-4
"""Of log-probabilities in float32; see ``test_real_server.py``."""


async def test_a_late_server_has_the_adapter_before_it_samples(vllm_server: VllmProcess, tmp_path: Path) -> None:
    options = ServerOptions(context_length=512, max_seqs=4, max_rank=8, counts=True, kv_megabytes=50)
    process = VllmProcess(vllm_server.model, options, log=tmp_path / "late.log")
    starting = asyncio.create_task(asyncio.to_thread(process.start))
    receiver = Receiver(tmp_path / "machine", "127.0.0.1", "key")
    host: Any = FakeHost(None, receiver, sees=False)  # no place yet, on a machine that sees none of the run's files
    late = PlacedServer("late", host, vllm_server.model, timeout=60.0)
    model, tokenizer = load_model(vllm_server.model)
    model = attach(model, LoraConfig(rank=4))
    policy = RemotePolicy([ServerClient(vllm_server.url), late], patience=60.0)
    policy.expect({late: "no room"})
    base = {"path": str(vllm_server.model), "digest": ""}
    transport = Adapter(policy, SharedFolder(tmp_path / "exchange"), model, rank=4, base=base)
    questions = Questions.of(tokenizer, context_length=512, temperature=0.7, dtypes=["float32"])
    sync = WeightSync(policy, transport, model, questions, refresh=True)

    async def takes_part() -> None:
        """Sample until the late server does, too; each answer must be that of the newest adapter."""
        count = None
        for session in range(0, 2400, 8):
            asked = Sampling(max_tokens=8, seed=session)
            said = await asyncio.gather(*(policy.generate(PROMPT, asked, session=f"{session + n}") for n in range(8)))
            for each in said:
                assert set(each.versions) == {policy.version}
                mine = logprobs_of(model, PROMPT, each.token_ids)
                assert mine == pytest.approx(each.logprobs, abs=TOLERANCE), "it was sampled without the newest adapter"
            if count is not None and await sampled(process.url) > count:
                return
            if count is None and all(replica.up for replica in policy._replicas.members):
                count = await sampled(process.url)  # by the canary
            await asyncio.sleep(0.1)
        raise AssertionError(f"the late server never took part: {policy._replicas.causes}")

    try:
        nudge(model, seed=1)
        await sync.send(1)
        nudge(model, seed=2)
        await sync.send(2)
        assert sync.metrics["sync/replicas"] == 1
        await starting
        began, host.server = time.perf_counter(), process
        await takes_part()
        print(f"\nthe late server sampled {time.perf_counter() - began:.1f} s after it was found")
        assert late.pushed == 1, "the newest adapter alone reached a machine that does not see it"
        nudge(model, seed=3)
        await sync.send(3)
        assert sync.metrics["sync/replicas"] == 2
        await takes_part()
    finally:
        await sync.close()
        await policy.close()
        receiver.close()
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.to_thread(process.stop)
