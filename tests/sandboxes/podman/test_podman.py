"""The translation of a container's confinement for Podman, the search for its service, and its answers."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from socket import AF_UNIX, socket
from threading import Event
from typing import Any

import pytest
import requests

from turnwise.errors import SandboxError, SandboxUnavailableError
from turnwise.sandboxes.docker.config import USERS, container_config
from turnwise.sandboxes.docker.prepare import Prepared
from turnwise.sandboxes.docker.probe import capabilities
from turnwise.sandboxes.podman.backend import PodmanBackend
from turnwise.sandboxes.podman.config import podman_config
from turnwise.sandboxes.podman.engine import address, connect
from turnwise.sandboxes.spec import MIB, Limits, Mount, SandboxSpec

from .stand_in import DOCKER, PODMAN, stand_in


def docker(spec: SandboxSpec, **more: Any) -> dict[str, Any]:
    return container_config(
        spec, image="sha256:1", command=["python3", "-c", "1"], user=USERS.start, labels={"a": "b"}, **more
    )


def test_confinement_is_translated() -> None:
    spec = SandboxSpec(workdir="/box", limits=Limits(memory=64 * MIB, pids=9, cpus=0.5, disk=5 * MIB, inodes=99))
    made = podman_config(docker(spec))
    assert made["netns"] == {"nsmode": "none"}
    assert {made[kind]["nsmode"] for kind in ("pidns", "utsns", "ipcns", "cgroupns")} == {"private"}
    assert (made["cap_drop"], made["no_new_privileges"], made["privileged"]) == (["ALL"], True, False)
    assert (made["read_only_filesystem"], made["read_write_tmpfs"]) == (True, False)
    assert (made["httpproxy"], made["env_host"], made["systemd"]) == (False, False, "false")
    assert made["use_image_hosts"]
    assert made["use_image_resolve_conf"]
    assert made["user"] == f"{USERS.start}:{USERS.start}"
    assert made["resource_limits"] == {
        "memory": {"limit": 64 * MIB, "swap": 64 * MIB},
        "pids": {"limit": 10},
        "cpu": {"period": 100_000, "quota": 50_000},
    }
    assert {each["type"]: each["hard"] for each in made["r_limits"]} == {"core": 0, "nofile": 1024, "nproc": 16384}
    assert (made["stop_signal"], made["stop_timeout"]) == (9, 0), "the runner ignores the others"
    places = {each["destination"]: each["options"] for each in made["mounts"]}
    assert set(places) == {"/box", "/tmp", "/dev/shm"}
    for options in places.values():
        assert {"nosuid", "nodev", "notmpcopyup"} <= set(options)
        (sized,) = (each for each in options if each.startswith("size="))
        assert sized == f"size={5 * MIB},nr_inodes=99,uid={USERS.start},gid={USERS.start}", "limits in one word"


def test_a_folder_of_the_host_is_read_only_without_mounts_below_it() -> None:
    spec = SandboxSpec(mounts=(Mount(source=Path("/usr/share"), target=PurePosixPath("/data")),))
    (mount,) = (each for each in podman_config(docker(spec))["mounts"] if each["type"] == "bind")
    assert (mount["source"], mount["destination"]) == ("/usr/share", "/data")
    assert mount["options"] == ["ro", "bind", "rprivate"]


def test_a_runtime_is_named_if_one_is_chosen() -> None:
    assert "oci_runtime" not in podman_config(docker(SandboxSpec()))
    runsc = podman_config(docker(SandboxSpec(), runtime="runsc"))
    assert (runsc["oci_runtime"], runsc["sysctl"]) == ("runsc", {})


def test_a_service_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTAINER_HOST", "unix:///some/where.sock")
    assert address() == "unix:///some/where.sock"
    monkeypatch.setenv("CONTAINER_HOST", "ssh://me@there")
    with pytest.raises(SandboxUnavailableError, match="not supported"):
        address()
    monkeypatch.delenv("CONTAINER_HOST")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "podman").mkdir()
    with socket(AF_UNIX) as listener:
        listener.bind(str(tmp_path / "podman" / "podman.sock"))
        assert address() == f"unix://{tmp_path}/podman/podman.sock"


async def test_where_no_service_answers_it_is_said_how_to_start_one(tmp_path: Path) -> None:
    backend = PodmanBackend(engine=f"unix://{tmp_path}/none.sock")
    found = await backend.probe()
    assert not found.available
    assert "podman system service --time=0 unix:///path" in found.why
    assert "\n" not in found.why
    await backend.close()


class Reporting:
    """An engine that reports these components."""

    def __init__(self, *components: str, api: str = "1.41") -> None:
        self.components, self.api = components, api

    def info(self) -> dict[str, Any]:
        return {"OSType": "linux", "Runtimes": {"runc": {}}, "DefaultRuntime": "runc"}

    def version(self) -> dict[str, Any]:
        return {"Version": "1", "ApiVersion": self.api, "Components": [{"Name": each} for each in self.components]}


@pytest.mark.parametrize(("name", "right"), [("docker", False), ("podman", True)])
def test_an_engine_of_the_other_product_is_refused(name: str, right: bool) -> None:
    engine: Any = Reporting("Podman Engine", "Conmon")
    found = capabilities(engine, "unix:///there", name, None)
    assert found.available == right
    other: Any = Reporting("Engine", "containerd")
    assert capabilities(other, "unix:///there", name, None).available != right


@pytest.mark.parametrize(("name", "component"), [("docker", "Engine"), ("podman", "Podman Engine")])
def test_an_engine_that_is_too_old_is_named(name: str, component: str) -> None:
    engine: Any = Reporting(component, api="1.24")
    assert capabilities(engine, "unix:///there", name, None).why.startswith(f"{name} 1 is too old: its API is 1.24")


async def test_a_docker_engine_at_podmans_address_is_refused(tmp_path: Path) -> None:
    """It answers Podman's own requests with "not found", which says less."""
    with stand_in(tmp_path, lambda path: (200, DOCKER) if path.endswith("version") else (404, {"message": "x"})) as at:
        backend = PodmanBackend(engine=at)
        found = await backend.probe()
        await backend.close()
    assert f"the engine at {at} is docker" in found.why


def test_a_service_that_stops_answering_is_not_waited_for(tmp_path: Path) -> None:
    over = Event()

    def answer(path: str) -> tuple[int, Any]:
        if "libpod" in path:
            over.wait(3)
        return 200, PODMAN

    with stand_in(tmp_path, answer) as at:
        api: Any = connect(at)
        api.timeout = 0.1
        for call in (api.info, lambda: api.create_container_from_config(docker(SandboxSpec()))):
            with pytest.raises(requests.Timeout):
                call()
        over.set()
        api.close()


@pytest.mark.parametrize("said", ["image not known", "no such image: sha256:1: image not known", "no space left"])
async def test_an_image_that_somebody_removed_is_looked_up_again(tmp_path: Path, said: str) -> None:
    class Prepares(PodmanBackend):
        times = 0

        async def _image(self, spec: SandboxSpec) -> Prepared:
            self.times += 1
            return Prepared("sha256:1", ())

    with stand_in(tmp_path, lambda path: (404, {"message": said}) if "create" in path else (200, PODMAN)) as at:
        backend = Prepares(engine=at)
        with pytest.raises(SandboxError, match=said):
            await backend.start_runner(SandboxSpec())
        await backend.close()
    assert backend.times == (2 if "image" in said else 1)
