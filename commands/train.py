"""``turnwise train``: run a training script on a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..envs.named import environment
from ..trainers.options import arguments, configured, described, named, named_environment, refuse_untrained_start
from ..trainers.registry import ALGORITHMS
from .completion import environment_ids
from .terminal import remark, resumable


def _algorithms(incomplete: str) -> list[tuple[str, str]]:
    return [(word, entry.summary) for word, entry in ALGORITHMS.items() if word.startswith(incomplete)]


Word = Annotated[
    str,
    typer.Argument(
        help=f"Algorithm: {', '.join(ALGORITHMS)}; or module:Class, one of yours.",
        show_default=False,
        autocompletion=_algorithms,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ENV] [KEY=VALUE]...",
        help="Environment id, or a Python file that registers one; then settings, e.g. steps=50.",
        show_default=False,
        autocompletion=environment_ids,
    ),
]


def train(
    algorithm: Word,
    overrides: Overrides = None,
    config: Annotated[
        str | None,
        typer.Option(help="TOML file of settings, name of a configuration in Turnwise, or a run's config.json."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder of the run (default: 'out' in --settings).")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in the output folder from its newest complete checkpoint.")
    ] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List every setting and exit.")] = False,
) -> None:
    """Train a model on an environment; metrics, checkpoints and the model go to the output folder.

    After Ctrl-C, --resume continues the run and ends with the same parameters, bit for bit.

    Examples:

        turnwise train bc --config bc-maze

        turnwise train loop --config loop-maze steps=50 optimizer.lr=1e-4 --out runs/first

        turnwise train loop --out runs/first --resume

        turnwise train loop --config runs/first/config.json seed=1 --out runs/second
    """
    chosen = named(algorithm)
    given = overrides or []
    file, words = arguments(given, config_type=lambda: chosen.load()[0], config=config, out=out, resume=resume)
    if (wanted_env := named_environment(file, words)) is not None:
        environment(wanted_env)  # before torch is imported, which takes seconds
    config_type, run = chosen.load()
    if settings:
        typer.echo("\n".join(described(config_type, chosen.presets)))
        return
    wanted = configured(algorithm, file, words)
    refuse_untrained_start(wanted)
    wanted = wanted.model_copy(update={"env": environment(wanted.env)})
    from ..trainers.run.interrupts import at_once

    again = f"turnwise: stopped at once. To resume from the newest checkpoint in {wanted.out}, add --resume."
    hint = f"The run in {wanted.out} is complete up to here: add --resume to the same command to resume it."
    with resumable(hint), at_once(again):
        result = run(wanted)
    if result.note:
        remark().print(result.note, markup=False)
    trained = f"trained {result.steps} step{'s' * (result.steps != 1)}"
    remark().print("; ".join(filter(None, (trained, result.success))), markup=False)
    typer.echo(result.model)
