"""``turnwise cluster template``: a script that runs, and a manifest that KubeRay's schema accepts."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
pytestmark = pytest.mark.slow
SCHEMA = Path(__file__).parents[1] / "rollouts" / "kuberay_schema.json"
SRUN = 'while [[ "$1" == --* ]]; do shift; done; exec "$@"'
"""A ``srun`` that runs everything here."""


def rendered(run: Run, *words: str) -> str:
    ran = run("cluster", "template", *words)
    assert ran.code == 0, ran.err
    return str(ran.out)


class Slurm:
    """Slurm's commands, Ray's and ours, which note how they are called."""

    def __init__(self, folder: Path, turnwise: str = "exit 0") -> None:
        self.folder, self.log = folder, folder / "log"
        (folder / "bin").mkdir()
        for name, body in {
            "srun": SRUN,
            "scontrol": 'if [[ "$1" == show ]]; then printf "%s\\n" n1 n2 n3; fi',
            "hostname": "echo 10.0.0.1 fe80::1",
            "ray": "exec true",
            "sleep": "true",
            "turnwise": turnwise,
        }.items():
            path = folder / "bin" / name
            path.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.log}\n{body}\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def start(self, script: str) -> subprocess.Popen[bytes]:
        (self.folder / "job.sh").write_text(script)
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        env = {"PATH": path, "SLURM_JOB_ID": "70007", "SLURM_JOB_NODELIST": "n"}
        return subprocess.Popen(["bash", "job.sh"], cwd=self.folder, env=env)

    def calls(self, name: str, count: int = 0) -> list[str]:
        """The calls of a command, once there are ``count``: one in the background may still be starting."""
        for _ in range(600):
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            found = [line for line in lines if line.startswith(f"{name} ")]
            if len(found) >= count:
                break
            time.sleep(0.1)
        return found


def traps_term(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM."""
    mask = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(mask.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_the_slurm_script_starts_a_cluster_and_the_run(run: Run, tmp_path: Path) -> None:
    settings = ["rollouts.workers=40", "out=runs/my run", "rollouts.resources={CPU=1.0, browser=2.0}"]
    script = rendered(run, "slurm", "loop-maze", *settings, "--cpus", "16", "--gpus", "1", "--time", "2-00:00:00")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    for line in ("--nodes=3", "--cpus-per-task=16", "--gpus-per-node=1", "--time=2-00:00:00", "--mem=64G"):
        assert f"#SBATCH {line}\n" in script, "40 workers need three nodes of 16 processors"
    slurm = Slurm(tmp_path)
    assert slurm.start(script).wait(60) == 0

    heads = [call for call in slurm.calls("ray", count=3) if "--head" in call]
    joins = [call for call in slurm.calls("ray") if "--address=10.0.0.1:20007" in call]
    assert (len(heads), len(joins)) == (1, 2), "one head, and a node for each other host"
    assert "--node-ip-address=10.0.0.1 --port=20007" in heads[0]
    assert all('--resources={"browser": 32.0}' in call for call in heads + joins), "workers need the resource declared"
    check, train = slurm.calls("turnwise")
    assert check.startswith("turnwise cluster check --config loop-maze rollouts.workers=40 out=runs/my run")
    assert train.endswith("rollouts.engine=ray rollouts.address=10.0.0.1:20007 --out runs/my run")
    assert train.startswith("turnwise train loop --config loop-maze")


def test_the_slurm_script_resumes_a_run_and_waits_for_nodes(run: Run, tmp_path: Path) -> None:
    failing = 'if [[ "$2" == check ]]; then [[ $(grep -c ^turnwise.cluster.check log) -ge 3 ]]; fi'
    slurm = Slurm(tmp_path, turnwise=failing)
    (tmp_path / "runs" / "loop-maze").mkdir(parents=True)
    (tmp_path / "runs" / "loop-maze" / "config.json").write_text("{}")
    script = rendered(run, "slurm", "loop-maze")
    assert slurm.start(script).wait(60) == 0
    calls = slurm.calls("turnwise")
    assert len(calls) == 4, "the check is repeated until the nodes are there"
    assert calls[-1].endswith("--out runs/loop-maze --resume")


def test_the_slurm_script_gives_up_when_the_nodes_lack_something(run: Run, tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, turnwise='[[ "$2" != check ]]')
    assert slurm.start(rendered(run, "slurm", "loop-maze")).wait(60) == 1
    assert len(slurm.calls("turnwise")) == 6
    assert not [call for call in slurm.calls("turnwise") if "train" in call]


def test_before_the_time_limit_the_run_is_told_and_the_job_is_queued_again(run: Run, tmp_path: Path) -> None:
    saved = "trap 'echo turnwise saved >> log; exit 130' TERM"
    busy = f"if [[ $1 == train ]]; then {saved}; echo trains now >> log; while :; do :; done; fi"
    slurm = Slurm(tmp_path, turnwise=busy)
    process = slurm.start(rendered(run, "slurm", "loop-maze"))
    slurm.calls("trains", count=1)
    for _ in range(600):
        if traps_term(process.pid):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 0
    assert slurm.calls("turnwise")[-1] == "turnwise saved"
    assert slurm.calls("scontrol")[-1] == "scontrol requeue 70007"


@pytest.mark.parametrize("follows", [False, True])
def test_the_manifest_is_one_of_kuberay(run: Run, follows: bool) -> None:
    yaml = pytest.importorskip("yaml")
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("ray", reason="turnwise[ray] is not installed")
    number = "rollouts.workers_per_node=8" if follows else "rollouts.workers=64"
    resources = "rollouts.resources={CPU=2.0, GPU=0.0, memory=1e9, browser=1.0}"
    words = [number, resources, "--cpus", "16", "--memory", "48", "--image", "repo/turnwise:1"]
    text = rendered(run, "kuberay", "archer-maze-fo", *words, *(["--nodes", "5"] if follows else []))

    manifest = yaml.safe_load(text)
    jsonschema.validate(manifest, json.loads(SCHEMA.read_text()))
    (group,) = manifest["spec"]["workerGroupSpecs"]
    counts = [group[name] for name in ("minReplicas", "replicas", "maxReplicas")]
    assert counts == ([1, 5, 1000] if follows else [8, 8, 8]), "eight workers of two processors fit a node of 16"
    (container,) = group["template"]["spec"]["containers"]
    assert container["image"] == "repo/turnwise:1"
    assert container["resources"]["limits"] == {"cpu": "16", "memory": "48Gi"}
    assert json.loads(json.loads(group["rayStartParams"]["resources"])) == {"browser": 8.0}
    assert manifest["spec"]["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}, "no worker beside the driver"
    assert "turnwise train archer --config archer-maze-fo" in text
    manifest["spec"]["workerGroups"] = []
    with pytest.raises(jsonschema.ValidationError, match="workerGroups"):
        jsonschema.validate(manifest, json.loads(SCHEMA.read_text()))


def test_bad_input_is_one_line(run: Run) -> None:
    run("cluster", "template").refused("there is no template ''; choose from slurm, kuberay")
    run("cluster", "template", "pbs", "loop-maze").refused("there is no template 'pbs'")
    run("cluster", "template", "slurm").refused("name a configuration: turnwise cluster template slurm CONFIG")
    run("cluster", "template", "slurm", "loop-maze", "--time", "soon; rm -r x").refused("--time soon; rm -r x")
    run("cluster", "template", "slurm", "loop-maze", "rollouts.resources={GPU=1.0}").refused(
        "a node with 16 CPUs, 0 GPUs and 64 GiB has no room for a worker", "GPU"
    )
