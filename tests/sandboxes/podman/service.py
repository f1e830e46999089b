"""A Podman service for tests, with storage of its own, of which nothing stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from turnwise.sandboxes.podman.engine import WHERE

INSTALL = "apt-get install podman runc"


@contextmanager
def podman_service() -> Iterator[str]:
    """Yield the address of a service: that of ``CONTAINER_HOST``, or of one that is started and stopped here.

    Without Podman the test is skipped, and says what to install.
    """
    if named := os.environ.get(WHERE):
        yield named
        return
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip(
            f"NOT TESTED on Podman; install it ({INSTALL}) and run this as root, or set {WHERE} to a service that runs"
        )
    folder = Path(tempfile.mkdtemp(prefix="turnwise-podman-"))  # short, since a socket's name is
    store = ["--root", str(folder / "root"), "--runroot", str(folder / "run"), "--cgroup-manager", "cgroupfs"]
    runtime = shutil.which("runc")  # crun refuses machines with both versions of control groups
    store += ["--runtime", runtime] if runtime else []
    address, log = f"unix://{folder}/podman.sock", folder / "log"
    command = ["podman", *store, "system", "service", "--time=0", address]
    proxy = {"HTTP_PROXY": "http://me:it@host"}  # must not get into sandboxes
    with log.open("wb") as said:  # conmon leaves a file in the folder that the service was started in
        service = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **proxy}, cwd=folder)
    try:
        for _ in range(600):
            if (folder / "podman.sock").is_socket() or service.poll() is not None:
                break
            time.sleep(0.1)
        if not (folder / "podman.sock").is_socket():
            pytest.skip(f"NOT TESTED on Podman, whose service does not start here: {log.read_text()[-500:]}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(WHERE, address)  # for processes that the tests start
            yield address
    finally:
        service.terminate()
        service.wait()
        subprocess.run(["podman", *store, "rm", "--all", "--force"], capture_output=True, check=False)
        for mount in reversed(mounts_below(folder)):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def mounts_below(folder: Path) -> list[str]:
    """Return the mounts in a folder, those further up first."""
    found = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [each for each in found if each.startswith(f"{folder}/")]
