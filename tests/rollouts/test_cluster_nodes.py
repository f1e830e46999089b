"""Nodes of a Ray cluster: what each can do, and what happens when one fails, fills, drains or joins."""

from __future__ import annotations

import platform
from typing import Any

import pytest

import turnwise as tw
from turnwise.commands import cluster as command
from turnwise.rollouts.options import RolloutsConfig
from turnwise.tasks.family import SeededFamily

ray = pytest.importorskip("ray", reason="turnwise[ray] is not installed")
from turnwise.rollouts.cluster.check import NodeReport, Wanted, check_nodes, missing, room_of  # noqa: E402

from .ray_cluster import ENV, on, tasks  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]


class Picky(tw.TurnEnv):
    """Starts anywhere but on one node; over after three turns."""

    def __init__(self, bad: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bad = bad

    @classmethod
    def tasks(cls) -> Any:
        """Tasks of seeds only."""
        return SeededFamily("Picky")

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> Any:
        """Fail on the bad node."""
        if self.bad and node_here() == self.bad:
            raise RuntimeError("no sandbox on this node")
        return "hello"

    def act(self, action: tw.Action) -> Any:
        """Count to three."""
        return tw.success("done", 1.0) if self.turn >= 3 else tw.running("go on")


def node_here() -> str:
    """The id of the node that this process runs on."""
    return str(ray.get_runtime_context().get_node_id())


def node_with(resource: str) -> str:
    """The id of the node that declares a resource."""
    return next(str(node["NodeID"]) for node in ray.nodes() if node["Alive"] and resource in node["Resources"])


# -- before a run -------------------------------------------------------------------------------------------------


async def test_each_node_reports_what_it_can_do(cluster: Any) -> None:
    reports = await check_nodes(Wanted(on(), ENV, task=tasks(1)[0]))

    assert [report.head for report in reports] == [True, False], "one line per node, the head first"
    for report in reports:
        assert report.look is not None
        assert report.look.versions == {"Python": platform.python_version(), "Turnwise": tw.__version__}
        assert report.count("CPU") == report.workers == 2
        assert report.lacks == ()
        assert 0 < report.look.memory[0] <= report.look.memory[1]
        assert set(report.look.lacks) == {"bubblewrap", "docker", "Chromium"}
    assert missing(reports, on(), "maze") == ""
    assert missing(reports, on(workers=5), "maze") == (
        "the cluster has room for 4 of the 5 workers of maze (rollouts.workers)"
    )


async def test_a_node_that_cannot_start_an_episode_is_named(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = Wanted(on(), Picky, env_kwargs={"bad": node_with("second")}, task=tw.TaskSpec("Picky"))

    reports = await check_nodes(wanted)

    assert [bool(report.lacks) for report in reports] == [False, True]
    said = missing(reports, on(), "picky")
    assert said.startswith("1 of 2 nodes cannot play picky: ")
    assert "no sandbox on this node" in said
    assert "\n" not in said
    spared = await check_nodes(Wanted(on(resources={"head": 1.0}), Picky, env_kwargs=wanted.env_kwargs))
    assert [report.workers for report in spared] == [1, 0]
    assert not any(report.lacks for report in spared), "a node without room for a worker need not play"


def test_the_command_prints_a_line_for_each_node(cluster: Any, capfd: pytest.CaptureFixture[str]) -> None:
    command.check(None, "", "auto", as_json=False)

    lines = capfd.readouterr().out.strip().splitlines()
    assert len(lines) == 3
    assert "(head)" in lines[1]
    assert all(platform.python_version() in line and tw.__version__ in line for line in lines[1:])


def test_room_is_what_the_scarcest_resource_leaves() -> None:
    assert room_of({"CPU": 8.0, "memory": 5.0}, {"CPU": 1.0, "memory": 2.0}, 64) == 2
    assert room_of({"CPU": 8.0}, {"CPU": 1.0, "GPU": 1.0}, 64) == 0
    assert room_of({"CPU": 0.9}, {"CPU": 0.3}, 64) == 3, "0.9 / 0.3 is just below 3"
    assert room_of({}, {"CPU": 0.0}, 7) == 7, "a worker that needs nothing fits everywhere"


def test_a_node_that_gives_no_answer_is_lacking() -> None:
    report = NodeReport("10.0.0.3", False, {"CPU": 2.0}, 2, None, ("gave no answer within 120 s",))
    said = missing([report], RolloutsConfig(), "maze")
    assert said == "1 of 1 nodes cannot play maze: 10.0.0.3 gave no answer within 120 s"
    assert "?" in str(list(command.nodes([report], "maze").columns[1].cells))
