"""The configuration of a container confines it; each setting is repeated here, so that none is lost by accident."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from turnwise.sandboxes.docker.config import USERS, any_user, container_config
from turnwise.sandboxes.spec import MIB, Limits, Mount, SandboxSpec


def config(spec: SandboxSpec | None = None, **more: Any) -> dict[str, Any]:
    return container_config(
        spec or SandboxSpec(), image="sha256:1", command=["python3"], user=USERS.start, labels={"a": "b"}, **more
    )


def host(spec: SandboxSpec | None = None, **more: Any) -> dict[str, Any]:
    part: dict[str, Any] = config(spec, **more)["HostConfig"]
    return part


def test_a_container_can_reach_nothing_and_gain_nothing() -> None:
    made = host()
    assert made["NetworkMode"] == "none"
    assert config()["NetworkDisabled"] is True
    assert made["CapDrop"] == ["ALL"]
    assert "CapAdd" not in made
    assert made["SecurityOpt"] == ["no-new-privileges:true"], "an entry more would switch the engine's own profile off"
    assert made["Privileged"] is False
    assert "Devices" not in made
    assert (made["IpcMode"], made["CgroupnsMode"]) == ("private", "private")
    assert "PidMode" not in made, "the default is a namespace of its own"


def test_it_is_nobody_and_not_root() -> None:
    user, _, group = config()["User"].partition(":")
    assert user == group == str(USERS.start)
    assert all(any_user() in USERS and any_user() > 60_000 for _ in range(50)), "a number that belongs to no person"


def test_it_writes_only_to_memory_of_fixed_size() -> None:
    made = host(SandboxSpec(workdir="/box", limits=Limits(disk=5 * MIB, inodes=99)))
    assert made["ReadonlyRootfs"] is True
    assert set(made["Tmpfs"]) == {"/box", "/tmp", "/dev/shm"}
    for options in made["Tmpfs"].values():
        assert {"nosuid", "nodev", f"size={5 * MIB}", "nr_inodes=99"} <= set(options.split(","))
    assert made["LogConfig"]["Type"] == "none", "what it writes must not land on the engine's disk"


def test_limits_are_the_kernels_own() -> None:
    made = host(SandboxSpec(limits=Limits(memory=64 * MIB, pids=9, cpus=0.5)))
    assert made["Memory"] == made["MemorySwap"] == 64 * MIB, "no swap on top"
    assert made["PidsLimit"] == 9 + 1, "nine, and the runner"
    assert made["CpuQuota"] / made["CpuPeriod"] == pytest.approx(0.5)
    assert {each["Name"]: each["Hard"] for each in made["Ulimits"]}["core"] == 0


def test_a_tiny_share_of_a_processor_is_the_least_the_kernel_takes() -> None:
    assert host(SandboxSpec(limits=Limits(cpus=1e-6)))["CpuQuota"] == 1000


def test_it_ends_with_its_owner_and_is_not_restarted() -> None:
    made = config()
    assert made["OpenStdin"]
    assert made["StdinOnce"], "its input ends with the one connection"
    assert made["HostConfig"]["RestartPolicy"] == {"Name": "no"}
    assert made["Tty"] is False


def test_what_is_mounted_can_be_read_and_nothing_below_it_written() -> None:
    given = Mount(source=Path("/usr/share"), target=PurePosixPath("/given"))
    (made,) = host(SandboxSpec(mounts=(given,)))["Mounts"]
    assert (made["Source"], made["Target"], made["ReadOnly"]) == ("/usr/share", "/given", True)
    assert made["BindOptions"]["NonRecursive"] is True, "a mount below the source would stay writable"


def test_no_environment_of_the_host_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    assert "secret" not in str(config())


def test_another_runtime_is_named_and_no_other_else() -> None:
    assert host(runtime="runsc")["Runtime"] == "runsc"
    assert "Runtime" not in host()


def test_settings_of_the_kernel_are_for_runtimes_that_use_the_machines_own() -> None:
    for made in (host(), host(runtime="runc"), host(runtime="crun")):
        assert made["Sysctls"] == {"kernel.shmmax": "0", "kernel.msgmni": "0"}
    assert "Sysctls" not in host(runtime="runsc")
