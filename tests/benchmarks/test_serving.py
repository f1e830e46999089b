"""The benchmark of serving measures what it says, tried on a stand-in for vLLM's server."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from turnwise.inference.models import load_model
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.transformers_policy import TransformersPolicy

from ..inference.serving.fake_server import FakeServer

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "serving.py"
if not PATH.is_file():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


@pytest.fixture(scope="module")
def serving() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("serving_benchmark", PATH)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its named tuples are looked up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def folder(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serving.made("0.1M", tmp_path_factory.mktemp("model"))  # type: ignore[no-any-return]


@pytest.fixture
def server(folder: Path) -> Iterator[FakeServer]:
    model, tokenizer = load_model(folder)
    with FakeServer(model, tokenizer, root=str(folder)) as server:
        yield server


@pytest.mark.slow
async def test_what_is_replayed_is_what_was_asked_in_the_loop(serving: Any, server: FakeServer, folder: Path) -> None:
    _, tokenizer = load_model(folder)
    client = ServerClient(server.url)
    policy = serving.Recording(RemotePolicy([client]))
    await serving.play(policy, tokenizer, episodes=3, turns=4, tokens=5, concurrency=2)
    assert len(policy.chains) == 3, "one chain per episode"
    assert [len(chain) for chain in policy.chains.values()] == [4, 4, 4]
    assert policy.tokens == 3 * 4 * 5, "nothing stops an action before its length: all ways do the same work"
    asked = [tuple(body["token_ids"]) for body in server.calls("/inference/v1/generate")]
    before = len(asked)
    assert await serving.replay(server.url, policy.chains.values(), 2) > 0
    again = [tuple(body["token_ids"]) for body in server.calls("/inference/v1/generate")][before:]
    assert sorted(again) == sorted(request.prompt for chain in policy.chains.values() for request in chain)
    await client.close()


@pytest.mark.slow
async def test_every_table_of_servers_can_be_made(serving: Any, server: FakeServer, folder: Path) -> None:
    model, tokenizer = load_model(folder)
    wanted = serving.arguments(["--quick"])
    (one, four) = await serving.overhead(server.url, tokenizer, wanted)
    assert (one["concurrency"], four["concurrency"]) == (1, 4)
    assert one["share"] == pytest.approx(one["turnwise"] / one["bare"])
    with FakeServer(model, tokenizer, root=str(folder)) as second:
        rows = await serving.affinity([server.url, second.url], tokenizer, wanted)
    assert [row["sessions"] for row in rows] == [True, False]
    rows = await serving.sync(server.url, model, "0.1M", wanted)
    assert [row["transport"] for row in rows] == ["native", "reload"]
    assert all(row["still"] > 0 and row["stage"] > 0 for row in rows)
    assert "native" in [str(cell) for cell in serving.table("sync", rows).columns[0].cells]


async def test_policies_in_this_process_are_measured_alike(serving: Any, folder: Path) -> None:
    model, tokenizer = load_model(folder)
    policy = serving.Recording(TransformersPolicy(model))
    await serving.play(policy, tokenizer, episodes=2, turns=2, tokens=3, concurrency=2)
    assert policy.tokens == 2 * 2 * 3
