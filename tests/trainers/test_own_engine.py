"""Training with vLLM's engine in the trainer's process, which is given weights from memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import UsageError
from turnwise.trainers import archer, loop
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.run.metrics import read_metrics

from . import small, test_archer

ENGINE: dict[str, Any] = {"engine": {"context_length": 256}}


def lines(result: RunResult) -> list[dict[str, Any]]:
    return [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]


@pytest.mark.vllm
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("default")  # of vLLM's own, in this process
class TestForReal:
    def test_loop_in_turns_and_resumed(self, tmp_path: Path, cloned: Path) -> None:
        config = small.looping(tmp_path / "run", cloned / "model", steps=1, eval={"episodes": 0}, server=ENGINE)
        small.run(config)
        result = small.run(config.model_copy(update={"resume": True, "steps": 2}))
        assert [line["step"] for line in lines(result)] == [1, 2]
        for line in lines(result):
            assert line["mismatch_max"] < 1e-4, "the learner gives what the engine sampled the same log-probabilities"
            assert line["sync/canary_gap_max"] < 1e-4
            assert line["staleness_max"] == 0
        assert not list(tmp_path.glob("run/exchange*")), "nothing goes through files"
        assert not (tmp_path / "run" / "engine").exists(), "what the engine began with is gone with it"

    @pytest.mark.shift("vllm: other ways")
    def test_loop_overlapped(self, tmp_path: Path, cloned: Path) -> None:
        settings: dict[str, Any] = {"overlap": {"enabled": True}, "is_mode": "tis", "server": ENGINE}
        result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=3, **settings))
        assert all(line["staleness_max"] <= 1 for line in lines(result))
        assert all(line["sync/canary_gap_max"] < 1e-4 for line in lines(result))

    @pytest.mark.shift("vllm: other ways")
    def test_adapters_are_merged_into_what_is_sent(self, tmp_path: Path, cloned: Path) -> None:
        settings: dict[str, Any] = {"lora": {"rank": 4}, "steps": 2, "server": ENGINE}
        result = small.run(small.looping(tmp_path / "run", cloned / "model", **settings))
        assert lines(result)[-1]["mismatch_max"] < 1e-4

    @pytest.mark.shift("vllm: other ways")
    def test_archer_and_its_fresh_utterances(self, tmp_path: Path, cloned: Path) -> None:
        changes = {"server": {**ENGINE, "transfer": "memory"}, "steps": 2, "warmup": 0}
        result = archer.train(test_archer.config(tmp_path / "run", cloned / "model", **changes))
        assert lines(result)[-1]["mismatch_p99"] < 1e-4


@pytest.mark.parametrize(
    "server",
    [
        {},
        {"urls": ["http://localhost:1"], **ENGINE},
        {"urls": ["http://localhost:1"], "transfer": "memory"},
        {**ENGINE, "transfer": "native"},
        {**ENGINE, "nccl": {"host": "here"}},
    ],
)
def test_either_servers_or_an_engine_and_each_its_own_way(
    server: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{key}={value}".replace("'", '"') for key, value in flat(server).items()] or ["server.timeout=5"]
    assert loop.main(["env=e", "model=m", *words]) == 2
    said = capsys.readouterr().err
    assert "urls" in said or "from memory" in said
    assert said.count("\n") == 1


def flat(settings: dict[str, Any], prefix: str = "server.") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def test_without_vllm_it_is_said_in_a_line(tmp_path: Path, cloned: Path) -> None:
    if importlib.util.find_spec("vllm") is not None:
        pytest.skip("vLLM is installed here")
    with pytest.raises(UsageError, match=r"vLLM is not installed in this environment.*scripts/install-vllm"):
        small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, server=ENGINE))
