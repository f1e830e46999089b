"""``turnwise export-nemo``: write tasks of a served environment as a dataset of NeMo Gym."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..envs.base import TurnEnv
from ..envs.named import environment
from ..envs.registry import make
from ..envs.remote.address import is_remote, remote_id
from ..envs.remote.description import describe
from ..envs.remote.frames import tools_to_json
from ..errors import UsageError
from ..service.environments import nemo, ors
from ..service.environments.catalog import served_digest
from ..tasks.spec import TaskSpec
from .completion import environment_ids
from .nemo_project import TOKEN, write_project
from .new_file import new_file
from .task_export import print_written, task_settings
from .terminal import remark


class Agent(StrEnum):
    """Agent of NeMo Gym."""

    SIMPLE = "simple_agent"
    """Acts by tools; a text without a call ends its episode."""
    GYMNASIUM = "gymnasium_agent"
    """Acts by texts and tools."""


def export_nemo(
    env: Annotated[
        str,
        typer.Argument(
            help="Environment's id, also that of a server, or a Python file that registers one.",
            autocompletion=environment_ids,
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Arguments of the environment: env_kwargs.KEY=VALUE.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("nemo.jsonl"),
    n: Annotated[int, typer.Option("-n", min=1, help="Number of tasks.")] = 100,
    split: Annotated[str, typer.Option(help="Splits, separated by commas.")] = "train",
    level: Annotated[str, typer.Option(help="Levels, separated by commas (default: all).")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks.")] = 0,
    agent: Annotated[
        Agent, typer.Option(help="Agent that plays; simple_agent gets a tool for its texts.")
    ] = Agent.SIMPLE,
    project: Annotated[
        Path | None,
        typer.Option(help="Also write the configuration and the stub that Gym's commands start to this folder."),
    ] = None,
) -> None:
    """Write tasks as JSON lines, which NeMo Gym's agents play on an environment that turnwise serve serves.

    Each line has the first observation, the tools, and the task for the server. The tasks are those that turnwise eval
    plays with the same options.

    Examples:

        turnwise export-nemo turnwise/Apps-v2 --out train.jsonl -n 1000

        turnwise export-nemo turnwise://gpu-7:8791/turnwise/Maze-v0 --agent gymnasium_agent --split dev

        turnwise export-nemo turnwise://gpu-7:8791/turnwise/Apps-v2 --project my-gym
    """
    id = environment(env)
    if project is not None and not is_remote(id):
        raise UsageError("a project names the server: write the environment as turnwise://host:port/ID")
    options = {"env": id, "policy": "random", "n": n, "splits": split, "levels": level, "seed": seed}
    settings = task_settings(options, words or ())
    made = make(id, **settings.env_kwargs)
    stub: list[Path] = []
    try:
        served, digest = _served(id, made, settings.env_kwargs)
        sample = settings.sample(made.get_wrapper_attr("tasks")())
        with new_file(out) as partial, partial.open("x", encoding="utf-8") as file:
            for task in sample.tasks:
                file.write(json.dumps(_row(made, served, digest, task, agent)) + "\n")
            if project is not None:
                stub = write_project(project, remote_id(id)[0], agent, made.get_wrapper_attr("max_turns"))
    finally:
        made.close()
    print_written(sample, out)
    if project is not None:
        _print_project(stub, needs_token=bool(remote_id(id)[0].token))


def _print_project(files: list[Path], *, needs_token: bool) -> None:
    for path in files:
        typer.echo(path)
    if needs_token:
        hint = f"Gym's commands need the token of that server, without its host: export {TOKEN}=TOKEN"
        remark().print(hint, markup=False)


def _served(id: str, env: TurnEnv, env_kwargs: dict[str, Any]) -> tuple[str, str]:
    """Return the id and the digest by which a server knows the environment."""
    if is_remote(id):
        return remote_id(id)[1], env.get_wrapper_attr("remote_digest")
    return id, served_digest(id, env_kwargs, describe(env))


def _row(env: TurnEnv, id: str, digest: str, task: TaskSpec, agent: Agent) -> dict[str, object]:
    observation, _ = env.reset(options={"task": task})
    tools = tools_to_json(env.get_wrapper_attr("tools"))
    offered = [{key: tool[key] for key in ("name", "description", "parameters")} for tool in tools]
    if agent is Agent.SIMPLE:
        say = ors.tools_of(tools)["tools"][-1]
        offered.append({"name": say["name"], "description": say["description"], "parameters": say["input_schema"]})
    return nemo.row_of(id, digest, task, observation, offered)
