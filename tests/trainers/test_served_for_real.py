"""Training over the real vLLM, end to end: algorithms, adapters, half precision, a program, a server that is killed."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import turnwise as tw
from turnwise.agents.chat import ChatAgent
from turnwise.errors import InfrastructureError
from turnwise.inference.models import load_model
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import ServerResponse
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.rows import merge
from turnwise.rollouts.runner import run_episodes
from turnwise.service.process import ProgramConfig
from turnwise.service.program import ProgramAgent
from turnwise.trainers import archer, on_policy
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.run.metrics import read_metrics

from . import small, test_archer, test_on_policy

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "black_box_agent.py"
PROGRAM: dict[str, Any] = {"command": [sys.executable, str(EXAMPLE)], "grace": 10.0}


over_a_clone = pytest.mark.shift("vllm: a cloned model")


@pytest.fixture(scope="module")
def clone_server(cloned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmProcess]:
    """Serve the model that runs begin with; it takes weights from files, and adapters."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    options = ServerOptions(context_length=256, transfer=FILES, max_rank=8)
    with VllmProcess(cloned / "model", options, log=log) as running:
        yield running


@pytest.fixture
def server(clone_server: VllmProcess) -> VllmProcess:
    """Return the server of the clone, running and with its own weights, whatever the test before did to it."""
    asyncio.run(restore(clone_server.start()))
    return clone_server


async def restore(server: VllmProcess) -> None:
    """Load the weights that a server was started with."""
    client = ServerClient(server.url)
    await client.resume()
    await client.reload(server.model)
    await client.reset_prefix_cache()
    await client.close()


def served(server: VllmProcess, **changes: Any) -> dict[str, Any]:
    return {"urls": [server.url], "patience": 60} | changes


def lines(result: RunResult) -> list[dict[str, Any]]:
    return [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]


def test_a_step_moves_the_weights_that_the_server_samples_with(tmp_path: Path, vllm_server: VllmProcess) -> None:
    """REINFORCE, whose untrained policy moves without a success; LOOP's is paid nothing here."""
    settings: dict[str, Any] = {"loss": {"entropy_coef": 0.1}, "eval": {"episodes": 0}, "server": served(vllm_server)}
    config = test_on_policy.running(tmp_path / "run", vllm_server.model, "reinforce", **settings)
    try:
        result = on_policy.train(config)
    finally:
        asyncio.run(restore(vllm_server))
    assert [line["step"] for line in lines(result)] == [1, 2]
    for line in lines(result):
        assert line["mismatch_max"] < 1e-4, "the learner agrees with the server on every token, after a sync too"
        assert line["sync/canary_gap_max"] < 1e-4
    before, after = (load_model(folder)[0].parameters() for folder in (vllm_server.model, result.model))
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)), "the weights move"


@over_a_clone
def test_loop_overlapped(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    settings = {"overlap": {"enabled": True}, "is_mode": "tis", "server": served(server)}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=3, **settings))
    for line in lines(result):
        assert line["staleness_max"] <= 1
        assert line["sync/canary_gap_max"] < 1e-4
    assert lines(result)[0]["mismatch_max"] < 1e-4, "the first step is on the policy that sampled"


@over_a_clone
def test_archer_and_its_fresh_utterances(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    changes = {"server": served(server, transfer="reload"), "steps": 2, "warmup": 0}
    result = archer.train(test_archer.config(tmp_path / "run", cloned / "model", **changes))
    assert lines(result)[-1]["mismatch_max"] < 1e-4


@over_a_clone
def test_a_server_that_is_killed_stops_the_run_which_then_resumes(
    tmp_path: Path, cloned: Path, server: VllmProcess
) -> None:
    out, steps = tmp_path / "run", 4
    config = small.looping(out, cloned / "model", steps=steps, server=served(server, patience=5))

    def kill() -> None:
        while not (out / "checkpoints").is_dir() or not any((out / "checkpoints").iterdir()):
            time.sleep(0.01)
        server.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    with pytest.raises(InfrastructureError, match=r"http://127"):
        small.run(config)
    killing.join()
    server.start()
    resumed = config.model_copy(update={"resume": True})
    again = small.run(type(config).model_validate(resumed.model_dump() | {"server": served(server)}))
    assert [line["step"] for line in lines(again)] == list(range(1, steps + 1)), "every step once"


@over_a_clone
def test_adapters_alone(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    settings: dict[str, Any] = {"lora": {"rank": 4}, "steps": 2, "server": served(server)}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", **settings))
    assert lines(result)[-1]["mismatch_max"] < 1e-4


@pytest.mark.shift("vllm: half precision")
def test_a_server_in_half_precision(tmp_path: Path, cloned: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its kernels round where the trainer's do not: the canary allows for that, and the loss corrects for it."""
    options = ServerOptions(context_length=256, transfer=FILES, dtype="bfloat16")
    with VllmProcess(cloned / "model", options, log=tmp_path / "server.log") as half:
        settings: dict[str, Any] = {"steps": 2, "is_mode": "tis", "server": served(half, dtype="bfloat16")}
        result = small.run(small.looping(tmp_path / "run", cloned / "model", **settings))
        for line in lines(result):
            assert 1e-5 < line["sync/canary_gap_max"] < 0.1, "they differ, by as much as half precision may"
            assert line["mismatch_ess"] > 0.9
            assert line["canary/warnings"] == 0
        assert "numerics" not in caplog.text
        small.run(small.looping(tmp_path / "untold", cloned / "model", steps=1, server=served(half)))
        assert re.search(r"the run goes on: different numerics.*server\.dtype", caplog.text)


class Overheard(ServerClient):
    """Keeps what the server says that it read, and what it sampled."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.heard: list[tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]] = []

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, **more: Any) -> ServerResponse:
        served = await super().generate(prompt_ids, sampling, **more)
        self.heard.append((served.prompt_ids, served.completion.token_ids, served.completion.logprobs))
        return served


@over_a_clone
async def test_a_program_of_openais_sdk_is_recorded_exactly_as_it_was_served(cloned: Path, server: VllmProcess) -> None:
    model, tokenizer = load_model(cloned / "model")
    client = Overheard(server.url)
    chat = ChatAgent(RemotePolicy([client]), tokenizer, sampling=Sampling(max_tokens=4), show_tools=False)
    options = RunOptions(group_size=2, concurrency=2, env_kwargs={"max_turns": 4}, retries=0)
    maze = tw.make(small.ENV)
    tasks = [maze.unwrapped.tasks().spec(seed) for seed in range(2)]  # type: ignore[attr-defined]
    maze.close()
    playing = run_episodes(small.ENV, ProgramAgent(chat, ProgramConfig(**PROGRAM)), tasks, options=options)
    episodes = [episode async for episode in playing]
    await client.close()
    assert [episode.error for episode in episodes] == [None] * 4
    turns = [turn for episode in episodes for turn in episode.turns]
    recorded = sorted((turn.prompt_ids, turn.action_ids, turn.logprobs) for turn in turns)
    assert recorded == sorted(client.heard), "ids read and sampled are ids recorded, all of them"
    assert all(len(merge(episode)) == 1 for episode in episodes), "one growing row per episode"
    batch = Batch.of(grouped(episodes))
    assert batch.rows.tokens == sum(len(ids) for _, ids, _ in client.heard)
    rows = Learner(model, OptimizerConfig(), temperature=1.0).recompute_old(batch.rows)
    assert torch.allclose(rows.logp_old, rows.logp_behave, atol=1e-4), "the learner's own log-probabilities agree"


@over_a_clone
def test_a_program_of_openais_sdk_is_trained(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    settings: dict[str, Any] = {
        "agent": {"max_tokens": 4, "show_tools": False, "program": PROGRAM},
        "episodes": {"env_kwargs": {"max_turns": 4}},
        "steps": 2,
        "eval": {"episodes": 0},
        "server": served(server),
    }
    result = small.run(small.looping(tmp_path / "run", cloned / "model", **settings))
    for line in lines(result):
        assert (line["unscored"], line["policy_failed"]) == (0, 0)
        assert line["mismatch_max"] < 1e-4, "the learner agrees with the server on every token, after a sync too"
    before, after = load_model(cloned / "model")[0], load_model(result.model)[0]
    moved = [not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert any(moved), "the weights move"
