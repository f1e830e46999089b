"""``turnwise cluster``: check the nodes of a Ray cluster, and render templates that start one."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..envs.named import environment
from ..errors import UsageError
from ..rollouts.cluster.templates import Job, Machine, kuberay, nodes_for, slurm
from ..rollouts.engine import require_ray
from ..trainers.options import algorithm_of, configured, located, settled
from .terminal import complain, remark, screen

if TYPE_CHECKING:
    from ..rollouts.cluster.check import NodeReport, Wanted
    from ..trainers.run.settings import TrainConfig

ACTIONS = ("check", "template")
KINDS = ("slurm", "kuberay")
SANDBOXES = "bubblewrap", "docker", "podman"
COLUMNS = "node", "Python", "Turnwise", "CPU", "GPU", "GiB free", "disk", *SANDBOXES, "Chromium", "vLLM"

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[slurm|kuberay CONFIG] [KEY=VALUE]...",
        help="template: kind and configuration; then settings, e.g. rollouts.workers=8.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="check: head of the cluster as host:port, auto or local (default: the configuration's, or auto)."
    ),
]


def cluster(
    action: Annotated[str, typer.Argument(metavar="check|template", help="Action to take.")],
    words: Words = None,
    config: Annotated[
        str | None,
        typer.Option(help="TOML file, name of a configuration in Turnwise, or a run's config.json."),
    ] = None,
    address: Address = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Algorithm, if the file does not show it as `turnwise train ALGORITHM`.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="template: number of nodes (default: as many as the workers need).")
    ] = None,
    cpus: Annotated[int, typer.Option(min=1, help="template: processors of a node.")] = 16,
    gpus: Annotated[int, typer.Option(min=0, help="template: GPUs of a node.")] = 0,
    memory: Annotated[int, typer.Option(min=1, help="template: GiB of memory of a node.")] = 64,
    limit: Annotated[str, typer.Option("--time", help="template slurm: time limit of the job.")] = "08:00:00",
    image: Annotated[str, typer.Option(help="template kuberay: image with Turnwise and Ray.")] = "turnwise:latest",
    as_json: Annotated[bool, typer.Option("--json", help="check: print JSON.")] = False,
) -> None:
    """Check what each node of a Ray cluster can do (check), or render a script that starts one for a run (template).

    With --config, check lets each node that has room for a worker start one episode of the configuration's
    environment. The exit code is 1 if a node lacks what the configuration needs.

    Examples:

        turnwise cluster check

        turnwise cluster check --address 10.0.0.1:6379 --config loop-maze rollouts.workers=64

        turnwise cluster template slurm loop-maze rollouts.workers=64 --cpus 32 > job.sh

        turnwise cluster template kuberay loop-maze rollouts.workers=64 --cpus 32 > cluster.yaml
    """
    if action not in ACTIONS:
        raise UsageError(f"unknown action: turnwise cluster {action}; choose from {', '.join(ACTIONS)}")
    overrides = list(words or [])
    if action == "template":
        kind = overrides.pop(0) if overrides else ""
        if kind not in KINDS:
            raise UsageError(f"there is no template {kind!r}; choose from {', '.join(KINDS)}")
        config = config or (overrides.pop(0) if overrides else None)
        if config is None:
            raise UsageError(f"name a configuration: turnwise cluster template {kind} CONFIG")
        machine = Machine(cpus, gpus, memory)
        typer.echo(template(kind, _job(config, algorithm, overrides), machine, nodes, limit, image), nl=False)
        return
    if overrides and config is None:
        raise UsageError(f"{overrides[0]} sets something of a configuration: name one with --config")
    run = _config(config, algorithm, overrides) if config is not None else None
    require_ray("turnwise cluster check")
    check(run, config or "", address, as_json)


def template(kind: str, job: Job, machine: Machine, nodes: int | None, limit: str, image: str) -> str:
    """Return a script for Slurm or a manifest for KubeRay.

    Args:
        kind: one of ``KINDS``.
        job: the run.
        machine: resources of one node.
        nodes: number of nodes; ``None`` for as many as the workers need.
        limit: time limit, for Slurm.
        image: image, for KubeRay.

    Raises:
        UsageError: a node has no room for a worker, or the time limit is not one.
    """
    count = nodes or nodes_for(job, machine)
    if kind == "slurm":
        if not re.fullmatch(r"(\d+-)?\d+(:\d\d){0,2}", limit):
            raise UsageError(f"--time {limit}: write it as Slurm does, as 08:00:00 or 2-12:00:00")
        text = slurm(job, machine, count, limit)
    else:
        require_ray("turnwise cluster template kuberay")
        text = kuberay(job, machine, count, image, version("ray"))
    size = f"--nodes {nodes}" if nodes else job.sized_by
    remark().print(f"{count} {'node' if count == 1 else 'nodes'}: {size}", markup=False, highlight=False)
    return text


def check(run: TrainConfig | None, name: str, address: str | None, as_json: bool) -> None:
    """Print a line for each node; exit with code 1 if one lacks what the run needs.

    Args:
        run: configuration of the run, if there is one.
        name: its name, for messages.
        address: address of the cluster, in place of the configuration's.
        as_json: whether to print JSON.
    """
    from ..rollouts.cluster.check import check_nodes, missing

    wanted = _wanted(run, address)
    reports = asyncio.run(check_nodes(wanted))
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        screen().print(nodes(reports, run.env if run is not None else None))
    if said := missing(reports, wanted.rollouts, name):
        complain(said)
        raise typer.Exit(1)


def nodes(reports: list[NodeReport], env: str | None) -> Table:
    """Return the table of nodes.

    Args:
        reports: the nodes.
        env: id of the environment that was tried, if any.
    """
    table = Table(box=None, header_style="bold")
    for name in (*COLUMNS, *([env] if env else [])):
        table.add_column(name)
    for report in reports:
        look, gpus = report.look, " ".join(filter(None, (str(report.count("GPU")), report.accelerators)))
        start = [report.address + (" (head)" if report.head else "")]
        tried = [_tried(report)] if env else []
        if look is None:
            unknown = ["?"] * 2 + [str(report.count("CPU")), gpus] + ["?"] * 7
            table.add_row(*start, *unknown, *tried)
            continue
        works = ["no" if look.lacks[name] else "yes" for name in (*SANDBOXES, "Chromium")]
        free, total = (size / 2**30 for size in look.memory)
        sizes = [f"{free:.1f} of {total:.1f}", f"{look.disk / 2**30:.0f} GiB"]
        versions = [look.versions["Python"], look.versions["Turnwise"], str(report.count("CPU")), gpus]
        table.add_row(*start, *versions, *sizes, *works, look.vllm or "no", *tried)
    return table


def _tried(report: NodeReport) -> Text:
    if report.lacks:
        return Text("no", "red")
    return Text(f"starts, {report.workers} workers" if report.workers else "no room", "green" if report.workers else "")


def _config(name: str, algorithm: str | None, overrides: list[str]) -> TrainConfig:
    path = located(name)
    return configured(algorithm or algorithm_of(path), path, settled(overrides), {"device": "cpu"})


def _job(name: str, algorithm: str | None, overrides: list[str]) -> Job:
    word = algorithm or algorithm_of(located(name))
    run = _config(name, word, overrides)
    return Job(word, name, run.out, tuple(settled(overrides)), run.rollouts)


def _wanted(run: TrainConfig | None, address: str | None) -> Wanted:
    from ..rollouts.cluster.check import Wanted
    from ..rollouts.options import RolloutsConfig

    if run is None:
        return Wanted(RolloutsConfig(engine="ray", address=address or "auto", workers=1))
    from ..trainers.collect.sampler import family_and_tools

    env, episodes = environment(run.env), run.episodes
    family, _ = family_and_tools(env, episodes.env_kwargs)
    task = family.spec(0, level=run.levels[0] if run.levels else None, split=run.split)
    rollouts = run.rollouts if address is None else run.rollouts.model_copy(update={"address": address})
    return Wanted(rollouts, env, episodes.isolation, episodes.env_kwargs, task, episodes.env_timeout)
