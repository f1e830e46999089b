"""Control groups from trees that are made for the test: both interfaces, in and out of containers, and none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnwise.errors import SandboxError
from turnwise.sandboxes.bubblewrap.cgroups import find
from turnwise.sandboxes.bubblewrap.group import Group
from turnwise.sandboxes.result import Stats
from turnwise.sandboxes.spec import Limits

LIMITS = Limits(memory=100 * 2**20, pids=30, cpus=0.5)


def version_1(root: Path, *controllers: str, shown: str = "/") -> str:
    """Hierarchies of version 1 in a folder, and the lines of mountinfo for them."""
    for controller in controllers:
        (root / controller).mkdir(parents=True)
    return "".join(
        f"30 25 0:26 {shown} {root / controller} rw,nosuid - cgroup cgroup rw,{controller}\n"
        for controller in controllers
    )


def version_2(root: Path, *groups: str, delegated: str = "memory pids cpu") -> str:
    """A hierarchy of version 2 with these groups, each of which can delegate; and its line of mountinfo."""
    for group in ("", *groups):
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
        (root / group / "cgroup.subtree_control").write_text(delegated)
        (root / group / "cgroup.procs").write_text("1\n2\n")
    return f"29 25 0:25 / {root} rw - cgroup2 cgroup2 rw\n"


def test_version_1_is_used_below_our_own_groups(tmp_path: Path) -> None:
    mounts = version_1(tmp_path, "memory", "pids", "cpu", "freezer")
    (tmp_path / "memory" / "user" / "us").mkdir(parents=True)
    found = find(mounts, "9:freezer:/\n8:pids:/\n4:memory:/user/us\n2:cpu:/\n0::/\n")
    assert found.version == 1
    assert found.parents == {
        "memory": tmp_path / "memory" / "user" / "us",
        "pids": tmp_path / "pids",
        "cpu": tmp_path / "cpu",
    }
    assert "v1" in found.why


def test_in_a_container_our_groups_are_named_from_its_top(tmp_path: Path) -> None:
    mounts = version_1(tmp_path, "memory", "pids", shown="/docker/abc")
    (tmp_path / "memory" / "inner").mkdir()
    found = find(mounts, "8:pids:/docker/abc\n4:memory:/docker/abc/inner\n")
    assert found.parents == {"memory": tmp_path / "memory" / "inner", "pids": tmp_path / "pids"}


def test_controllers_that_are_mounted_together_are_one_group(tmp_path: Path) -> None:
    mounts = version_1(tmp_path, "memory", "pids")
    (tmp_path / "cpu,cpuacct").mkdir()
    mounts += f"30 25 0:26 / {tmp_path}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    found = find(mounts, "8:pids:/\n4:memory:/\n3:cpu,cpuacct:/\n")
    assert found.parents["cpu"] == tmp_path / "cpu,cpuacct"


def test_version_2_is_used_where_it_was_delegated(tmp_path: Path) -> None:
    found = find(version_2(tmp_path, "ours"), "0::/ours\n")
    assert found.version == 2
    assert set(found.parents.values()) == {tmp_path / "ours"}


def test_version_2_needs_memory_and_pids(tmp_path: Path) -> None:
    mounts = version_2(tmp_path, "ours", delegated="cpu")
    for group in ("", "ours"):
        (tmp_path / group / "cgroup.controllers").write_text("cpu hugetlb\n")
    found = find(mounts, "0::/ours\n")
    assert (found.version, dict(found.parents)) == (0, {})
    assert "cannot be delegated" in found.why


def test_controllers_are_turned_on_where_that_is_possible(tmp_path: Path) -> None:
    mounts = version_2(tmp_path, delegated="")
    switch = tmp_path / "cgroup.subtree_control"
    find(mounts, "0::/\n")
    assert switch.read_text() in ("+cpu", "+memory", "+pids"), "in a real tree each is added to the others"


def test_alone_in_its_group_this_process_steps_aside(tmp_path: Path) -> None:
    mounts = version_2(tmp_path, "ours", delegated="")
    for group in ("", "ours"):
        (tmp_path / group / "cgroup.controllers").write_text("")
    (tmp_path / "ours" / "cgroup.procs").write_text(f"{os.getpid()}\n")
    find(mounts, "0::/ours\n")
    assert (tmp_path / "ours" / "turnwise" / "cgroup.procs").read_text() == str(os.getpid())


def test_where_nothing_is_mounted_there_are_no_groups() -> None:
    found = find("22 1 0:20 / /proc rw - proc proc rw\n", "")
    assert (found.version, found.make("name")) == (0, None)
    assert list(found.left()) == []
    assert "no cgroup controllers" in found.why


@pytest.fixture
def files_of_version_1(tmp_path: Path) -> Group:
    mounts = version_1(tmp_path, "memory", "pids", "cpu")
    group = find(mounts, "8:pids:/\n4:memory:/\n2:cpu:/\n").make("turnwise-1-1-000001")
    assert group is not None
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max"):
        (group.folders[name.split(".")[0]] / name).write_text("")
    for name in ("cpu.cfs_period_us", "cpu.cfs_quota_us"):
        (group.folders["cpu"] / name).write_text("")
    return group


def test_limits_of_version_1(files_of_version_1: Group) -> None:
    group = files_of_version_1
    group.limit(LIMITS)
    assert (group.folders["memory"] / "memory.limit_in_bytes").read_text() == str(LIMITS.memory)
    assert (group.folders["memory"] / "memory.memsw.limit_in_bytes").read_text() == str(LIMITS.memory)
    assert (group.folders["pids"] / "pids.max").read_text() == "32", "bubblewrap and the runner are not counted"
    assert (group.folders["cpu"] / "cpu.cfs_quota_us").read_text() == "50000"


def test_a_machine_that_does_not_count_swap_does_without(files_of_version_1: Group) -> None:
    swap = files_of_version_1.folders["memory"] / "memory.memsw.limit_in_bytes"
    swap.unlink()
    files_of_version_1.limit(LIMITS)
    assert not swap.exists()


def test_what_version_1_counts(files_of_version_1: Group) -> None:
    group = files_of_version_1
    (group.folders["memory"] / "memory.usage_in_bytes").write_text("100\n")
    (group.folders["memory"] / "memory.max_usage_in_bytes").write_text("200\n")
    (group.folders["memory"] / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    (group.folders["pids"] / "pids.current").write_text("4\n")
    assert group.usage().stats(1.0) == Stats(100, 200, 4, None, 3, 1.0)
    (group.folders["memory"] / "cgroup.procs").write_text("10\n11\n")
    (group.folders["pids"] / "cgroup.procs").write_text("11\n12\n")
    assert group.members() == {10, 11, 12}


def test_what_version_2_holds_and_counts(tmp_path: Path) -> None:
    found = find(version_2(tmp_path, "ours"), "0::/ours\n")
    group = found.make("turnwise-1-1-000001")
    assert group is not None
    (folder,) = group.places
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        (folder / name).write_text("")
    group.limit(LIMITS)
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written["memory.max"] == str(LIMITS.memory)
    assert written["memory.swap.max"] == "0"
    assert (written["pids.max"], written["cpu.max"]) == ("32", "50000 100000")
    (folder / "memory.current").write_text("100\n")
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    (folder / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert group.usage().stats(1.0) == Stats(100, None, None, 1.5, 2, 1.0)


def test_groups_of_processes_that_are_gone_are_found(tmp_path: Path) -> None:
    mounts = version_1(tmp_path, "memory", "pids")
    found = find(mounts, "8:pids:/\n4:memory:/\n")
    alive = f"turnwise-{os.getpid()}-{Path('/proc/self/stat').read_text().rpartition(')')[2].split()[19]}-000001"
    for name in ("turnwise-1-0-000001", alive, "turnwise-docker-abc", "other"):
        for controller in ("memory", "pids"):
            (tmp_path / controller / "deeper" / name).mkdir(parents=True)
    (left,) = found.left()
    assert {folder.name for folder in left.places} == {"turnwise-1-0-000001"}
    left.remove()
    assert not any(folder.exists() for folder in left.places)
    left.remove()


def test_a_group_that_is_there_already_is_said_to_be(tmp_path: Path) -> None:
    found = find(version_1(tmp_path, "memory", "pids"), "8:pids:/\n4:memory:/\n")
    (tmp_path / "pids" / "taken").mkdir()
    with pytest.raises(SandboxError, match="cannot create"):
        found.make("taken")
