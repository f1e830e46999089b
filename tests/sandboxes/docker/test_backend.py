"""Sandboxes on a real engine: which image they run on, what ends them, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turnwise.errors import SandboxError, SandboxUnavailableError
from turnwise.sandboxes.docker import containers
from turnwise.sandboxes.docker.backend import DockerBackend
from turnwise.sandboxes.docker.config import USERS, container_config
from turnwise.sandboxes.docker.image import Recipe, host_image, inside, loaded, write_archive
from turnwise.sandboxes.docker.prepare import OF
from turnwise.sandboxes.spec import SandboxSpec

if TYPE_CHECKING:
    from docker import APIClient


@pytest.fixture
def repository(api: APIClient) -> Iterator[str]:
    """A name for images of one test, which are removed after it."""
    name = f"turnwise-test-{uuid.uuid4().hex[:12]}"
    yield name
    for image in api.images(name=name):
        for prepared in api.images(filters={"label": f"{OF}={image['Id']}"}):
            api.remove_image(prepared["Id"], force=True)
        api.remove_image(image["Id"], force=True)


def imported(api: APIClient, repository: str, files: dict[str, Path]) -> str:
    """The name of an image that holds no more than these files and what they load."""
    with io.BytesIO() as archive:
        write_archive(Recipe(files, {}, ""), archive)
        api.import_image_from_data(archive.getvalue(), repository=repository, tag="latest")
    return f"{repository}:latest"


def owned(api: APIClient) -> list[str]:
    """Containers of this process."""
    mine = containers.labels(0)[containers.OWNER]
    return [each["Id"] for each in api.containers(all=True, filters={"label": f"{containers.OWNER}={mine}"})]


async def test_a_name_becomes_the_id_that_it_means_now(api: APIClient, backend: DockerBackend, repository: str) -> None:
    image = host_image(api)
    api.tag(image, repository, "moving")
    async with await backend.create(SandboxSpec(image=f"{repository}:moving")) as sandbox:
        assert sandbox.spec.image == image, "a name may mean another image tomorrow"
        api.remove_image(f"{repository}:moving")
        (fork,) = await sandbox.fork()
        assert (await fork.exec("echo there")).stdout.text == "there\n"
        await fork.destroy()


async def test_an_image_that_is_not_there_is_refused_and_not_fetched(backend: DockerBackend) -> None:
    with pytest.raises(SandboxUnavailableError, match=r"no image 'turnwise-test/none:1'.*docker pull"):
        await backend.create(SandboxSpec(image="turnwise-test/none:1"))


async def test_an_image_without_python_is_refused_in_words(
    api: APIClient, backend: DockerBackend, repository: str
) -> None:
    with pytest.raises(SandboxUnavailableError, match="has no python3"):
        await backend.create(SandboxSpec(image=imported(api, repository, {})))
    assert not owned(api)


@pytest.fixture
def old_python(tmp_path: Path) -> dict[str, Path]:
    """Files of an image whose Python ends as one before 3.8 does."""
    old = tmp_path / "python3"
    old.write_text("#!/usr/bin/sh\nexit 8\n")
    old.chmod(0o755)
    shell = Path("/bin/sh").resolve()
    return {"usr/bin/sh": shell, "usr/bin/python3": old} | {inside(path): path for path in loaded([shell])}


async def test_an_image_whose_python_is_too_old_is_refused_in_words(
    api: APIClient, backend: DockerBackend, repository: str, old_python: dict[str, Path]
) -> None:
    image = imported(api, repository, old_python)
    with pytest.raises(SandboxUnavailableError, match=r"must be 3\.8 or newer"):
        await backend.create(SandboxSpec(image=image))
    assert not owned(api)


async def test_volumes_that_an_image_asks_for_are_in_memory(
    api: APIClient, backend: DockerBackend, repository: str
) -> None:
    container = api.create_container(host_image(api), ["true"])["Id"]
    api.commit(container, repository, "volume", changes=["VOLUME /data"])
    containers.remove(api, container)
    async with await backend.create(SandboxSpec(image=f"{repository}:volume")) as sandbox:
        kind = await sandbox.exec("df --output=fstype /data | tail -n 1; echo x > /data/x && cat /data/x")
        assert kind.stdout.text == "tmpfs\nx\n", "a volume would be on the engine's disk, without a limit"
        mounts = api.inspect_container(sandbox.id)["Mounts"]
        assert "volume" not in {mount["Type"] for mount in mounts}, "it would outlive the sandbox"


async def test_the_image_of_this_machine_is_made_once(api: APIClient) -> None:
    assert host_image(api) == host_image(api)


async def test_an_image_that_somebody_removed_is_made_again(api: APIClient, backend: DockerBackend) -> None:
    async with await backend.create() as sandbox:
        image = api.inspect_container(sandbox.id)["Image"]
    await remove_unused(api, image)
    async with await backend.create() as sandbox:
        assert (await sandbox.exec("echo works")).ok


async def remove_unused(api: APIClient, image: str) -> None:
    """Remove an image as soon as no container of a test beside this one uses it."""
    from docker.errors import APIError

    async with asyncio.timeout(300):
        while True:
            try:
                api.remove_image(image, force=True)
                return
            except APIError as error:
                if error.status_code != 409:
                    raise
            await asyncio.sleep(0.2)


async def test_what_runs_inside_is_nobody_on_a_kernel_that_refuses(backend: DockerBackend) -> None:
    ask = "import os, socket; print(os.getuid())\ntry: socket.socket(16, 3)\nexcept OSError as e: print(e.errno)"
    async with await backend.create() as sandbox:
        user, refused = (await sandbox.exec(["python3", "-c", ask])).stdout.text.split()
    assert int(user) in USERS
    assert refused == "97", "kinds of sockets that the engine's own filter lets pass are denied by ours"


async def test_warm_containers_are_used_once_and_none_is_left(api: APIClient) -> None:
    backend = DockerBackend()
    backend.keep_ready(2)
    seen = list[str]()
    for _ in range(5):
        async with await backend.create() as sandbox:
            assert not await sandbox.list_files(), "it was used before"
            await sandbox.write_files({"mine": b"1"})
            seen.append(sandbox.id)
    assert len(set(seen)) == len(seen), "a used container never comes back"
    await backend.close()
    assert not owned(api)


async def test_a_container_that_somebody_removes_is_no_result(api: APIClient, backend: DockerBackend) -> None:
    sandbox = await backend.create()
    containers.remove(api, sandbox.id)
    with pytest.raises(SandboxError, match=r"was killed|removed by somebody else"):
        await sandbox.exec("echo hello")
    assert not sandbox.alive
    await sandbox.destroy()


async def test_a_runner_that_is_killed_is_no_result(api: APIClient, backend: DockerBackend) -> None:
    sandbox = await backend.create()
    api.kill(sandbox.id)
    with pytest.raises(SandboxError, match="its runner was killed"):
        await sandbox.exec("echo hello")
    await sandbox.destroy()
    assert not owned(api)


async def test_a_container_ends_when_nobody_holds_its_input(api: APIClient, backend: DockerBackend) -> None:
    process = await backend.start_runner(SandboxSpec())
    process.writer.write_eof()
    assert await process.reader.read() == b""
    assert await process.died() == "its runner ended with exit code 0"
    await process.kill()
    assert containers.state(api, process.id) is None


async def test_the_engine_and_the_kernel_count_the_same(api: APIClient, backend: DockerBackend) -> None:
    async with await backend.create() as sandbox:
        await sandbox.write_files({"big": b"x" * 5_000_000})
        kernel, engine = await sandbox.stats(), containers.usage(api, sandbox.id, 1.0)
    assert kernel.memory is not None
    assert engine.memory is not None
    assert kernel.memory > 5_000_000
    assert abs(kernel.memory - engine.memory) < 4_000_000
    assert kernel.pids == engine.pids == 1
    assert (kernel.oom_kills, engine.oom_kills) == (0, None)


async def test_reaping_takes_what_is_over_and_leaves_what_is_not(api: APIClient, backend: DockerBackend) -> None:
    image = host_image(api)

    def made(**known: str) -> str:
        command = ["sleep", "100"]
        return containers.make(
            api, container_config(SandboxSpec(), image=image, command=command, user=USERS.start, labels=known)
        )

    elsewhere = {containers.OWNER: "1:1", containers.MACHINE: "another"}
    over, wanted = made(**elsewhere, **{containers.UNTIL: "1"}), made(**elsewhere, **{containers.UNTIL: "9" * 12})
    somebodys = made()
    dead = made(**{**containers.labels(100), containers.OWNER: "1:1"})
    containers.start(api, dead)
    try:
        await backend.reap()  # another test's backend may come first
        assert containers.state(api, over) is containers.state(api, dead) is None
        assert containers.state(api, wanted) is not None, "its owner is on another machine, and its time is not over"
        assert containers.state(api, somebodys) is not None, "it is no sandbox"
    finally:
        for each in (over, wanted, somebodys, dead):
            containers.remove(api, each)


async def test_an_unknown_runtime_is_refused_in_words(api: APIClient) -> None:
    backend = DockerBackend(runtime="none-such")
    found = await backend.probe()
    assert not found.available
    assert "no runtime 'none-such'" in found.why
    assert "runc" in found.why
    await backend.close()
