"""scripts/start-docker and scripts/stop-docker: an engine of one's own, which may crash, and of which nothing stays."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.errors import SandboxError
from turnwise.sandboxes.docker.backend import DockerBackend
from turnwise.sandboxes.spec import SandboxSpec

from ..leftovers import control_groups

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
pytestmark = pytest.mark.slow


def script(name: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **env}
    return subprocess.run([SCRIPTS / name, folder], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a path for an engine; short, since a socket's name is."""
    made = Path(tempfile.mkdtemp(prefix="turnwise-engine-"))
    yield made
    script("stop-docker", made)
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def engine(folder: Path) -> Path:
    """Start an engine there."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("NOT TESTED with an engine of its own, which needs root and scripts/install-sandboxes")
    started = script("start-docker", folder)
    if started.returncode:
        pytest.skip(f"NOT TESTED with an engine of its own, which cannot run here: {started.stderr[-500:]}")
    return folder


def left_of(folder: Path) -> list[str]:
    """Processes, mounts and control groups that name the folder or the engine in it."""
    digest = hashlib.sha256(f"{folder}\n".encode()).hexdigest()[:12]
    groups = [str(path) for path in control_groups(digest)]
    mounts = [line for line in read(Path("/proc/mounts")).splitlines() if str(folder) in line]
    return groups + mounts + running(str(folder / "exec"))


def running(words: str) -> list[str]:
    """Processes with these words on their command line."""
    return [str(path) for path in Path("/proc").glob("[0-9]*/cmdline") if words in read(path)]


def read(path: Path) -> str:
    """Return a file that may have been removed."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def number_of(engine: Path) -> int:
    return int((engine / "dockerd.pid").read_text())


async def test_it_runs_sandboxes_and_nothing_of_it_stays(engine: Path) -> None:
    before = number_of(engine)
    again = script("start-docker", engine)
    assert "runs already" in again.stdout
    assert number_of(engine) == before, "starting it again starts no other"
    backend = DockerBackend(engine=f"unix://{engine}/docker.sock")
    sandbox = await backend.create()
    assert (await sandbox.exec("echo works")).stdout.text == "works\n"
    stopped = script("stop-docker", engine)
    assert stopped.returncode == 0, stopped.stderr
    with pytest.raises(SandboxError):
        await sandbox.exec("echo still")
    await sandbox.destroy()
    await backend.close()
    assert not left_of(engine)
    assert "nothing is stopped" in script("stop-docker", engine).stdout


@pytest.mark.slow
@pytest.mark.shift
async def test_an_engine_that_crashes_is_no_result_and_leaves_nothing_running(engine: Path) -> None:
    backend = DockerBackend(engine=f"unix://{engine}/docker.sock")
    sandbox = await backend.create()
    session = await sandbox.session()
    await session.run("sleep 1234 & true")
    os.kill(number_of(engine), signal.SIGKILL)
    with pytest.raises(SandboxError, match="docker engine"):
        await sandbox.exec("echo hello")
    await sandbox.destroy()
    assert not running("sleep\x001234\x00")
    with pytest.raises(SandboxError, match="does not answer"):
        await backend.create(SandboxSpec())
    assert script("start-docker", engine).returncode == 0, "it is started again where it was"
    assert (await backend.reap()).sandboxes == 1, "what the crash left is removed"
    async with await backend.create() as another:
        assert (await another.exec("echo works")).ok, "the same backend goes on"
    await backend.close()
    assert script("stop-docker", engine).returncode == 0
    assert not left_of(engine)


@pytest.mark.shift
def test_one_that_was_killed_with_sandboxes_in_it_is_cleaned_up(engine: Path) -> None:
    name = f"unix://{engine}/docker.sock"
    source = (
        "import asyncio, os\nfrom turnwise.sandboxes.docker.backend import DockerBackend\n"
        f"async def main():\n    await DockerBackend(engine={name!r}).create()\n    os._exit(0)\nasyncio.run(main())"
    )
    subprocess.run(["python", "-c", source], check=True)
    os.kill(number_of(engine), signal.SIGKILL)
    stopped = script("stop-docker", engine)
    assert stopped.returncode == 0, stopped.stderr
    assert not engine.exists()
    assert not left_of(engine)


def test_what_it_did_not_start_is_not_stopped(folder: Path) -> None:
    (folder / "dockerd.pid").write_text(str(os.getpid()))
    assert "nothing is stopped" in script("stop-docker", folder).stdout
    assert folder.exists()


def test_a_machine_without_an_engine_is_told_what_to_install(folder: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "realpath", "sha256sum", "cut", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    refused = script("start-docker", folder, PATH=str(tools))
    assert refused.returncode == 1
    assert "scripts/install-sandboxes" in refused.stderr
