"""Servers that sleep while the learner learns: the order of calls, and what happens when one does not wake."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Capabilities
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.run.server_settings import ServerConfig, refuse_sleep
from turnwise.trainers.weights.adapter import Adapter
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.vllm_transfer import Files, Native
from turnwise.trainers.weights.weight_sync import WeightSync

from .fake import ANY, FakeServer, nano, nudge, tokenizer

WORDS: Any = tokenizer()
CAN = replace(ANY, sleeps=True)
PROMPT, SAMPLING = tuple(WORDS.encode("what is the answer")), Sampling(max_tokens=4, seed=1)


class Sleepy(FakeServer):
    """Frees its weights in level 2, as vLLM does: what is in their place is noise."""

    level = 0
    wakes = True

    async def sleep(self, level: int) -> None:
        self._alive()
        self.log.append(f"sleep {level}")
        self.level, self.parts = level, {"weights", "kv_cache"}
        if level == 2:
            for parameter in self.model.parameters():
                parameter.data.normal_()

    async def wake(self, tags: Sequence[str] = (), *, restore: bool = False) -> None:
        self._alive()
        self.log.append(f"wake {' '.join(tags)}".strip() + (" and restore" if restore else ""))
        if not self.wakes:
            raise InfrastructureError(f"server {self.address} failed (500): CUDA out of memory")
        self.parts -= set(tags or self.parts)
        self.level = self.level if self.parts else 0
        if restore:
            self.model.load_state_dict(self.base.state_dict())

    async def asleep(self) -> bool:
        return self.level > 0

    async def generate(self, *args: Any, **kwargs: Any) -> Any:
        assert not self.level, "a server that sleeps is never asked"
        return await super().generate(*args, **kwargs)


def stage(folder: Path, level: int, *, how: str = "native", replicas: int = 1, can: Capabilities = CAN) -> Any:
    model = nano(WORDS)
    servers = [Sleepy(model, WORDS, can=can, address=f"fake:{n}") for n in range(replicas)]
    policy = RemotePolicy(servers, patience=1)
    transport: Any = Native(policy, Files(SharedFolder(folder)), timeout=60)
    if how == "adapter":
        attach(model, LoraConfig(rank=2))
        transport = Adapter(policy, SharedFolder(folder), model, rank=2, base={"path": "base", "digest": ""})
    questions = Questions.of(WORDS, context_length=512, temperature=1.0, dtypes=["float32"])
    return model, servers, policy, WeightSync(policy, transport, model, questions, sleep=level)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "level"), [("native", 1), ("native", 2), ("adapter", 1)])
async def test_weights_come_before_the_cache_and_requests_wait_for_both(tmp_path: Path, how: str, level: int) -> None:
    model, (server,), policy, transfer = stage(tmp_path, level, how=how)
    for version in range(3):
        await transfer.send(version)
        assert set((await policy.generate(PROMPT, SAMPLING)).versions) == {version}
        await transfer.rest()
        waiting = asyncio.create_task(policy.generate(PROMPT, SAMPLING))
        await asyncio.sleep(0.01)
        assert server.level == level
        assert not waiting.done()
        waiting.cancel()
        nudge(model, seed=version)
    await transfer.send(3)
    order = [word for word in server.log if word.startswith(("sleep", "wake", "reset", "resume"))]
    place = order.index(f"sleep {level}")
    wanted = ["wake weights", "reset", "wake kv_cache", "resume"]
    assert [word for word in order[place + 1 :] if word in wanted][:4] == wanted
    assert transfer.metrics["sync/canary_gap_max"] < 1e-4


async def test_without_the_setting_nothing_sleeps(tmp_path: Path) -> None:
    _model, (server,), policy, transfer = stage(tmp_path, 0)
    await transfer.send(0)
    await transfer.rest()
    assert not any(word.startswith("sleep") for word in server.log)
    await policy.generate(PROMPT, SAMPLING)


async def test_a_replica_that_does_not_wake_gets_no_requests(tmp_path: Path) -> None:
    model, servers, policy, transfer = stage(tmp_path, 1, replicas=2)
    await transfer.send(0)
    await transfer.rest()
    servers[0].wakes = False
    nudge(model)
    await transfer.send(1)
    assert transfer.metrics["sync/replicas"] == 1
    for seed in range(6):  # whatever replica the session would prefer
        said = await policy.generate(PROMPT, replace(SAMPLING, seed=seed), session=str(seed))
        assert set(said.versions) == {1}


async def test_if_none_wakes_the_run_stops_in_words(tmp_path: Path) -> None:
    _model, servers, _policy, transfer = stage(tmp_path, 1)
    await transfer.send(0)
    await transfer.rest()
    servers[0].wakes = False
    with pytest.raises(InfrastructureError, match=r"CUDA out of memory.*continue the run with --resume"):
        await transfer.send(1)


async def test_a_replica_that_was_restarted_asleep_is_sent_weights_like_the_others(tmp_path: Path) -> None:
    model, servers, policy, transfer = stage(tmp_path, 2, replicas=2)
    await transfer.send(0)
    await transfer.rest()
    servers[1].level, servers[1].paused, servers[1].version = 0, False, None
    servers[1].can = replace(CAN, started=2.0)
    servers[1].model.load_state_dict(servers[1].base.state_dict())
    nudge(model)
    await transfer.send(1)
    assert transfer.metrics["sync/replicas"] == 2
    await policy.generate(PROMPT, SAMPLING)


@pytest.mark.parametrize("level", [1, 2])
async def test_the_end_of_a_run_leaves_servers_awake(tmp_path: Path, level: int) -> None:
    model, (server,), _policy, transfer = stage(tmp_path, level)
    first = copy.deepcopy(model.state_dict())
    nudge(model)
    await transfer.send(0)
    await transfer.rest()
    await transfer.close()
    assert not server.level
    assert not server.paused
    same = torch.equal(server.model.state_dict()["lm_head.weight"], first["lm_head.weight"])
    assert same == (level == 2), "after level 2 it has the weights that it was started with"


async def test_a_later_run_wakes_what_a_killed_one_left_asleep(tmp_path: Path) -> None:
    _model, (server,), _policy, transfer = stage(tmp_path, 2)
    await transfer.send(0)
    await transfer.rest()
    await RemotePolicy([server]).open(control=True)
    assert not server.level
    assert server.log[-2:] == ["wake and restore", "resume"], "level 2 left noise in its memory"


async def test_a_server_without_sleep_mode_is_refused_with_the_option(tmp_path: Path) -> None:
    _model, _servers, _policy, transfer = stage(tmp_path, 1, can=ANY)
    await transfer.send(0)
    with pytest.raises(UsageError, match="--enable-sleep-mode"):
        await transfer.rest()


def test_a_run_that_samples_while_it_learns_is_refused() -> None:
    config = ServerConfig(urls=["http://x"], sleep=2)
    refuse_sleep(config, samples_always="")
    refuse_sleep(None, samples_always="overlap.enabled keeps playing")
    with pytest.raises(UsageError, match=r"server.sleep = 2 stops sampling .* but overlap.enabled keeps playing"):
        refuse_sleep(config, samples_always="overlap.enabled keeps playing")
