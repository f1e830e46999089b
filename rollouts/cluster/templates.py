"""Templates that start a Ray cluster and a run on it: a script for Slurm, a manifest for KubeRay."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ..options import RolloutsConfig
from .room import room_of

HEAD_CPUS, GIB = 4, 2**30
MOST_NODES = 1000
"""Limit of the number of pods, where the run follows their number."""
AUTHENTICATED = (2, 52)
"""First version of Ray that can protect a cluster by a token."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the cluster.

    Args:
        cpus: number of processors.
        gpus: number of GPUs.
        memory: GiB of memory.
    """

    cpus: int
    gpus: int
    memory: int


@dataclass(frozen=True, slots=True)
class Job:
    """A run to start on a cluster.

    Args:
        algorithm: word after ``turnwise train``.
        config: name or path of its configuration.
        out: folder of the run.
        overrides: ``key=value`` words.
        rollouts: settings of the rollouts.
    """

    algorithm: str
    config: str
    out: str
    overrides: Sequence[str]
    rollouts: RolloutsConfig

    @property
    def name(self) -> str:
        """Name for Slurm and Kubernetes: lower-case letters, digits and hyphens, at most 40 characters."""
        stem = self.config.rpartition("/")[2].partition(".toml")[0].lower()
        return re.sub(r"[^a-z0-9]+", "-", f"turnwise-{stem}")[:40].strip("-")

    @property
    def sized_by(self) -> str:
        """Reason for the number of nodes."""
        if self.rollouts.workers_per_node is not None:
            return "with rollouts.workers_per_node the run follows their number; begin with more by --nodes"
        return f"rollouts.workers = {self.rollouts.workers}"

    def words(self, address: str) -> str:
        """Return the words of ``turnwise train`` after the algorithm, for a shell.

        Args:
            address: address of the cluster, quoted for a shell.
        """
        quoted = " ".join(map(shlex.quote, (*self.overrides, "rollouts.engine=ray")))
        return f"--config {shlex.quote(self.config)} {quoted} rollouts.address={address}"


def workers_on(job: Job, machine: Machine) -> int:
    """Return the number of workers that a node has room for.

    Raises:
        UsageError: it has room for none.
    """
    rollouts = job.rollouts
    has = {"CPU": float(machine.cpus), "GPU": float(machine.gpus), "memory": float(machine.memory * GIB)}
    needs = {name: amount for name, amount in rollouts.resources.items() if name in has}
    room = room_of(has, needs, rollouts.workers_per_node or rollouts.workers)
    if not room:
        raise UsageError(
            f"a node with {machine.cpus} CPUs, {machine.gpus} GPUs and {machine.memory} GiB has no room for a worker, "
            f"which needs {dict(rollouts.resources)} (rollouts.resources)"
        )
    return room


def nodes_for(job: Job, machine: Machine) -> int:
    """Return the number of nodes that the workers of a run need, 1 if their number follows that of the nodes."""
    room = workers_on(job, machine)
    return 1 if job.rollouts.workers_per_node is not None else math.ceil(job.rollouts.workers / room)


def slurm(job: Job, machine: Machine, nodes: int, limit: str) -> str:
    """Return a script for ``sbatch``: a Ray cluster on all nodes of the job, and the run on the first.

    Args:
        job: the run.
        machine: resources of one node.
        nodes: number of nodes.
        limit: time limit of the job, as Slurm writes it.
    """
    custom = _custom(job, machine)
    declared = f" --resources={shlex.quote(json.dumps(custom))}" if custom else ""
    gpus = f"#SBATCH --gpus-per-node={machine.gpus}\n" if machine.gpus else ""
    start = f"ray start --num-cpus={machine.cpus} --num-gpus={machine.gpus}{declared} --block"
    out, words = shlex.quote(job.out), job.words('"$address"')
    return f"""#!/bin/bash
#SBATCH --job-name={job.name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={machine.cpus}
#SBATCH --mem={machine.memory}G
{gpus}#SBATCH --time={limit}
#SBATCH --signal=B:TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
# A Ray cluster on the nodes of this job, and one run on it. The folder of the run must be on a shared file system.
set -euo pipefail
export RAY_USAGE_STATS_ENABLED=0
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
one=(srun --overlap --nodes=1 --ntasks=1)
head=(--nodelist="${{hosts[0]}}")
ip=$("${{one[@]}}" "${{head[@]}}" hostname --ip-address | awk '{{ print $1 }}')
port=$((20000 + SLURM_JOB_ID % 10000)) # another job may share the node
address="$ip:$port"

"${{one[@]}}" "${{head[@]}}" {start} --head --node-ip-address="$ip" --port="$port" &
sleep 15
for host in "${{hosts[@]:1}}"; do
    "${{one[@]}}" --nodelist="$host" {start} --address="$address" &
done

for attempt in 1 2 3 4 5 6; do # nodes join one after another
    "${{one[@]}}" "${{head[@]}}" turnwise cluster check {words} && break
    [[ $attempt -lt 6 ]] || exit 1
    sleep 20
done

resume=()
[[ -f {out}/config.json ]] && resume=(--resume)
"${{one[@]}}" "${{head[@]}}" turnwise train {job.algorithm} {words} --out {out} "${{resume[@]}}" &
run=$!
# Slurm sends SIGTERM before the time limit: the run writes a checkpoint, and the job goes to the queue again.
trap 'kill -TERM "$run"; wait "$run" || true; scontrol requeue "$SLURM_JOB_ID"; exit 0' TERM
wait "$run"
"""


def kuberay(job: Job, machine: Machine, nodes: int, image: str, ray: str) -> str:
    """Return the manifest of a KubeRay ``RayCluster``, in JSON, which is YAML; the run starts in the head's pod.

    Args:
        job: the run.
        machine: resources of the pod of one node.
        nodes: number of pods besides the head's.
        image: image with Turnwise and Ray.
        ray: version of Ray in the image.
    """
    custom = _custom(job, machine)
    declared = {"resources": json.dumps(json.dumps(custom))} if custom else {}
    follows = job.rollouts.workers_per_node is not None
    major, minor = (int(number) for number in ray.split(".")[:2])
    spec: dict[str, Any] = {
        "rayVersion": ray,
        **({"authOptions": {"mode": "token"}} if (major, minor) >= AUTHENTICATED else {}),
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0"},
            "template": _pod("ray-head", image, Machine(HEAD_CPUS, 0, 16)),
        },
        "workerGroupSpecs": [
            {
                "groupName": "rollouts",
                "replicas": nodes,
                "minReplicas": 1 if follows else nodes,
                "maxReplicas": max(nodes, MOST_NODES) if follows else nodes,
                "rayStartParams": declared,
                "template": _pod("ray-worker", image, machine),
            }
        ],
    }
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": job.name, "labels": {"app.kubernetes.io/part-of": "turnwise"}},
        "spec": spec,
    }
    pods = f"ray.io/cluster={job.name},ray.io/node-type=head"
    return f"""# kubectl apply -f THIS_FILE
# head=$(kubectl get pod -l {pods} -o name)
# kubectl exec "$head" -- turnwise cluster check {job.words("auto")}
# kubectl exec "$head" -- turnwise train {job.algorithm} {job.words("auto")} --out {shlex.quote(job.out)}
{json.dumps(manifest, indent=2)}
"""


def _pod(name: str, image: str, machine: Machine) -> Mapping[str, Any]:
    has: dict[str, str] = {"cpu": str(machine.cpus), "memory": f"{machine.memory}Gi"}
    if machine.gpus:
        has["nvidia.com/gpu"] = str(machine.gpus)
    container = {
        "name": name,
        "image": image,
        "env": [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}],
        "resources": {"requests": has, "limits": has},
        "volumeMounts": [{"name": "ray-logs", "mountPath": "/tmp/ray"}],
    }
    return {"spec": {"containers": [container], "volumes": [{"name": "ray-logs", "emptyDir": {}}]}}


def _custom(job: Job, machine: Machine) -> dict[str, float]:
    """Return the resources of the cluster's own names that a node must declare for its workers."""
    room = workers_on(job, machine)
    known = ("CPU", "GPU", "memory")
    return {name: amount * room for name, amount in job.rollouts.resources.items() if name not in known and amount}
