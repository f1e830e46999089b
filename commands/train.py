"""``turnwise train``: run a training script on a configuration."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import load_config
from ..errors import ConfigError
from .names import environment
from .terminal import remark, resumable

if TYPE_CHECKING:
    from ..trainers.runs.setup import RunResult, TrainConfig

SHIPPED = Path(__file__).resolve().parent.parent / "configs"


class Algorithm(StrEnum):
    """What can be trained with."""

    LOOP = "loop"
    """Leave-one-out PPO (arXiv 2502.01600): ``trainers/loop.py``."""
    BC = "bc"
    """Behaviour cloning of demonstrations, all or the best: ``trainers/behaviour_cloning.py``."""


def train(
    algorithm: Annotated[Algorithm, typer.Argument(help="loop: leave-one-out PPO; bc: behaviour cloning.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. steps=50.", show_default=False)
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="A TOML file of settings, or the name of one that comes with Turnwise.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List every setting, and train nothing.")] = False,
) -> None:
    """Train a model on an environment: metrics, checkpoints and the model land in the run's folder.

    Ctrl-C stops at a state from which --resume goes on to the same parameters, bit for bit.

    Examples:

        turnwise train bc --config bc-maze

        turnwise train loop --config loop-maze steps=50 optimizer.lr=1e-4 --out runs/first

        turnwise train loop --config loop-maze --out runs/first --resume
    """
    config_type, run = trainer(algorithm)
    if settings:
        from ..trainers.runs.script import describe

        typer.echo("\n".join(describe(config_type)))
        return
    words = list(overrides or [])
    words += [f"out={out}"] if out else []
    words += ["resume=true"] if resume else []
    chosen = load_config(config_type, located(config) if config else None, words)
    chosen = chosen.model_copy(update={"env": environment(chosen.env)})
    with resumable(f"The run in {chosen.out} is whole: the same command with --resume goes on."):
        result = run(chosen)
    if result.note:
        remark().print(result.note, markup=False)
    remark().print(f"trained {result.steps} steps", markup=False)
    typer.echo(result.model)


def trainer(algorithm: Algorithm) -> tuple[type[TrainConfig], Callable[[Any], RunResult]]:
    """The configuration and the function of an algorithm; imports torch."""
    if algorithm is Algorithm.LOOP:
        from ..trainers import loop

        return loop.LoopConfig, loop.train
    from ..trainers import behaviour_cloning

    return behaviour_cloning.CloningConfig, behaviour_cloning.train


def located(name: str) -> Path:
    """A configuration file by its path, or by the name of one that is shipped.

    Raises:
        ConfigError: there is neither; the message lists what is shipped.
    """
    path, shipped = Path(name), SHIPPED / f"{name.removesuffix('.toml')}.toml"
    if path.is_file() or (path.suffix == ".toml" and not shipped.is_file()):
        return path
    if shipped.is_file():
        return shipped
    known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml"))) or "none"
    raise ConfigError(f"there is no configuration {name!r}: name a TOML file, or one that comes with Turnwise: {known}")
