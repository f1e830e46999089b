"""Training over the real vLLM, end to end: LOOP overlapped and ArCHer on a maze, and a server that is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.serving.launch import FILES, ServerOptions, VllmProcess
from turnwise.errors import InfrastructureError
from turnwise.trainers import archer
from turnwise.trainers.runs.metrics import read_metrics
from turnwise.trainers.runs.setup import RunResult

from . import small, test_archer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(cloned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmProcess]:
    """It serves the model that runs begin with, and takes weights from files, and adapters."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    options = ServerOptions(context_length=256, transfer=FILES, max_rank=8)
    with VllmProcess(cloned / "model", options, log=log) as running:
        yield running


def served(server: VllmProcess, **changes: Any) -> dict[str, Any]:
    return {"urls": [server.url], "patience": 5} | changes


def lines(result: RunResult) -> list[dict[str, Any]]:
    return [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]


def test_loop_overlapped(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    settings = {"overlap": {"enabled": True}, "is_mode": "tis", "server": served(server)}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=4, **settings))
    for line in lines(result):
        assert line["staleness_max"] <= 1
        assert line["sync/canary_gap_max"] < 1e-4
    print({name: value for name, value in lines(result)[-1].items() if "mismatch" in name or "seconds" in name})
    assert lines(result)[0]["mismatch_max"] < 1e-4, "the first step is on the policy that sampled"


def test_archer_and_its_fresh_utterances(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    changes = {"server": served(server, transfer="reload"), "steps": 2, "warmup": 0}
    result = archer.train(test_archer.config(tmp_path / "run", cloned / "model", **changes))
    assert lines(result)[-1]["mismatch_max"] < 1e-4


def test_a_server_that_is_killed_stops_the_run_which_then_resumes(
    tmp_path: Path, cloned: Path, server: VllmProcess
) -> None:
    out, steps = tmp_path / "run", 5
    config = small.looping(out, cloned / "model", steps=steps, server=served(server))

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


def test_adapters_alone(tmp_path: Path, cloned: Path, server: VllmProcess) -> None:
    server.stop()  # the base that they belong to is the one that it is started with
    server.start()
    settings: dict[str, Any] = {"lora": {"rank": 4}, "steps": 2, "server": served(server)}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", **settings))
    assert lines(result)[-1]["mismatch_max"] < 1e-4
