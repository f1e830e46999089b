"""Training over a server some of whose answers are wrong: the run goes on, and learns from good ones alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import InfrastructureError
from turnwise.inference.models import load_model
from turnwise.trainers.run.metrics import read_metrics

from ..inference.serving.faults import FAULTS, SLOW, FaultyServer
from . import small

QUICK = [name for name in FAULTS if not name.startswith((*SLOW, "endless"))]


@pytest.fixture
def server(cloned: Path) -> Iterator[FaultyServer]:
    model, tokenizer = load_model(cloned / "model")
    with FaultyServer(model, tokenizer) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [False, True], ids=["loop", "asynchronous"])
def test_a_tenth_of_the_answers_is_wrong(tmp_path: Path, cloned: Path, server: FaultyServer, overlap: bool) -> None:
    server.fail(*QUICK, share=0.1)
    changes: dict[str, Any] = {"overlap": {"enabled": True, "max_staleness": 1}, "is_mode": "tis"} if overlap else {}
    changes["server"] = {"urls": [server.url], "request_timeout": 60, "patience": 120}
    result = small.run(small.looping(tmp_path / "run", cloned / "model", steps=2, **changes))
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "return" in line]
    assert server.sent.total() > 10
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert line["unscored"] == line["policy_failed"] == 0, "asked again, an answer was right"
        assert overlap or line["mismatch_max"] < 1e-4, "what is learned from is what the weights sampled"


@pytest.mark.slow
def test_when_every_answer_is_wrong_the_run_ends_with_one_line(
    tmp_path: Path, cloned: Path, server: FaultyServer
) -> None:
    fault, others = "log-probability not a number", {"", "canary"}
    server.draw = lambda asked: None if asked.headers.get("x-session-id", "") in others else fault
    changes = {"server": {"urls": [server.url], "request_timeout": 60, "patience": 0.2}, "eval": {"episodes": 0}}
    episodes = {**small.SHARED["episodes"], "retries": 0}
    with pytest.raises(InfrastructureError, match=r"none of 6 episodes was played to an end.*127\.0\.0\.1") as caught:
        small.run(small.looping(tmp_path / "run", cloned / "model", steps=1, episodes=episodes, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("server", "turn"), [({"request_timeout": 300}, 300), ({"patience": 40, "request_timeout": 10}, 50)]
)
def test_time_limits_that_do_not_nest_are_refused_with_the_settings(
    tmp_path: Path, cloned: Path, server: dict[str, float], turn: float
) -> None:
    settings = {"server": {"urls": ["http://127.0.0.1:9"], **server}, "episodes": {"turn_timeout": turn}}
    with pytest.raises(ValueError, match=r"server\.request_timeout = .* do not fit into turn_timeout = "):
        small.looping(tmp_path, cloned / "model", **settings)
