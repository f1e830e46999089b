"""``turnwise eval`` with servers that it places on a Ray cluster: they sample, and none is left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.commands.eval_servers import ServedEvalConfig, acting
from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.rollouts.store import load_episodes

from ..inference.serving.test_launch import alive, eventually
from ..rollouts.ray_cluster import alive as actors
from ..rollouts.ray_cluster import two_nodes

STAND_IN = Path(__file__).parents[1] / "inference" / "serving" / "fake_vllm.py"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with two_nodes() as started:
        yield started


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder of a model, and a stand-in for vLLM's Python that notes its servers in ``pids``."""
    tokenizer = build_tokenizer("byte")
    shape = NanoConfig(tokenizer="byte", size="0.1M", layers=1, hidden=32, context_length=2048)
    save_model(build_model(shape, tokenizer), tokenizer, tmp_path / "model")
    (tmp_path / "pids").touch()
    python = tmp_path / "python"
    launched = f"echo $$ >> {tmp_path / 'launched'}; PIDS={tmp_path / 'pids'} exec"  # exec keeps the process id
    python.write_text(f'#!/bin/sh\n{launched} {sys.executable} {STAND_IN} "$@"\n')
    python.chmod(0o755)
    return tmp_path / "model"


def words(model: Path, **more: object) -> list[str]:
    """The command of a small evaluation on one server."""
    settings = {"server.ray.address": "auto", "server.ray.resources.CPU": 1.0, "server.ray.resources.GPU": 0.0}
    settings |= {
        "server.ray.python": model.parent / "python",
        "max_tokens": 4,
        "env_kwargs.turn_limit": 2,
        "n": 6,
        **more,
    }
    said = ["eval", "turnwise/Maze-v0", "-p", str(model), "--out", "out", "--no-report"]
    return [*said, *(f"{name}={value}" for name, value in settings.items())]


def servers(model: Path) -> list[int]:
    """Ids of the processes of all servers that ever started."""
    return [int(line.split()[0]) for line in (model.parent / "pids").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.shift
def test_an_evaluation_places_its_servers_and_stops_them(cluster: Any, run: Callable[..., Any], model: Path) -> None:
    ran = run(*words(model, **{"server.ray.replicas": 2}))
    assert ran.code == 0, ran.err
    episodes = load_episodes(model.parent / "out" / "episodes")
    assert len(episodes) == 6
    assert all(episode.scored for episode in episodes), [episode.error for episode in episodes]
    assert len(servers(model)) == 2
    assert not actors(), "an actor was left"
    assert eventually(lambda: not any(map(alive, servers(model)))), "a server was left"
    assert (model / "model.safetensors").is_file(), "the model is the user's, and stays"


@pytest.mark.slow
@pytest.mark.shift
def test_an_interrupted_evaluation_stops_its_servers(
    cluster: Any, run: Callable[..., Any], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **more: object) -> None:
        assert [each for each in servers(model) if alive(each)], "the server is there when episodes start"
        raise KeyboardInterrupt

    monkeypatch.setattr("turnwise.commands.evaluate.run_evaluation", interrupted)
    run(*words(model)).interrupted()
    assert not actors(), "an actor was left"
    assert eventually(lambda: not any(map(alive, servers(model)))), "a server was left"


def test_only_the_folder_of_a_model_can_be_served(run: Callable[..., Any], model: Path) -> None:
    run(*words(Path("oracle"))).refused("server.ray serves the folder of a model, and 'oracle' is not one")


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize(
    ("kind", "when"),
    [
        (signal.SIGINT, "launched"),
        (signal.SIGTERM, "out/episodes/part-*.parquet"),
        (signal.SIGKILL, "out/episodes/part-*.parquet"),
    ],
)
def test_a_signal_leaves_no_server(
    cluster: Any, ctrl_c: Callable[..., Any], model: Path, tmp_path: Path, kind: signal.Signals, when: str
) -> None:
    """While servers start, and while episodes are played; after SIGKILL, Ray ends what the command started."""
    said = words(model, **{"server.ray.address": cluster.address, "n": 5000, "concurrency": 8})
    ran = ctrl_c(said, lambda: any(tmp_path.glob(when)), kind)
    if kind is signal.SIGKILL:
        assert ran.code == -kind
    else:
        ran.interrupted()
    pids = [int(line) for line in (tmp_path / "launched").read_text().split()]
    assert pids, "the server had been launched"
    assert not actors(), "an actor was left"
    assert eventually(lambda: not any(map(alive, pids))), "a server was left"
    if when != "launched":
        assert load_episodes(tmp_path / "out" / "episodes"), "what was played is kept"


def test_an_evaluation_that_would_be_refused_starts_no_server(
    run: Callable[..., Any], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no cluster here: a command that looked for one first would say so."""
    pytest.importorskip("ray")
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # a test before may have left this process connected
    served = words(model, **{"server.ray.address": "127.0.0.1:1"})
    played = [word for word in served if not word.startswith("server.")]
    assert run(*played).code == 0
    run(*served).refused("already has 6 episodes", "--resume")
    run(*served, "--resume", "seed=1").refused("belongs to another run: seed")
    run(*served, "--resume", "--overwrite").refused("choose either resume")
    run(*served, "levels=99").refused("99")
    run(*served, "--overwrite").refused("no Ray cluster at '127.0.0.1:1'")
    assert len(load_episodes(tmp_path / "out" / "episodes")) == 6, "servers that do not start cost no episode"


def test_without_servers_the_agent_is_what_the_policy_names(tmp_path: Path) -> None:
    settings = ServedEvalConfig(env="turnwise/Maze-v0", policy="oracle")
    with acting(settings, tmp_path) as agent:
        assert type(agent).__name__ == "OracleAgent"
    assert "RAY_ADDRESS" not in os.environ
