"""``turnwise pretrain``: pre-train a small base model on generated text, or probe what a model can read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import load_config
from ..config_help import describe
from ..errors import UsageError
from ..inference.train_extra import train_extra
from ..trainers.options import PRETRAIN, arguments, refuse_other_run
from .terminal import remark, resumable, screen

Settings = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. steps=200.", show_default=False)
]


def pretrain(
    settings: Settings = None,
    config: Annotated[
        str | None,
        typer.Option(help="TOML file of settings, name of a configuration in Turnwise, or a run's config.json."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder of the run.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in --out from its newest complete checkpoint.")
    ] = False,
    list_settings: Annotated[bool, typer.Option("--settings", help="List every setting and exit.")] = False,
    probe: Annotated[
        Path | None, typer.Option(help="Probe the model in this folder instead: exact scores on held-out exercises.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of exercises of each skill, with --probe.")] = 200,
) -> None:
    """Pre-train a small language model on pages, transcripts and exercises that Turnwise writes itself.

    The model and its tokenizer become a Hugging Face folder that every trainer takes as its model. After Ctrl-C,
    --resume continues the run and ends with the same parameters, bit for bit.

    Examples:

        turnwise pretrain --config pretrain-2m

        turnwise pretrain --out runs/pretrain-2m --resume

        turnwise pretrain --probe runs/pretrain-2m/model
    """
    with train_extra("pre-training"):
        from ..trainers.pretrain import pretrain as run
        from ..trainers.pretraining.settings import PretrainConfig
        from ..trainers.run.interrupts import at_once

    words = settings or []
    if list_settings:
        typer.echo("\n".join(describe(PretrainConfig)))
        return
    if probe is not None:
        if words or config or out or resume:
            raise UsageError("--probe takes a model's folder and -n; leave out settings, --config, --out and --resume")
        _print_scores(_probed(probe, n))
        return
    if wrong := [word for word in words if "=" not in word]:
        raise UsageError(f"pre-training takes settings such as steps=200, but no environment; got {wrong[0]!r}")
    file, overrides = arguments(words, config_type=lambda: PretrainConfig, config=config, out=out, resume=resume)
    if file is not None and file.suffix == ".json":
        refuse_other_run(PRETRAIN, file, accepted=(PRETRAIN,))
    wanted = load_config(PretrainConfig, file, overrides)
    again = f"turnwise: stopped at once. To resume from the newest checkpoint in {wanted.out}, add --resume."
    hint = f"The run in {wanted.out} is complete up to here: add --resume to the same command to resume it."
    with resumable(hint), at_once(again):
        result = run(wanted)
    remark().print(f"trained {result.steps} steps; {result.note}", markup=False)
    typer.echo(result.model)


def _probed(folder: Path, count: int) -> dict[str, Any]:
    """Return the scores of a model by skill."""
    from ..inference.models import load_model, resolve_device
    from ..inference.transformers_policy import TransformersPolicy
    from ..trainers.pretraining.probes import probe_policy, probe_scores, probe_suite

    model, tokenizer = load_model(folder, device=resolve_device("auto"))
    exercises = probe_suite(count)
    answers = probe_policy(TransformersPolicy(model, tokenizer), tokenizer, exercises)
    return dict(probe_scores(exercises, answers))


def _print_scores(scores: dict[str, Any]) -> None:
    from rich.table import Table

    from ..evals.formatting import interval
    from ..evals.statistics import wilson

    table = Table("skill", "exact answers", "95 % (Wilson)", "chance")
    for skill, score in scores.items():
        estimate = wilson(score.right, score.total)
        table.add_row(skill, f"{100 * score.share:.1f} %", interval(estimate, rate=True), f"{100 * score.chance:.1f} %")
    screen().print(table)
