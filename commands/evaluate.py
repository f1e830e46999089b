"""``turnwise eval``: play tasks with a policy and report the results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ..config import load_config
from ..config_errors import contradiction
from ..config_help import describe
from ..envs.harbor.address import is_harbor
from ..envs.named import environment, refuse_several
from ..envs.registry import make
from ..errors import NothingScoredError, UsageError
from ..evals.evaluation import run_evaluation
from ..evals.evaluation_store import kept_by_resume
from ..evals.failures import environment_errors
from ..evals.settings import EvalConfig
from ..evals.summary import SUMMARY, Summary
from ..evals.terminal import print_summary
from ..rollouts.episode import Outcome
from ..rollouts.store import EPISODES, read_episodes
from ..sandboxes.named import backend_names
from .completion import environment_ids
from .eval_servers import ServedEvalConfig, acting
from .terminal import INCONCLUSIVE, INTERRUPTED, complain, resumable, screen, stdout_for_protocol


def _list_settings(wanted: bool) -> None:
    if wanted:
        typer.echo("\n".join(describe(ServedEvalConfig)))
        raise typer.Exit


ONCE_MORE = "Finished episodes are kept: run the same command with --resume to play the rest."
FLAGS = {
    "n": "-n",
    "splits": "--split",
    "levels": "--level",
    "program.command": "--program",
    "api.max_cost": "--max-cost",
}
"""Options that do not have the name of their setting."""

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENV|KEY=VALUE",
        help="Environment id, or a Python file that registers one; then settings.",
        show_default=False,
        autocompletion=environment_ids,
    ),
]
Who = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        help="oracle, random, null, mixed:0.35, function:module:name, folder of a model, http://host:port of a vLLM "
        "server, or a model behind a chat API: openai:MODEL, anthropic:MODEL, chat:URL#MODEL.",
    ),
]
Tokenizer = Annotated[
    str | None, typer.Option(help="Folder with the tokenizer of a server's model, if its own is not on this machine.")
]
Program = Annotated[
    str | None,
    typer.Option(
        help="Program that plays and calls the policy as OpenAI's or Anthropic's SDK would: 'python my_agent.py'."
    ),
]
MaxCost = Annotated[float | None, typer.Option(help="Spending limit for a chat API, in dollars.")]
Prices = Annotated[
    str | None,
    typer.Option(
        "--price", metavar="IN,OUT", help="Price of a chat API, in dollars per million input and output tokens."
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(help="Folder for cached answers of a chat API, to share between runs (default: one per run)."),
]
ListSettings = Annotated[
    bool,
    typer.Option("--settings", callback=_list_settings, is_eager=True, help="List every setting and exit."),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        help="Sandbox backend for environments that run code: bubblewrap, docker, podman… (default: first that works)."
    ),
]


def evaluate(
    context: typer.Context,
    words: Words = None,
    policy: Who = None,
    tokenizer: Tokenizer = None,
    program: Program = None,
    n: Annotated[int | None, typer.Option("-n", help="Number of tasks (default: 100).")] = None,
    split: Annotated[str | None, typer.Option(help="Splits, separated by commas (default: the test splits).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed that selects the tasks (default: 0).")] = None,
    max_cost: MaxCost = None,
    price: Prices = None,
    cache: Cache = None,
    sandbox: Sandbox = None,
    level: Annotated[str | None, typer.Option(help="Levels, separated by commas (default: all).")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with the same settings.")] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder (default: runs/eval-ENV-POLICY).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a previous run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a previous run.")] = False,
    report: Annotated[bool, typer.Option(help="Also write report.html and report.md.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    settings_only: ListSettings = False,
) -> None:
    """Play tasks with a policy, and report success with its interval, where time went, and failures by kind.

    Writes an episode store, summary.json and a report in one file. Set any field of EvalConfig with key=value:
    group_size=4, concurrency=16, seed=1, env_kwargs.max_turns=5. The agent table of training works too:
    agent.parser=tools, agent.temperature=0 (or temperature=0), agent.system="Be brief."; --settings lists them all.

    Examples:

        turnwise eval turnwise/Maze-v0 --policy oracle -n 50

        turnwise eval my_env.py --policy runs/loop/model --split test_iid --level 1,2 group_size=4

        turnwise eval turnwise/Maze-v0 --policy http://127.0.0.1:8000 --tokenizer runs/loop/model

        turnwise eval turnwise/Maze-v0 --policy openai:gpt-5.4-mini -n 20 --max-cost 1

        turnwise eval turnwise/Maze-v0 --policy random --out runs/random --resume

        turnwise eval turnwise/CodeSynthesis-v1 --policy oracle --sandbox docker -n 20

        turnwise eval turnwise/Maze-v0 --program "python my_agent.py" --policy runs/loop/model
    """
    wire = context.with_resource(stdout_for_protocol()) if as_json else None
    options: dict[str, Any] = {"policy": policy, "tokenizer": tokenizer, "program.command": program, "n": n}
    options |= {"splits": split, "levels": level, "seed": seed, "env_kwargs.sandbox": sandbox}
    options |= {"api.max_cost": max_cost, "api.price": price, "api.cache": cache}
    settings = read(words or [], options, config)
    sees_to(settings.env, sandbox)
    folder = out or Path("runs") / f"eval-{slug(settings.env)}-{slug(settings.policy)}"
    with resumable(ONCE_MORE), acting(settings, folder, resume=resume, overwrite=overwrite) as agent:
        try:
            episodes = folder / EPISODES
            summary = run_evaluation(settings, agent, store=episodes, progress=True, resume=resume, overwrite=overwrite)
        except NothingScoredError as error:
            raise NothingScoredError(f"{error}. {play_again(folder / EPISODES)}") from error
    summary.save(folder / SUMMARY)
    html = written(folder, settings) if report else None
    conclude(summary, folder, html, wire)


def conclude(summary: Summary, folder: Path, html: Path | None, wire: TextIO | None) -> None:
    """Print the results of an evaluation, as JSON if there is a stream for it, and set the command's exit code."""
    if wire is not None:
        typer.echo(json.dumps(summary.to_json(), indent=2), file=wire)
    else:
        print_summary(summary, screen(), report=html, saved=folder / SUMMARY)
    stopped_early(summary)
    never_began(summary, folder / EPISODES)
    too_few_scores(summary, folder / EPISODES)


def written(folder: Path, settings: EvalConfig) -> Path:
    """Write a report on an evaluation beside its store, and return its page."""
    from ..evals.report import report as write  # draws with matplotlib, which nothing else needs

    return write(folder / EPISODES, folder, confidence=settings.confidence).html


def stopped_early(summary: Summary) -> None:
    """Exit with code 130 if the evaluation was interrupted, and say how to resume it."""
    if summary.planned is not None and summary.episodes < summary.planned:
        complain(f"interrupted at {summary.episodes} of {summary.planned} episodes. {ONCE_MORE}")
        raise typer.Exit(INTERRUPTED)


def never_began(summary: Summary, store: Path) -> None:
    """Exit with code 1 if the policy failed before its first action in every episode; that is not a success of 0 %."""
    if summary.actions == 0 and summary.outcomes.get(Outcome.POLICY_FAILED) == summary.episodes:
        error = next((episode.error for episode in read_episodes(store) if episode.error), "the policy failed")
        complain(f"no episode reached its first turn: {error}")
        raise typer.Exit(1)


def too_few_scores(summary: Summary, store: Path) -> None:
    """Say how to replace episodes without a score, and exit with code 3 if too many failed for a result."""
    if lost := summary.episodes - summary.scored:
        complain(f"{lost} of {summary.episodes} episodes have no score. {play_again(store)}")
    elif summary.inconclusive:
        complain("inconclusive: the agent sampled again in too many episodes; --overwrite plays all of them again")
    if summary.inconclusive:
        raise typer.Exit(INCONCLUSIVE)


def play_again(store: Path) -> str:
    """Say how to play again the episodes of a store that have no score, and what to fix before that."""
    unscored = [episode for episode in read_episodes(store) if not episode.scored]
    kept = sum(map(kept_by_resume, unscored))
    resumed = f"the same command with --resume to play {len(unscored) - kept} of them again."
    stay = f"{kept} failed after an action of the agent and stay as they are"
    if environment_errors(unscored):
        first = ["The environment raised an error: fix its file first; then --overwrite plays everything again."]
        again, stay = f"If the cause is not in the file, run {resumed}", f"With --resume, {stay}."
    else:
        first, again, stay = [], f"Run {resumed}", f"{stay}; --overwrite plays everything again."
    return " ".join(first + [again] * (len(unscored) > kept) + [stay] * (kept > 0))


def read(words: list[str], options: Mapping[str, object], config: Path | None) -> ServedEvalConfig:
    """Return the settings: the file's, overridden by the options and by ``key=value`` words.

    Raises:
        UsageError: no environment or no policy is named, a setting is wrong, or has two values.
    """
    names = [word for word in words if "=" not in word]
    refuse_several(names, model="--policy ", already=any(word.startswith("env=") for word in words))
    given = [(f"{_flag(key)} {value}", f"{key}={value}") for key, value in options.items() if value is not None]
    if said := contradiction([*given, *((word, word if "=" in word else f"env={word}") for word in words)]):
        raise UsageError(said)
    overrides = [override for _, override in given]
    overrides += [f"env={environment(names[0])}"] if names else []
    overrides += [word for word in words if "=" in word]
    if config is None and not any(word.startswith("env=") for word in overrides):
        raise UsageError("name an environment (`turnwise envs` lists them): turnwise eval ENV --policy oracle")
    settings = load_config(ServedEvalConfig, config, overrides)
    if not settings.policy:
        raise UsageError(
            "choose a policy with --policy: oracle, random, null, mixed:0.35, the folder of a model, http://host:port, "
            "or a model behind a chat API: openai:MODEL, anthropic:MODEL, chat:URL#MODEL"
        )
    return settings.model_copy(update={"env": environment(settings.env)})


def _flag(setting: str) -> str:
    """Return the option of ``turnwise eval`` that sets a setting."""
    return FLAGS.get(setting, f"--{setting.rpartition('.')[2]}")


def sees_to(env: str, sandbox: str | None) -> None:
    """Check that an environment runs code in sandboxes, and that the backend exists.

    Raises:
        UsageError: the environment does not use sandboxes, or there is no such backend.
    """
    if sandbox is None:
        return
    if sandbox not in backend_names():
        raise UsageError(f"there is no sandbox backend {sandbox!r}; choose from {', '.join(backend_names())}")
    if is_harbor(env):
        raise UsageError(f"{env} always runs in docker, with the image of each task: omit --sandbox")
    make(env).close()
    try:
        make(env, sandbox=sandbox).close()
    except UsageError:
        raise UsageError(f"{env} does not run code in a sandbox: omit --sandbox") from None


def slug(text: str) -> str:
    """Return the distinctive end of an id or a path, fit for the name of a folder."""
    parts = [part for part in text.split("/") if part not in ("", "model", ".", "..")]
    return re.sub(r"[^\w.-]+", "-", parts[-1]) if parts else "policy"
