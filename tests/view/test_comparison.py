"""Two runs on the same tasks: the statistics are those of ``turnwise compare``, and every task is in one class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import turnwise as tw
from turnwise.errors import UsageError
from turnwise.evals.compare import compare
from turnwise.rollouts.store import load_episodes
from turnwise.tasks.score import Score
from turnwise.tasks.spec import TaskSpec
from turnwise.view.comparison import Side, comparison
from turnwise.view.episode_index import EpisodeIndex

from .conftest import client_of
from .fakes import episode, store, turn


def played(seeds: Sequence[int], solved: Sequence[bool], *, step: int = 3, name: str = "e") -> list[tw.Episode]:
    """Attempts at tasks by seed; each with a reward that tells them apart."""
    return [
        episode(
            f"{name}{at}",
            success=won,
            task=TaskSpec("maze", "rooms", 1 + seed % 2, seed),
            score=Score(won),
            turns=[turn("go", float(won) - 0.1 * at, last=True)],
            fingerprints={"step": str(step)},
        )
        for at, (seed, won) in enumerate(zip(seeds, solved, strict=True))
    ]


def side(path: Path, name: str, **more: Any) -> Side:
    return Side(name, path, EpisodeIndex(path).snapshot(), **more)


runs = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12)


@given(a=runs, b=runs)
@settings(max_examples=10)
def test_statistics_are_those_of_whole_episodes(tmp_path_factory: pytest.TempPathFactory, a: Any, b: Any) -> None:
    folder = tmp_path_factory.mktemp("pair")
    lost = episode("lost", (), outcome=tw.Outcome.INFRA_FAILED, score=None, error="no answer", after_action=1)
    stores = [store(folder / name, [*played(*zip(*run, strict=True)), lost]) for name, run in (("a", a), ("b", b))]
    found = comparison(*(side(path, path.name) for path in stores))
    assert found["comparison"] == compare(*map(load_episodes, stores), names=("a", "b")).to_json()
    seeds = [{seed for seed, _ in run} for run in (a, b)]
    assert {task["seed"] for task in found["tasks"]} == seeds[0] & seeds[1], "each shared task is listed once"
    assert sum(found["counts"].values()) == len(found["tasks"])
    for task in found["tasks"]:
        rates = [
            sum(won for seed, won in run if seed == task["seed"]) / task[s]["played"]
            for s, run in zip("ab", (a, b), strict=True)
        ]
        expected = "same" if rates[0] == rates[1] else "gained" if rates[1] > rates[0] else "lost"
        assert task["result"] == expected


def test_a_flipped_task_leads_to_episodes_that_show_it(tmp_path: Path) -> None:
    a = store(tmp_path / "a", played([1, 1, 2], [True, False, False]))
    b = store(tmp_path / "b", played([1, 1, 2], [False, False, True]))
    found = comparison(side(a, "a"), side(b, "b"))
    lost, gained = found["tasks"]
    assert (lost["result"], lost["a"]["episode"], lost["b"]["episode"]) == ("lost", "e0", "e0")
    assert (gained["result"], gained["a"]["episode"], gained["b"]["episode"]) == ("gained", "e2", "e2")
    assert (lost["a"]["solved"], lost["a"]["played"]) == (1, 2)


def test_checkpoints_of_one_run_are_ranges_of_steps(tmp_path: Path) -> None:
    early, late = played([1, 2], [False, False], step=1), played([1, 2], [True, True], step=9, name="f")
    path = store(tmp_path / "s", early + late)
    found = comparison(side(path, "s", steps=(None, 5)), side(path, "s", steps=(6, None)))
    assert found["comparison"]["a"] == "s, steps first to 5"
    assert found["counts"] == {"gained": 2}
    with pytest.raises(UsageError, match="both sides are the same"):
        comparison(side(path, "s", steps=(1, 5)), side(path, "s", steps=(1, 5)))
    with pytest.raises(UsageError, match="no scored episode"):
        comparison(side(path, "s", steps=(100, None)), side(path, "s"))


def test_two_sources_of_an_environment_have_no_verdict(tmp_path: Path) -> None:
    a, b = (store(tmp_path / name, played([1], [True]), run={"env": "my/E-v0", "env_source": name}) for name in "ab")
    with pytest.raises(UsageError, match="its source changed"):
        comparison(side(a, "a"), side(b, "b"))


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({}, 200, '"verdict"'),
        ({"b": "none"}, 404, "no such run"),
        ({"b_store": "../../etc"}, 404, "no such episodes"),
        ({"a": "", "a_store": ""}, 404, ""),
        ({"a_from": "-1"}, 422, ""),
        ({"a_from": "9" * 30}, 422, ""),
        ({"a_from": "4", "a_to": "2"}, 200, "no scored episode"),
    ],
)
def test_what_is_asked_is_checked(tmp_path: Path, change: dict[str, str], status: int, text: str) -> None:
    for name in "ab":
        store(
            tmp_path / "runs" / name / "episodes", played([1, 2], [name == "b", True]), run={"env": "turnwise/Maze-v0"}
        )
    client: TestClient = client_of(tmp_path / "runs")
    ids = {run["name"]: run["id"] for run in client.get("/api/runs").json()}
    given = {"a": ids["runs/a"], "b": ids["runs/b"], "a_store": "episodes", "b_store": "episodes"}
    answer = client.get("/api/compare", params=given | change)
    assert answer.status_code == status
    assert text in answer.text
