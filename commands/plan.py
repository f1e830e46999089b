"""``turnwise plan``: estimate a training run on GPUs before it starts, without a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ..config import means_none
from ..errors import UsageError
from ..inference.hardware import GPUS, Gpu
from ..inference.train_extra import train_extra
from ..trainers.options import algorithm_of, configured, located, named, overridden, settled
from ..trainers.planning.shapes import shape_of
from ..trainers.planning.trials import trial_lines
from .terminal import complain, remark, screen

if TYPE_CHECKING:
    from ..trainers.planning.calibration import Calibration
    from ..trainers.planning.estimate import Estimate

UNSURE = (
    "How sure: activations are within 6 % of the bytes that these layers save on a CPU. Updates of a 0.6B model on one "
    "H200, to which the speed of learning is fitted, took 0.95 to 1.24 times the estimated seconds, and 0.68 to 0.95 "
    "times the memory. The rest is arithmetic that no GPU has checked: expect seconds of play and transfer within a "
    "factor of 2."
)


def _argument(renamed: str | None) -> None:
    if renamed is not None:
        raise UsageError(f"the configuration is the argument of plan: turnwise plan {renamed}")


def plan(
    config: Annotated[
        str, typer.Argument(help="TOML file, name of a configuration in Turnwise, or a run's config.json.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. optimizer.recompute=false.")
    ] = None,
    gpu: Annotated[str, typer.Option(help=f"Kind and number of GPUs, as h100:8; one of {', '.join(GPUS)}.")] = "h100",
    tokens: Annotated[
        int | None,
        typer.Option(min=2, help="Tokens of an episode's row (default: 8,192, or as agent.context limits it)."),
    ] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Dollars per GPU and hour.")] = None,
    trial: Annotated[
        Path | None, typer.Option(help="Folder of scripts/gpu-trial: correct the estimates by its measurements.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Algorithm, if the file does not show it as `turnwise train ALGORITHM`.")
    ] = None,
    renamed: Annotated[str | None, typer.Option("--config", hidden=True, callback=_argument)] = None,
) -> None:
    """Estimate memory, speed and price of a training run on GPUs, and what to change if it does not fit.

    Nothing is loaded, and no GPU is needed: it is arithmetic over the configuration and the model's shape. Exit code 1
    means that the run does not fit.

    Examples:

        turnwise plan qwen3-0.6b-loop --gpu h100

        turnwise plan qwen3-8b-loop-8gpu --gpu h100:8 --price 2.5

        turnwise plan loop-qwen-0.5b model=models/qwen3-4b --gpu a100:1 --tokens 4096
    """
    profile, count = _gpus(gpu)
    path = located(config)
    word, words = algorithm or algorithm_of(path), settled(overrides or [])
    _refuse_early(word, words, trial)
    with train_extra("turnwise plan"):
        from ..trainers.planning.calibration import Calibration, calibration
        from ..trainers.planning.estimate import estimate
        from ..trainers.run.workload import too_large, workload

    own = {"device": "cpu"}  # of this machine, which need not have a GPU
    wanted = configured(word, path, words, own, presets={"hardware": {"profile": profile}})
    model = getattr(wanted, "model", None)
    if not isinstance(model, str) or not model:
        raise UsageError(f"{config} builds its model from scratch: a plan needs one of a known shape (model=FOLDER)")
    kind = GPUS[profile]
    load = workload(wanted, shape_of(model), kind, count, row_tokens=tokens, name=path.stem)
    _report_cut(tokens, load.policy.row_tokens)
    known = Calibration() if trial is None else calibration(trial, kind)
    found = estimate(load)
    _show(found, known, kind, price)
    if not found.memory.fits:
        complain(too_large(load, model))
        raise typer.Exit(1)


def _gpus(text: str) -> tuple[str, int]:
    """Read ``h100:8``.

    Raises:
        UsageError: there is no such GPU, or the number is not one.
    """
    name, _, number = text.lower().partition(":")
    if name not in GPUS:
        raise UsageError(f"no figures are known of GPU {name!r}; choose from {', '.join(GPUS)}")
    if not re.fullmatch(r"[1-9]\d{0,3}", number or "1"):
        raise UsageError(f"--gpu {text}: write the number of GPUs after a colon, as {name}:8")
    return name, int(number or "1")


def _refuse_early(algorithm: str, overrides: list[str], trial: Path | None) -> None:
    """Refuse what can be judged without torch, whose import may take half a minute.

    Raises:
        UsageError: there is no such algorithm, trial, or known shape of the model.
    """
    named(algorithm)
    if (model := overridden(overrides, "model")) is not None and not means_none(model):
        shape_of(model)
    if trial is not None:
        trial_lines(trial)


def _report_cut(wanted: int | None, planned: int) -> None:
    if wanted is not None and planned < wanted:
        text = f"--tokens {wanted} is more than the model's context: rows of {planned} are planned"
        remark().print(text, markup=False, highlight=False)


def _show(found: Estimate, known: Calibration, gpu: Gpu, price: float | None) -> None:
    """Print the estimate."""
    load, memory = found.load, found.memory
    gib, policy = 2**30, load.policy
    place = f"{load.gpus} x {gpu.title}"
    split = f" ({load.learners} learn, {load.sampling_gpus} sample)" if load.sampling_gpus else ""
    trained = "all weights" if policy.rank is None else f"adapters of rank {policy.rank}"
    out = screen()
    out.print(f"{load.name} on {place}{split}: {policy.shape.weights / 1e9:.2f} billion weights, training {trained}")
    out.print(f"{load.episodes} episodes a step, rows of {policy.row_tokens:,} tokens, passes of {policy.tokens:,}")
    table = Table("memory of each GPU that learns", "GiB", box=None, header_style="bold")
    worst = {f"{name} ({memory.worst})": size for name, size in memory.moments[memory.worst].items()}
    for name, size in (dict(memory.always) | worst).items():
        table.add_row(name, f"{size / gib:.1f}")
    verdict = "fits" if memory.fits else "does not fit"
    table.add_row("peak, with slack", f"{memory.peak / gib:.1f} of {memory.room / gib:.1f}: {verdict}")
    out.print(table)
    out.print(f"the machine's own memory, for a checkpoint: {memory.host / gib:.0f} GiB")
    seconds = known.applied(found.seconds)
    times = Table("seconds of a step", *seconds, "all", box=None, header_style="bold")
    times.add_row("", *(f"{each:.0f}" for each in seconds.values()), f"{sum(seconds.values()):.0f}")
    out.print(times)
    learned = found.learned_per_second / known.seconds
    out.print(f"tokens per second: {learned:,.0f} learned, {found.sampled_per_second:,.0f} sampled")
    if price is not None:
        step = sum(seconds.values()) / 3600 * load.gpus * price
        out.print(f"dollars: {step:.2f} a step, {step * load.steps:,.0f} for {load.steps} steps")
    remark().print(_sureness(known), markup=False)


def _sureness(known: Calibration) -> str:
    if not known.updates:
        return UNSURE
    return (
        f"How sure: {known.updates} measured updates in {known.source} correct the seconds of learning (x "
        f"{known.seconds:.2f} in the mean; the worst took {known.worst:.2f} times the estimate). Their "
        f"memory was {known.memory:.2f} times the estimate, which stays as it is. Play and "
        "sync are predictions, within a factor of 2."
    )
