"""One run of a study in a process of its own: train, then measure the model. ``study.py`` starts it."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from study_config import StartConfig
from study_controls import CONTROLS
from study_processes import INTERRUPTED
from study_ranks import Timer
from study_start import Start, measure_start

from turnwise import make
from turnwise.agents import Agent, OracleAgent
from turnwise.agents.named import agent_from
from turnwise.agents.settings import AgentSettings
from turnwise.config import load_config
from turnwise.errors import UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.sampling import sample_tasks
from turnwise.evals.settings import EvalConfig
from turnwise.rollouts.store import load_episodes
from turnwise.trainers.registry import ALGORITHMS

VIEW = ("context", "parser", "show_tools", "system")
"""Settings that decide what a model reads and how its text becomes an action."""


def main(path: Path) -> int:
    """Do what ``job.json`` says; the result goes to ``result.json`` beside it. Half-done work is continued."""
    job = json.loads(path.read_text(encoding="utf-8"))
    folder, run = path.parent, path.parent / "run"
    began, ranking = time.process_time(), Timer()
    try:
        code = 0 if (folder / "trained").exists() else _train(job, run, ranking)
    finally:
        spend(folder, "training", time.process_time() - began - ranking.seconds)
        spend(folder, "ranking", ranking.seconds)
    if code:
        return code
    (folder / "trained").touch()
    began = time.process_time()
    try:
        measured = _measure(job, run / "model", folder / f"measured-{job['measure_digest']}")
    finally:
        spend(folder, "measuring", time.process_time() - began)
    if measured is None:
        return INTERRUPTED
    result = measured | {f"cpu_seconds_{part}": seconds for part, seconds in spent(folder).items()}
    if job["start"]:
        result["start"] = measured_start(job, run / "model").model_dump()
    unfinished = folder / ".result.json"
    unfinished.write_text(json.dumps(result) + "\n", encoding="utf-8")
    unfinished.replace(folder / "result.json")
    return 0


def spend(folder: Path, part: str, seconds: float) -> None:
    """Note processor time; a run that is continued spends in several processes."""
    with (folder / "spent.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"part": part, "seconds": seconds}) + "\n")


def spent(folder: Path) -> dict[str, float]:
    """Processor seconds by part, over all processes that worked on the run."""
    total: dict[str, float] = {"training": 0.0, "measuring": 0.0, "ranking": 0.0}
    for line in (folder / "spent.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        total[entry["part"]] += entry["seconds"]
    return total


def _train(job: dict[str, Any], run: Path, ranking: Timer) -> int:
    if job.get("control") is not None:
        CONTROLS[job["control"]]()
    if job.get("ranked"):
        ranking.start()
    refuse_other_view(job["script"], job["words"])
    module = importlib.import_module(f"turnwise.trainers.{job['script']}")
    words = [*job["words"], *(["resume=true"] if (run / "config.json").exists() else [])]
    code: int = module.main(words)
    return code


def refuse_other_view(script: str, words: Sequence[str]) -> None:
    """Refuse a learner that would read other text than the model that it starts from.

    Raises:
        UsageError: one of ``VIEW`` differs from what the model was trained with.
    """
    kind = next(entry for entry in ALGORITHMS.values() if entry.script == script).load()[0]
    path, rest = (words[1], words[2:]) if words[0] == "--config" else (None, words)
    config = load_config(kind, path, rest)
    model = getattr(config, "model", None)
    if not isinstance(model, str):
        return
    trained = AgentSettings.beside(model)
    changed = [
        f"agent.{name} = {now!r}, not {before!r}"
        for name in VIEW
        if (now := getattr(config.agent, name)) != (before := getattr(trained, name))
    ]
    if changed:
        raise UsageError(
            f"the learner would read other text than its clone in {model}: {', '.join(changed)}; set these in the "
            "study's [shared] table, or in the learner's settings"
        )


def _measure(job: dict[str, Any], model: Path, store: Path) -> dict[str, Any] | None:
    """Mean return and success over the study's tasks; ``None`` if it was interrupted."""
    config = EvalConfig.model_validate(job["measure"] | {"policy": str(model)})
    agent = agent_from(str(model), max_batch=256, seed=config.seed)
    summary = run_evaluation(config, agent, store=store, resume=store.exists())
    if not summary.complete:
        return None
    episodes = [episode for episode in load_episodes(store) if episode.scored]
    returns = [episode.total_reward for episode in episodes]
    return {
        "return": sum(returns) / len(returns),
        "success": sum(episode.success for episode in episodes) / len(episodes),
        "turns": sum(len(episode.turns) for episode in episodes) / len(episodes),
        "measured_episodes": len(episodes),
        "measured_tasks": len({episode.task for episode in episodes}),
    }


def measured_start(job: dict[str, Any], model: Path) -> Start:
    """Measure the model as a start of others, on the tasks of the study's split."""
    rules, config = StartConfig.model_validate(job["start"]), EvalConfig.model_validate(job["measure"])
    with closing(make(config.env, **config.env_kwargs)) as env:
        family = env.tasks()
    sample = sample_tasks(family, rules.tasks, splits=config.splits, levels=config.levels, seed=config.seed)

    def agent(temperature: float) -> Agent:
        return agent_from(str(model), max_batch=256, seed=config.seed, temperature=temperature)

    return measure_start(
        partial(make, config.env, **config.env_kwargs),
        agent,
        OracleAgent(),
        sample.tasks,
        attempts=rules.attempts,
        shadow=rules.shadow,
        seed=config.seed,
    )
