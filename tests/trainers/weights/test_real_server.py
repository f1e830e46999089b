"""Weights into the real vLLM, by every transport: they arrive, stale caches are caught, actions span versions."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
import torch

from turnwise import Sampling
from turnwise.errors import ContractError, UsageError
from turnwise.inference.models import load_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Completion
from turnwise.inference.serving.http import routes
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.launch.process import VllmProcess
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Capabilities, Pause
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.weights.adapter import Adapter
from turnwise.trainers.weights.canary import logprobs_of
from turnwise.trainers.weights.canary_prompts import Kind, Questions
from turnwise.trainers.weights.nccl import Nccl
from turnwise.trainers.weights.packing import packs
from turnwise.trainers.weights.reload import Reload
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.vllm_transfer import Files, Native
from turnwise.trainers.weights.weight_sync import WeightSync

from ...inference.serving.helpers import sampled, until_sampled
from .fake import ANY, nudge

pytestmark = pytest.mark.vllm

PROMPT = tuple(range(5, 45))
LONG = 450
ATTEMPTS = 10
"""Most changes of weights until one meets a running answer: on a busy machine it may have ended."""
TOLERANCE = 1e-4
"""Of log-probabilities in float32, ten times what differs between the two (measured: 2e-6 to 1e-5)."""


class Careless(ServerClient):
    """Pretends to reset the prefix cache; vLLM itself resets it in a pause unless a parameter forbids it."""

    async def pause(self, mode: Pause) -> None:
        await self._control(routes.Call(f"{routes.PAUSE}?mode={mode.value}&clear_cache=false", {}))

    async def reset_prefix_cache(self) -> None:
        return


class Trained:
    """A learner's model and the way of its weights to one real server."""

    def __init__(self, server: VllmProcess, folder: Path, how: str, *, mode: Pause = Pause.KEEP, client: Any = None):
        self.model, self.tokenizer = load_model(server.model)
        self.client = client or ServerClient(server.url)
        self.policy = RemotePolicy([self.client])
        self.exchanged = folder / "exchange"
        exchange = SharedFolder(self.exchanged, chunk=200_000)
        self.transport: Native | Reload | Adapter
        self.own = copy.deepcopy(self.model.state_dict())
        if how == "adapter":
            attach(self.model, LoraConfig(rank=4))
            base = {"path": str(server.model), "digest": ""}
            self.transport = Adapter(self.policy, exchange, self.model, rank=4, base=base, mode=mode)
        else:
            ways = {"native": lambda: Native(self.policy, Files(exchange), mode=mode)}
            self.transport = ways.get(how, lambda: Reload(self.policy, exchange, mode=mode))()
        questions = Questions.of(self.tokenizer, context_length=512, temperature=0.7, dtypes=["float32"])
        self.transfer = WeightSync(self.policy, self.transport, self.model, questions)

    async def agrees(self, version: int) -> None:
        """Check that samples are of this version, and have the trainer's log-probabilities."""
        said = await self.policy.generate(PROMPT, Sampling(max_tokens=12, seed=version))
        assert set(said.versions) == {version}
        mine = logprobs_of(self.model, PROMPT, said.token_ids)
        assert mine == pytest.approx(said.logprobs, abs=TOLERANCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Leave the server as it was: with its own weights, under no adapter."""
        await self.transfer.close()
        await self.policy.close()
        if self.transport.whole:
            self.model.load_state_dict(self.own)
            policy = RemotePolicy([ServerClient(self.client.address)])
            native = Native(policy, Files(SharedFolder(Path(f"{self.exchanged}-back"))))
            await WeightSync(policy, native, self.model, self.transfer.questions).send(0)
            await native.close()
            await policy.close()


WAYS = [(how, mode) for how in ("native", "reload", "adapter") for mode in Pause]
IN_THE_CORE = [("native", Pause.KEEP), ("reload", Pause.WAIT), ("adapter", Pause.ABORT)]


@pytest.mark.parametrize(
    ("how", "mode"),
    [pytest.param(*way, marks=[] if way in IN_THE_CORE else pytest.mark.shift("vllm: other ways")) for way in WAYS],
)
async def test_weights_arrive(vllm_server: VllmProcess, tmp_path: Path, how: str, mode: Pause) -> None:
    async with Trained(vllm_server, tmp_path, how, mode=mode) as trained:
        for version in range(3):
            await trained.transfer.send(version)
            await trained.agrees(version)
            nudge(trained.model, seed=version + 1)


@pytest.mark.shift("vllm: tied")
@pytest.mark.parametrize("how", ["native", "reload"])
async def test_a_tied_output_embedding_arrives(tied_vllm_server: VllmProcess, tmp_path: Path, how: str) -> None:
    async with Trained(tied_vllm_server, tmp_path, how) as trained:
        assert trained.model.config.tie_word_embeddings
        for version in range(3):
            await trained.transfer.send(version)
            await trained.agrees(version)
            nudge(trained.model, seed=version + 1)


async def test_one_action_spans_versions_and_says_which_token_is_whose(
    vllm_server: VllmProcess, tmp_path: Path
) -> None:
    async with Trained(vllm_server, tmp_path, "native") as trained:
        await trained.transfer.send(0)
        for attempt in range(ATTEMPTS):
            version = 2 * attempt + 2
            said = await speak_through(trained, vllm_server.url, version - 1, version)
            for n, one in enumerate(said):
                assert len(one.token_ids) == LONG, "nothing is lost"
                assert list(one.versions) == sorted(one.versions)
                newest = [place for place, stamped in enumerate(one.versions) if stamped == version]
                if len(newest) > 5:
                    mine = logprobs_of(trained.model, (*PROMPT, n), one.token_ids)
                    # Frozen requests read their tokens again: all of the prefix is of the newest weights.
                    theirs = [one.logprobs[place] for place in newest[2:]]
                    assert [mine[place] for place in newest[2:]] == pytest.approx(theirs, abs=TOLERANCE)
            if any(len(set(one.versions)) > 1 for one in said):
                return
    raise AssertionError(f"in {ATTEMPTS} attempts nothing was under way when weights changed")


async def speak_through(trained: Trained, url: str, *versions: int) -> list[Completion]:
    """Four long answers, during which these versions are sent."""
    before = await sampled(url)
    speaking = [
        asyncio.create_task(trained.policy.generate((*PROMPT, n), Sampling(max_tokens=LONG, seed=n))) for n in range(4)
    ]
    for place, version in enumerate(versions, 1):
        await until_sampled(url, before + 40 * place)
        nudge(trained.model, size=0.02, seed=version)
        await trained.transfer.send(version)
    return await asyncio.gather(*speaking)


async def test_a_cache_that_outlives_the_update_is_caught_and_named(vllm_server: VllmProcess, tmp_path: Path) -> None:
    async with Trained(vllm_server, tmp_path, "native", client=Careless(vllm_server.url)) as trained:
        nudge(trained.model)
        with pytest.raises(ContractError, match="serves: cached: "):
            await trained.transfer.send(1)


async def test_the_warm_question_is_in_the_cache_and_the_fresh_one_is_not(
    vllm_server: VllmProcess, tmp_path: Path
) -> None:
    async with Trained(vllm_server, tmp_path, "native") as trained:
        await trained.transfer.send(0)
        for warm in (False, True):  # asked just now by the canary, then again
            asked = {each.kind: each for each in trained.transfer.questions.asked(100 + warm)}
            cached = {
                kind: (await trained.transport.probe(asked[kind].prompt_ids, asked[kind].sampling))[0].cached
                for kind in Kind
                if kind in asked
            }
        assert cached[Kind.WARM] >= 128
        assert cached[Kind.FRESH] == cached[Kind.SHORT] == cached[Kind.PLAIN] == 0


async def test_an_update_of_another_model_is_refused_and_the_server_goes_on(
    vllm_server: VllmProcess, tmp_path: Path
) -> None:
    tokenizer = build_tokenizer("byte")
    other = build_model(NanoConfig(tokenizer="byte", size="0.1M", layers=1, context_length=512), tokenizer)
    async with Trained(vllm_server, tmp_path, "native") as trained:
        await trained.transfer.send(0)
        wrong = WeightSync(trained.policy, trained.transport, other, trained.transfer.questions)
        wrong._open = True
        with pytest.raises(Exception, match=r"lacks model\.layers\.1"):
            await wrong.send(1)
        await trained.transfer.send(2)
        await trained.agrees(2)


def test_what_nccl_tells_servers_is_what_vllm_reads() -> None:
    from vllm.distributed.weight_transfer.nccl_engine import (
        NCCLWeightTransferInitInfo,
        NCCLWeightTransferUpdateInfo,
    )
    from vllm.distributed.weight_transfer.packed_tensor import pack_tensors

    backend = Nccl("10.0.0.1", 29600, device=torch.device("cpu"), dtype=torch.bfloat16)
    backend.meet([replace(ANY, workers=2)] * 3)
    infos = [NCCLWeightTransferInitInfo(**backend.init_info(replica)) for replica in range(3)]
    assert [(each.rank_offset, each.world_size) for each in infos] == [(1, 7), (3, 7), (5, 7)]
    assert infos[0].packed
    weights = {str(size): torch.randn(size) for size in (30, 4, 200, 1, 9)} | {"n": torch.zeros(4, dtype=torch.int64)}
    (info,) = backend.updates(weights)
    coming = NCCLWeightTransferUpdateInfo(**info)
    assert coming.dtype_names == ["bfloat16"] * 5 + ["int64"]
    sent = iter([(name, each.bfloat16() if each.is_floating_point() else each) for name, each in weights.items()])
    for pack in packs(weights, torch.bfloat16, 400, over=True):
        theirs = pack_tensors(sent, lambda item: item[1], 400)
        assert (theirs.names, theirs.tensor_sizes) == (list(pack.tensors), pack.sizes)
        assert torch.equal(theirs.packed_tensor, pack.fill(torch.empty(pack.size, dtype=torch.uint8)))
    assert pack_tensors(sent, lambda item: item[1], 400) is None


class Sleeping(ServerClient):
    """Says that the server can sleep: on a CPU, vLLM goes through all of it and frees nothing."""

    async def probe(self) -> Capabilities:
        return replace(await super().probe(), sleeps=True)


@pytest.mark.parametrize("level", [1, 2])
async def test_servers_sleep_while_the_learner_learns_and_wake_for_its_weights(
    vllm_server: VllmProcess, tmp_path: Path, level: int
) -> None:
    client = Sleeping(vllm_server.url)
    async with Trained(vllm_server, tmp_path, "native", client=client) as trained:
        trained.transfer.level = level
        for version in range(3):
            await trained.transfer.send(version)
            await trained.agrees(version)
            await trained.transfer.rest()
            assert await client.asleep()
            waiting = asyncio.create_task(trained.policy.generate(PROMPT, Sampling(max_tokens=3, seed=0)))
            await asyncio.sleep(0.2)
            assert not waiting.done(), "nothing is sampled from a server that sleeps"
            nudge(trained.model, seed=version + 1)
            if version < 2:
                await trained.transfer.send(version + 1)
                assert set((await waiting).versions) == {version + 1}
                assert not await client.asleep()
            else:
                waiting.cancel()
        # A later run finds the server asleep, as one that was killed leaves it.
        await RemotePolicy([ServerClient(vllm_server.url)]).open(control=True)
        assert not await client.asleep()
        await trained.transfer.send(9)
        await trained.agrees(9)


async def test_a_server_that_cannot_sleep_is_refused_with_the_option(vllm_server: VllmProcess, tmp_path: Path) -> None:
    async with Trained(vllm_server, tmp_path, "native") as trained:
        trained.transfer.level = 1
        await trained.transfer.send(0)
        with pytest.raises(UsageError, match="started without sleep mode"):
            await trained.transfer.rest()
