"""``turnwise data``: demonstrations of mixed skill, to clone or to learn from offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..config import load_config
from ..envs.named import environment
from ..errors import UsageError
from ..evals.evaluate import agent_of
from ..evals.evaluation import run_evaluation
from ..evals.settings import EvalConfig
from ..evals.terminal import print_summary
from .completion import environment_ids
from .evaluate import ONCE_MORE, Cache, MaxCost, Prices, Who, slug, stopped_early
from .terminal import resumable, screen


def data(
    env: Annotated[
        str,
        typer.Argument(
            help="An environment's id, or a Python file that registers one.", autocompletion=environment_ids
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Further settings, such as rollouts.engine=ray.", show_default=False),
    ] = None,
    n: Annotated[int, typer.Option("-n", help="Number of episodes, each of a different task.")] = 1000,
    skills: Annotated[
        str | None,
        typer.Option(help="Shares of turns that the oracle takes; each episode draws one of them (default: 0,0.5,1)."),
    ] = None,
    habits: Annotated[
        float | None,
        typer.Option(help="Share of messages at which all demonstrators make the same mistake (default: 0)."),
    ] = None,
    policy: Who = None,
    max_cost: MaxCost = None,
    price: Prices = None,
    cache: Cache = None,
    split: Annotated[str, typer.Option(help="Splits, separated by commas.")] = "train",
    level: Annotated[str | None, typer.Option(help="Levels, separated by commas (default: all).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks and of the play.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Episode store to write (default: runs/data-ENV).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a previous run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing store.")] = False,
) -> None:
    """Record demonstrations in an episode store, of mixed skill (as in LMRL-Gym's datasets) or of a policy.

    The store is Parquet. Pandas and duckdb read it, and behavior cloning reads it with demonstrations.store.

    Examples:

        turnwise data turnwise/Maze-v0 -n 2000

        turnwise data turnwise/Wordle-v1 --skills 1 --level 1,2 --out runs/experts

        turnwise data turnwise/MazeMedium-v0 --skills 0.45,0.55 --habits 0.25

        turnwise data turnwise/Maze-v0 rollouts.engine=ray rollouts.workers=8 -n 20000

        turnwise data turnwise/Maze-v0 --policy anthropic:claude-sonnet-5-5 -n 100 --max-cost 5
    """
    options: dict[str, object] = {"n": n, "splits": split, "levels": level, "seed": seed}
    options |= {"api.max_cost": max_cost, "api.price": price, "api.cache": cache}
    settled = [f"{key}={value}" for key, value in options.items() if value is not None]
    who = _player(policy, skills, habits)
    settings = load_config(EvalConfig, None, [f"env={environment(env)}", f"policy={who}", *settled, *(words or [])])
    folder = out or Path("runs") / f"data-{slug(settings.env)}"
    agent = agent_of(settings, folder)
    with resumable(ONCE_MORE):
        summary = run_evaluation(settings, agent, store=folder, resume=resume, overwrite=overwrite, progress=True)
    print_summary(summary, screen())
    stopped_early(summary)
    typer.echo(folder)


def _player(policy: str | None, skills: str | None, habits: float | None) -> str:
    """Return the policy that plays: the one that is named, or mixed demonstrators."""
    mixed = [name for name, value in (("--skills", skills), ("--habits", habits)) if value is not None]
    if policy is not None and mixed:
        raise UsageError(f"use {mixed[0]} or --policy, not both: {mixed[0]} describes mixed demonstrators")
    return policy or f"mixed:{skills or '0,0.5,1'}" + (f",habits={habits}" if habits else "")
