"""``turnwise export-harbor``: write the tasks of a code environment in Harbor's task format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from ..envs.harbor.export import BASE, code_env, slug, unexportable, write_task
from ..envs.named import environment
from ..envs.registry import make
from ..errors import UsageError
from .completion import environment_ids
from .task_export import print_written, task_settings

IMAGE = re.compile(r"[a-zA-Z0-9][\w.:/@-]*", re.ASCII)


def export_harbor(
    env: Annotated[
        str,
        typer.Argument(
            help="A code environment's id, or a Python file that registers one.", autocompletion=environment_ids
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Arguments of the environment: env_kwargs.KEY=VALUE.", show_default=False
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write (default: harbor-ENV).")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of tasks.")] = 10,
    split: Annotated[str, typer.Option(help="Splits, separated by commas (default: the test splits).")] = "",
    level: Annotated[str, typer.Option(help="Levels, separated by commas (default: all).")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks.")] = 0,
    base: Annotated[str, typer.Option(help="Docker image with python3 and bash to build on.")] = BASE,
) -> None:
    """Write tasks of a code environment in the format of Harbor and Terminal-Bench 2, with oracle and hidden checks.

    They are the tasks that turnwise eval plays with the same options. Only the final files count, as in the
    environment. Play them with Harbor, or here with the id harbor:FOLDER.

    Examples:

        turnwise export-harbor turnwise/CodeRepair-v3 --out repairs -n 20

        turnwise export-harbor turnwise/CodeSynthesis-v1 --split train --level 1,2 -n 100 env_kwargs.partial=true
    """
    id = environment(env)
    given = {"env": id, "policy": "oracle", "n": n, "splits": split, "levels": level, "seed": seed}
    settings, folder = task_settings(given, words or ()), out or Path(f"harbor-{slug(id)}")
    if not IMAGE.fullmatch(base):
        raise UsageError(f"--base {base!r} is not the name of a Docker image; write it as in python:3.12-slim")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists; name another folder with --out, or remove it")
    made = make(id, **settings.env_kwargs)
    try:
        inner = code_env(made, id)
        sample = settings.sample(inner.tasks())
        tasks = [inner.tasks().generate(spec) for spec in sample.tasks]
        for task, spec in zip(tasks, sample.tasks, strict=True):
            if reason := unexportable(task):
                raise UsageError(f"{id} cannot be exported to Harbor: {reason} (level {spec.level}, seed {spec.seed})")
        arguments = json.dumps(settings.env_kwargs)
        for number, (task, spec) in enumerate(zip(tasks, sample.tasks, strict=True)):
            name = f"{number:05}-{spec.split}-level{spec.level}-{slug(spec.template)}"
            try:
                write_task(folder / name, task, spec, inner, environment=id, arguments=arguments, base=base)
            except OSError as error:
                raise UsageError(
                    f"cannot write to {folder}: {error.strerror}; name another folder with --out"
                ) from None
    finally:
        made.close()
    print_written(sample, folder)
