"""Sandboxes of bubblewrap: what they cannot see, use up, or leave. More that is hostile is in the check suite."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path, PurePosixPath

import pytest

from turnwise.errors import SandboxError, SandboxUnavailableError, ToolError
from turnwise.sandboxes.backend import Enforcement
from turnwise.sandboxes.bubblewrap import promises
from turnwise.sandboxes.bubblewrap.backend import BubblewrapBackend
from turnwise.sandboxes.bubblewrap.cgroups import Cgroups
from turnwise.sandboxes.bubblewrap.rootfs import OF_ROOT, OF_USR, packages_in
from turnwise.sandboxes.bubblewrap.uids import Uids
from turnwise.sandboxes.result import Status
from turnwise.sandboxes.runner.backend import RunnerBackend
from turnwise.sandboxes.runner.processes import descendants
from turnwise.sandboxes.sandbox import Sandbox
from turnwise.sandboxes.spec import Limit, Limits, Mount, SandboxSpec
from turnwise.sandboxes.unconfined import UnconfinedBackend

from ..leftovers import control_groups

LEFT = """\
import asyncio, sys
from turnwise.sandboxes.bubblewrap.backend import BubblewrapBackend

async def main():
    backend = BubblewrapBackend()
    await backend.probe()
    print("makes sandboxes", flush=True)
    while True:
        made = await backend.create()
        await (await made.session()).run("setsid sleep 600 &")
        await made.fork(1)

asyncio.run(main())
"""
"""A controller that is killed while it makes sandboxes."""


def belongings(pid: int) -> list[str]:
    """Return a controller's resources on this machine: control groups, folders, user ids, and their processes."""
    groups = [str(path) for path in control_groups(f"turnwise-{pid}-")]
    folders = [str(path) for path in Path("/tmp").glob(f"turnwise-{pid}-*")]
    taken = Uids().folder
    numbers = [uid for uid in taken.glob("*") if read(uid).startswith(f"{pid}-")]
    return [*groups, *folders, *map(str, numbers)]


def read(path: Path) -> str:
    """Return the content of a file that other processes may remove meanwhile."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def killed_controller(delay: float) -> int:
    """The number of a process that made sandboxes for so many seconds, and was killed."""
    with subprocess.Popen([sys.executable, "-c", LEFT], stdout=subprocess.PIPE) as controller:
        assert controller.stdout is not None
        controller.stdout.readline()
        time.sleep(delay)
        controller.send_signal(signal.SIGKILL)
    return controller.pid


def runners() -> list[int]:
    """Runners below this process, in whatever sandboxes of its."""
    return [pid for pid in descendants(os.getpid()) if b"turnwise_runner" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_it_sees_its_own_processes_user_and_files_alone(confined: Sandbox) -> None:
    seen = await confined.exec("ls /proc | grep '^[0-9]'; id -u; hostname; ls -A / /work /tmp; cat /proc/1/environ")
    assert seen.stdout.text.splitlines()[0] == "1"
    assert len([line for line in seen.stdout.text.splitlines() if line.isdigit() and line != "1000"]) <= 4
    assert "1000\nsandbox\n" in seen.stdout.text
    assert "root" not in (await confined.exec("ls -A /")).stdout.text
    assert "Permission denied" in seen.stderr.text, "nobody may look into the runner"


async def test_only_its_own_places_can_be_written(confined: Sandbox) -> None:
    for place in ("/", "/usr", "/etc", "/dev", "/run", "/proc/sys/kernel"):
        assert not (await confined.exec(f"touch {place}/x || echo x > {place}/hostname")).ok, place
    for place in ("/work", "/tmp", "/dev/shm"):
        assert (await confined.exec(f"touch {place}/x")).ok, place


async def test_it_has_no_network_but_its_own(confined: Sandbox) -> None:
    tried = await confined.exec(["python3", "-c", "import socket; print(socket.if_nameindex())"])
    routes = await confined.exec("cat /proc/net/dev /proc/net/route")
    assert "eth" not in tried.stdout.text + routes.stdout.text
    assert "lo:" in routes.stdout.text


@pytest.mark.slow
@pytest.mark.parametrize("place", ["/work", "/tmp", "/dev/shm"])
async def test_no_place_holds_more_than_the_disk_limit(confined: Sandbox, place: str) -> None:
    filled = await confined.exec(f"head -c 3000000 /dev/zero > {place}/large; wc -c < {place}/large")
    assert int(filled.stdout.text) <= confined.spec.limits.disk
    with pytest.raises(ToolError, match="no room left"):
        await confined.write_files({"more": bytes(2 * confined.spec.limits.disk)})


async def test_the_kernel_s_kill_for_memory_is_told_and_the_sandbox_lives(
    bubblewrap: BubblewrapBackend, confined: Sandbox
) -> None:
    if "memory" not in bubblewrap.cgroups.parents:
        pytest.skip(f"NOT TESTED: {bubblewrap.cgroups.why}")
    bomb = "held = []\nwhile True:\n    held.append(bytes(1 << 20))"
    assert (await confined.exec(["python3", "-c", bomb])).status is Status.OOM
    assert (await confined.exec("true")).ok
    stats = await confined.stats()
    assert stats.oom_kills
    assert stats.memory_peak
    assert stats.memory_peak <= confined.spec.limits.memory


async def test_processes_have_an_end(bubblewrap: BubblewrapBackend, confined: Sandbox) -> None:
    if "pids" not in bubblewrap.cgroups.parents:
        pytest.skip(f"NOT TESTED: {bubblewrap.cgroups.why}")
    many = await confined.exec("for i in $(seq 100); do sleep 600 & done; echo never", timeout=5)
    assert "Cannot fork" in many.stderr.text
    assert (await confined.exec("true")).ok, "what was left must be gone"


async def test_what_is_deep_denied_or_oddly_named_can_be_kept_and_removed(
    bubblewrap: BubblewrapBackend, confined: Sandbox
) -> None:
    limits = confined.spec.limits.model_copy(update={"inodes": 4096})
    confined = await bubblewrap.create(confined.spec.model_copy(update={"limits": limits}))
    deep = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nopen('f', 'w')"
    assert (await confined.exec("mkdir -p no/entry; echo x > no/entry/f; chmod 000 no/entry/f no/entry no")).ok
    snapshot = await confined.snapshot()
    assert b"no/entry/f" in snapshot.archive
    assert (await confined.exec("stat -c %a no")).stdout.text == "0\n", "a snapshot leaves modes as they are"
    assert (await confined.exec(["python3", "-c", deep])).ok
    await confined.exec("touch -- -rf 'a b'")
    assert len(await confined.list_files("d")) == 3000
    await confined.remove(["d", "no", "-rf", "a b", "missing"])
    assert await confined.list_files() == ()


async def test_mounts_can_be_read_and_not_written(bubblewrap: BubblewrapBackend, confined: Sandbox) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path: the sandbox's user cannot reach that
        os.chmod(folder, 0o777)  # everyone may write here, so only the mount itself can refuse to
        mount = Mount(source=Path(folder), target=PurePosixPath("/data/here"))
        spec = confined.spec.model_copy(update={"mounts": (mount,)})
        async with await bubblewrap.create(spec) as sandbox:
            assert (await sandbox.exec("test -d /data/here")).ok
            assert not (await sandbox.exec("touch /data/here/x")).ok
        assert os.listdir(folder) == [], "a mount was written to"
    missing = spec.model_copy(update={"mounts": (Mount(source=Path("/no/such"), target=PurePosixPath("/data")),)})
    with pytest.raises(SandboxUnavailableError, match="there is no /no/such"):
        await bubblewrap.create(missing)


async def test_an_image_is_a_folder_with_a_python(
    bubblewrap: BubblewrapBackend, confined: Sandbox, tmp_path: Path
) -> None:
    with pytest.raises(SandboxUnavailableError, match="python3"):
        await bubblewrap.create(confined.spec.model_copy(update={"image": str(tmp_path)}))
    async with await bubblewrap.create(confined.spec.model_copy(update={"image": "/", "workdir": "/box"})) as sandbox:
        assert (await sandbox.exec("pwd")).stdout.text == "/box\n"
        assert not (await sandbox.exec("cat /etc/shadow")).ok


async def test_every_sandbox_has_a_user_of_its_own(bubblewrap: BubblewrapBackend, confined: Sandbox) -> None:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can give each sandbox a user of its own")
    others = [await bubblewrap.create(confined.spec) for _ in range(2)]
    users = {os.stat(f"/proc/{pid}").st_uid for pid in runners()}
    assert len(users) >= 3, "as this machine knows them"
    assert 0 not in users
    for other in others:
        await other.destroy()


@pytest.fixture
def others() -> set[str]:
    """Return this process's resources for other tests, since environments share a backend."""
    return set(belongings(os.getpid()))


async def test_an_end_leaves_nothing(others: set[str], bubblewrap: BubblewrapBackend, confined: Sandbox) -> None:
    session = await confined.session()
    await session.run("(setsid sleep 600 &); sleep 600 &")
    await confined.destroy()
    await bubblewrap.close()
    assert set(belongings(os.getpid())) <= others


async def test_its_lifetime_ends_it(bubblewrap: BubblewrapBackend, confined: Sandbox) -> None:
    limits = confined.spec.limits.model_copy(update={"lifetime": 0.3})
    sandbox = await bubblewrap.create(confined.spec.model_copy(update={"limits": limits}))
    with pytest.raises(SandboxError, match=r"lifetime of 0\.3 s is over"):
        await sandbox.exec("sleep 600")
    assert not sandbox.alive


async def test_the_end_of_a_thread_or_loop_that_used_it_does_not_end_it(confined: Sandbox) -> None:
    result = await asyncio.to_thread(lambda: asyncio.run(confined.exec("echo elsewhere")))
    assert result.stdout.text == "elsewhere\n"
    assert (await confined.exec("echo here")).stdout.text == "here\n"


async def test_a_cancelled_creation_leaves_nothing(
    others: set[str], bubblewrap: BubblewrapBackend, confined: Sandbox
) -> None:
    for delay in (0.0, 0.005, 0.02):
        making = asyncio.ensure_future(bubblewrap.create(confined.spec))
        await asyncio.sleep(delay)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
    await confined.destroy()
    await bubblewrap.close()
    assert set(belongings(os.getpid())) <= others


@pytest.mark.slow
async def test_what_a_killed_controller_leaves_is_reaped(bubblewrap: BubblewrapBackend) -> None:
    left = []
    for delay in (0.0, 0.2, 0.6):
        pid = await asyncio.to_thread(killed_controller, delay)
        left += belongings(pid)  # unless another test has reaped it already
        await bubblewrap.reap()
        assert belongings(pid) == []
    assert left, "a killed controller must leave something, or this shows nothing"


def test_what_is_not_counted_is_not_promised() -> None:
    promised = promises.promises(Cgroups(0, {}, "none are mounted"), "unshare failed")
    for limit in (Limit.MEMORY, Limit.PIDS, Limit.CPUS, Limit.INODES):
        assert promised[limit].enforcement.value == "absent"
        assert "none are mounted" in promised[limit].how
    assert set(promised) == set(Limit)


async def test_why_files_are_not_counted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = BubblewrapBackend()

    async def trial(self: BubblewrapBackend) -> str:
        return "unshare: write failed /proc/self/uid_map" if self._mounts else ""

    monkeypatch.setattr(BubblewrapBackend, "_trial", trial)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    found = await backend.probe()
    await backend.close()
    assert found.available
    inodes = found.limits[Limit.INODES]
    assert inodes.enforcement is not Enforcement.ENFORCED
    assert "write failed /proc/self/uid_map" in inodes.how or "no control group" in inodes.how


def test_installed_packages_are_found_beside_and_below_lib64(tmp_path: Path) -> None:
    for place in ("a/lib/python3.12", "a/lib64/python3.12", "b/lib/python3.12"):
        (tmp_path / place / "site-packages").mkdir(parents=True)
    (tmp_path / "b" / "lib64").symlink_to("lib")
    found = [str(path.relative_to(tmp_path).parent.parent) for path in packages_in(tmp_path / "a", tmp_path / "b")]
    assert found == ["a/lib", "a/lib64", "b/lib"]


def test_what_is_missing_is_said_with_what_to_install() -> None:
    found = promises.unavailable("bubblewrap", ["bwrap"], "")
    assert not found.available
    assert "apt-get install bubblewrap" in found.why
    with pytest.raises(SandboxUnavailableError, match="apt-get install"):
        found.demand(SandboxSpec())


@pytest.mark.parametrize("backend", [UnconfinedBackend()], ids=["unconfined"])
async def test_what_confines_nothing_must_be_asked_for_limit_by_limit(backend: RunnerBackend) -> None:
    with pytest.raises(SandboxUnavailableError, match="cannot limit memory"):
        await backend.create()
    with pytest.raises(SandboxUnavailableError, match="cannot limit network"):
        await backend.create(SandboxSpec(limits=Limits(), relaxed=frozenset(Limit) - {Limit.NETWORK}))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["/work", "/tmp", "/dev/shm"])
async def test_no_place_holds_more_files_than_the_limit(
    bubblewrap: BubblewrapBackend, confined: Sandbox, place: str
) -> None:
    """Empty files cost memory that no process holds: without a limit the kernel kills the runner for it."""
    held = (await bubblewrap.probe()).limits[Limit.INODES]
    if held.enforcement is not Enforcement.ENFORCED:
        pytest.skip(f"NOT TESTED: {held.how}")
    made = await confined.exec(f"cd {place}; i=0; while touch f$i 2>/dev/null; do i=$((i+1)); done; ls | wc -l")
    assert int(made.stdout.text) <= confined.spec.limits.inodes
    assert (await confined.exec("echo goes on")).ok


async def test_nothing_of_this_machine_is_seen_but_what_is_listed(confined: Sandbox) -> None:
    """A checkout or a virtual environment under /usr/src or /usr/local is none of a sandbox's business."""
    everything = await confined.exec("ls -A / && cd /usr && ls -Ad * */* | grep -e ^[a-z0-9]*$ -e ^share/")
    seen = everything.stdout.text.split()
    own = {"dev", "etc", "proc", "run", "tmp", "usr", "work"}
    listed = {*own, *OF_ROOT, *OF_USR, "share"}
    assert set(seen) <= listed, f"this is seen and not listed: {set(seen) - listed}"


async def test_memory_that_no_process_holds_cannot_be_had(confined: Sandbox) -> None:
    """System V's shared memory and messages outlive their processes, and nothing limits them but the memory of all."""
    code = "import ctypes as c; l = c.CDLL(None); print(l.shmget(0, 1 << 20, 0o1600), l.msgget(0, 0o1600))"
    assert (await confined.exec(["python3", "-c", code])).stdout.text == "-1 -1\n"


def test_user_numbers_are_taken_once_and_freed_with_their_owners(tmp_path: Path) -> None:
    uids = Uids(tmp_path / "uids")
    taken = {uids.take() for _ in range(20)}
    assert len(taken) == 20
    (tmp_path / "uids" / "7").write_text("1-0")
    uids.reap()
    assert {int(path.name) for path in (tmp_path / "uids").iterdir()} == taken
    for uid in taken:
        uids.release(uid)
        uids.release(uid)
    assert list((tmp_path / "uids").iterdir()) == []


async def test_no_installed_package_is_seen(confined: Sandbox) -> None:
    """Or the answer to a task could be imported: what was broken lies whole in the package that it was taken from."""
    ask = "import sys, os; print([os.listdir(place) for place in sys.path if place.endswith('-packages')])"
    seen = (await confined.exec(["python3", "-c", ask])).stdout.text
    assert not seen.replace("[", "").replace("]", "").replace(",", "").strip()
    assert (await confined.exec("ls -d /usr/lib/python3*/*-packages/* /usr/local/lib/python3*/*-packages/*")).exit_code


@pytest.mark.slow
async def test_the_next_is_made_when_those_that_were_ready_are_dead(bubblewrap: BubblewrapBackend) -> None:
    spec = SandboxSpec(relaxed=frozenset({Limit.MEMORY, Limit.PIDS, Limit.CPUS, Limit.INODES}))
    bubblewrap.keep_ready(2)
    async with await bubblewrap.create(spec) as first:
        await asyncio.sleep(0.5)
        for pid in descendants(os.getpid()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended with the one before it
                if "turnwise_runner" in read(Path(f"/proc/{pid}/cmdline")):
                    os.kill(pid, signal.SIGKILL)
        async with await bubblewrap.create(spec) as second:
            assert (await second.exec("echo works")).ok
        assert first.id != second.id
