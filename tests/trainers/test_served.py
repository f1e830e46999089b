"""Training over a policy server: the scripts as they are, with ``server`` set, against a stand-in that speaks vLLM."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.config import Config
from turnwise.errors import ContractError, InfrastructureError, ModelError, UsageError
from turnwise.inference.models import load_model
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.server import Pause
from turnwise.rollouts.episode import Episode
from turnwise.trainers import archer, loop
from turnwise.trainers.collect.collector import StepCollector
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.run.metrics import read_metrics

from ..inference.serving.fake_server import FakeServer
from ..logged import events
from . import small, test_archer


@pytest.fixture
def server(cloned: Path) -> Iterator[FakeServer]:
    """It serves the model that runs begin with."""
    model, tokenizer = load_model(cloned / "model")
    with FakeServer(model, tokenizer) as running:
        yield running


def served(*servers: FakeServer, **changes: Any) -> dict[str, Any]:
    return {"urls": [server.url for server in servers], "patience": 2, "timeout": 30} | changes


def lines(result: RunResult) -> list[dict[str, Any]]:
    return [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]


@pytest.mark.slow
def test_loop_trains_on_what_servers_sampled(
    tmp_path: Path, cloned: Path, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="turnwise")
    model, tokenizer = load_model(cloned / "model")
    with FakeServer(model, tokenizer) as other:
        result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=2, server=served(server, other)))
        assert other.calls("/inference/v1/generate")
    for line in lines(result):
        assert line["mismatch_max"] < 1e-4, "the learner gives what servers sampled the same log-probabilities"
        assert line["sync/canary_gap_max"] < 1e-4
        assert line["sync/replicas"] == 2
        assert line["staleness_max"] == 0
    assert lines(result)[-1]["mismatch_ess"] > 0.99
    assert server.calls("/inference/v1/generate")
    assert not list(tmp_path.rglob("exchange/*/*")), "nothing is left in the exchange folder"
    found = events(caplog.records)
    syncs = [fields["version"] for kind, fields in found if kind == "sync"]
    assert syncs == [0, 0, 1, 2], "once before each evaluation and each step"
    assert sum(kind == "pause" for kind, _ in found) == sum(kind == "resume" for kind, _ in found) == len(syncs)


@pytest.mark.parametrize("pause", ["keep", "abort"])
@pytest.mark.slow
def test_play_overlaps_with_learning(tmp_path: Path, cloned: Path, server: FakeServer, pause: str) -> None:
    settings = {
        "overlap": {"enabled": True, "max_staleness": 1},
        "is_mode": "tis",
        "server": served(server, pause=pause),
    }
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=3, **settings))
    assert result.steps == 3
    assert all(line["staleness_max"] <= 1 for line in lines(result))
    assert {"mismatch_k1", "mismatch_k3", "mismatch_p95", "mismatch_p99", "mismatch_ess"} <= lines(result)[-1].keys()


@pytest.mark.slow
def test_a_server_that_a_broken_update_left_paused_is_woken_by_whoever_sends_it_weights(
    tmp_path: Path, cloned: Path, server: FakeServer
) -> None:
    asyncio.run(ServerClient(server.url).pause(Pause.KEEP))
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, server=served(server)))
    assert lines(result)[-1]["mismatch_max"] < 1e-4


@pytest.mark.slow
def test_archer_takes_its_fresh_utterances_from_the_server(tmp_path: Path, cloned: Path, server: FakeServer) -> None:
    changes = {"server": served(server), "steps": 2, "warmup": 0}
    result = archer.train(test_archer.config(tmp_path / "run", cloned / "model", **changes))
    assert lines(result)[-1]["mismatch_p99"] < 1e-4, "each utterance is of the weights that were just sent"
    assert all(0 < line["seconds/fresh"] < line["seconds/learn"] for line in lines(result)), "what they took is told"
    syncs = len(server.calls("/finish_weight_update"))
    assert syncs >= 2 * (1 + 2), "one before each step, and one after each update of the actor"


@pytest.mark.slow
def test_adapters_are_sent_alone(tmp_path: Path, cloned: Path, server: FakeServer) -> None:
    result = small.run(
        small.looping(tmp_path / "run", cloned / "model", steps=2, lora={"rank": 2}, server=served(server))
    )
    assert lines(result)[-1]["mismatch_p99"] < 1e-4
    loaded = [body["lora_name"] for body in server.calls("/v1/load_lora_adapter") if body]
    assert len(loaded) == len(set(loaded)) >= 2
    unloaded = [body["lora_name"] for body in server.calls("/v1/unload_lora_adapter") if body]
    assert sorted(unloaded) == sorted(loaded), "none stays behind"
    assert not server.calls("/update_weights")


@pytest.mark.slow
def test_a_run_stops_when_weights_do_not_arrive(tmp_path: Path, cloned: Path, server: FakeServer) -> None:
    server.sabotage.add("ignores updates")
    with pytest.raises(
        ContractError, match=r"weights of version \d are not what http://127.0.0.1:\d+ serves: not applied"
    ):
        small.run(small.looping(tmp_path / "run", cloned / "model", steps=4, server=served(server)))


@pytest.mark.slow
def test_a_server_that_dies_is_one_line_and_the_run_resumes(
    tmp_path: Path, cloned: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    out, steps = tmp_path / "run", 5
    config = small.looping(out, cloned / "model", steps=steps, server=served(server))
    path = tmp_path / "run.toml"
    path.write_text(as_toml(config))

    def kill() -> None:
        while not (out / "checkpoints").is_dir() or not any((out / "checkpoints").iterdir()):
            time.sleep(0.01)
        server.kill()

    threading.Thread(target=kill).start()
    assert loop.main(["--config", str(path)]) == 2
    *warned, said = capsys.readouterr().err.strip().splitlines()
    assert all("is_mode = tis" in line or "cut at agent.max_tokens" in line for line in warned), warned
    assert server.url in said
    server.start()  # with the weights that it began with: the run sends its own
    assert loop.main(["--config", str(path), "resume=true", f'server.urls=["{server.url}"]']) == 0
    done = [line["step"] for line in read_metrics(out / "metrics.jsonl") if "return" in line]
    assert done == list(range(1, steps + 1)), "every step once"


@pytest.mark.slow
def test_what_is_wrong_with_a_server_is_said_before_anything_is_played(
    tmp_path: Path, cloned: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **settings: Any) -> Episode:
        raise AssertionError("an episode was played")

    monkeypatch.setattr(StepCollector, "collect", refuse)
    evaluating = {"eval": {"episodes": 0}}

    def trained(name: str, **changes: Any) -> RunResult:
        return small.run(small.looping(tmp_path / name, cloned / "model", **evaluating, **changes))

    with pytest.raises(InfrastructureError, match=r"cannot be reached.*server\.urls"):
        trained("down", server={"urls": ["http://127.0.0.1:9"]})
    with pytest.raises(UsageError, match="does not serve 'another'"):
        trained("model", server=served(server, model="another"))
    with pytest.raises(UsageError, match=r"takes adapters up to rank 8, and lora\.rank = 16"):
        trained("rank", server=served(server), lora={"rank": 16})
    with pytest.raises(UsageError, match=r"server\.transfer = adapter sends adapters"):
        trained("none", server=served(server, transfer="adapter"))
    model, _ = load_model(cloned / "model")
    with FakeServer(model, _other_tokenizer()) as other, pytest.raises(ModelError, match="tokenizer"):
        trained("vocabulary", server=served(other))


def _other_tokenizer() -> Any:
    from turnwise.inference.nano import build_tokenizer

    return build_tokenizer("word", ["some other words than those of the maze"])


def as_toml(config: Config) -> str:
    """A configuration as a file has it."""
    return _toml(json.loads(config.model_dump_json(exclude_none=True)))


def _toml(settings: dict[str, Any], table: str = "") -> str:
    plain = [f"{name} = {json.dumps(value)}" for name, value in settings.items() if not isinstance(value, dict)]
    tables = [_toml(value, f"{table}{name}.") for name, value in settings.items() if isinstance(value, dict)]
    return "\n".join([f"[{table.rstrip('.')}]" if table else "", *plain, *tables])
