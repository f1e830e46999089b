"""Harbor itself plays exported tasks with its own agents.

It is tested where HARBOR_PYTHON names a Python 3.12 or newer that has it, on an engine without a network:

    python3.12 -m venv h && h/bin/pip install harbor==0.26.0 podman-compose==1.6.0
    HARBOR_PYTHON=h/bin/python scripts/with-docker pytest --shift all tests/envs/harbor/test_real_harbor.py

Harbor's Docker backend needs Compose 2, and images from a registry to cut a container off from the network. So its
Podman backend runs here, on ``PODMAN``, which passes everything on to docker, and the copies ask for a network.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from .test_export import REPAIR, SHELL, exported

PODMAN = """\
#!/bin/sh
case "$1 $2" in
    "--version "*) echo podman version 4.0.0; exit ;;
    "volume ls" | "network ls" | "network exists") exit ;;
    "ps "*) [ "$*" = "${*%json}" ] || { echo "[]"; exit; } ;;
    "exec "* | "create "*)
        for word; do
            shift
            case "$word" in
                --tty) continue ;;
                --network=*) word=--network=none ;;
            esac
            set -- "$@" "$word"
        done ;;
esac
exec docker "$@"
"""


def played(folder: Path, agent: str, out: Path) -> float:
    """Let an agent of Harbor's play a task, and return the reward that Harbor reports."""
    python = Path(os.environ["HARBOR_PYTHON"]).absolute()
    programs = out / "bin"
    programs.mkdir(parents=True)
    (programs / "podman").write_text(PODMAN)
    (programs / "podman").chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{python.parent}:{os.environ['PATH']}", "HOME": str(out)}
    env.pop("PYTHONPATH", None)
    words: list[str | Path] = [
        "run",
        "-p",
        folder,
        "-a",
        agent,
        "-e",
        "podman",
        "-o",
        out / "jobs",
        "--job-name",
        "job",
        "-y",
        "-q",
    ]
    command = [python.with_name("harbor"), *words]
    ran = subprocess.run(command, env=env, cwd=out, capture_output=True, text=True, timeout=400, check=False)
    (result,) = (out / "jobs" / "job").glob("*/result.json")
    told = json.loads(result.read_text())
    assert told["exception_info"] is None, (ran.stdout + ran.stderr)[-3000:]
    return float(told["verifier_result"]["rewards"]["reward"])


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.skipif("HARBOR_PYTHON" not in os.environ, reason="NOT TESTED with Harbor itself; see above")
@pytest.mark.parametrize("id", [REPAIR, SHELL])
def test_harbors_own_agents_get_what_the_environment_gives(id: str, engine: None, tmp_path: Path) -> None:
    folder, _ = exported(tmp_path / "task", id)
    settings = folder / "task.toml"
    settings.write_text(settings.read_text().replace('"no-network"', '"public"'))
    assert played(folder, "oracle", tmp_path / "oracle") == 1
    assert played(folder, "nop", tmp_path / "nop") == 0
