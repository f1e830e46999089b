"""Measure whether search over forks beats the best of as many whole attempts as the same tokens buy.

Each start of the environment is searched once per model (``search.rollouts`` rollouts from each state), and played
``--attempts`` times without a search. For m attempts whose sampled tokens cost at least what the search sampled, the
expected best return is exact for the attempts that were played: ``Σ_i x_(i) C(i−1, m−1) / C(n, m)``. Both sides know
the returns of what they played, so this compares planning with a simulator against choosing with one. The best path
among all rollouts of the search is shown too: what remembering it would earn.

Models are the clones of a study with several seeds; intervals are Student's over them.

Run: python benchmarks/tree_search.py runs/study/STUDY/bc-*/default/seed-*/run/model --study STUDY [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kept import shown
from rich.console import Console
from rich.table import Table
from study_config import Study, load_study

from turnwise import Episode
from turnwise.agents.named import agent_from
from turnwise.evals.api_usage import tokens_written
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig
from turnwise.evals.statistics import student
from turnwise.rollouts.store import load_episodes


@dataclass(frozen=True)
class Line:
    """One model: means over the starts.

    Args:
        model: folder of the model.
        policy: return of a whole attempt.
        searched: return of the episode whose actions a search chose.
        best_path: return of the best path that the search played.
        best_of: expected best return of as many attempts as the search's tokens buy, rounded up.
        equal: number of these attempts.
        solved: share of searched episodes that reached the goal.
        best_solved: expected share of starts that the best of these attempts solves.
        tokens: sampled tokens of a search.
        attempt_tokens: sampled tokens of an attempt.
        cpu_seconds: processor seconds of all searches.
        attempt_cpu_seconds: processor seconds of all attempts.
    """

    model: str
    policy: float
    searched: float
    best_path: float
    best_of: float
    equal: float
    solved: float
    best_solved: float
    tokens: float
    attempt_tokens: float
    cpu_seconds: float
    attempt_cpu_seconds: float


def expected_best(values: Sequence[float], m: int) -> float:
    """Return the expected maximum of ``m`` of these values, drawn without replacement.

    Args:
        values: returns of n attempts.
        m: number of attempts to choose from, 1 to n.

    Raises:
        ValueError: there are fewer than ``m`` values.
    """
    n = len(values)
    if not 1 <= m <= n:
        raise ValueError(f"the best of {m} of {n} attempts is not defined: play more with --attempts")
    ranked = sorted(values)
    return sum(value * math.comb(i - 1, m - 1) for i, value in enumerate(ranked, 1)) / math.comb(n, m)


def best_path(episode: Episode) -> float:
    """Return the highest return of a path that a search played, its own included."""
    paid = [turn.reward for turn in episode.turns]
    ahead = [sum(paid[: each.turn]) + sum(each.rewards) for each in episode.lookaheads if each.outcome.trainable]
    return max([episode.total_reward, *ahead])


def measured(model: str, study: Study, arguments: argparse.Namespace) -> Line:
    """Search and attempt every start with one model."""
    given = {
        "env": study.env,
        "env_kwargs": study.env_kwargs,
        "policy": model,
        "n": study.measure.tasks,
        "splits": [study.measure.split],
        "levels": study.levels or [],
        "seed": arguments.seed,
        "concurrency": 256,
    }
    searched, seconds = played(EvalConfig(**given, search={"rollouts": arguments.rollouts}))
    attempts, attempt_seconds = played(EvalConfig(**given, group_size=arguments.attempts))
    groups = [[one for one in attempts if one.task == episode.task] for episode in searched]
    written = [statistics.fmean(map(tokens_written, group)) for group in groups]
    equal = [math.ceil(tokens_written(e) / each) for e, each in zip(searched, written, strict=True)]
    pairs = list(zip(groups, equal, strict=True))
    return Line(
        model=model,
        policy=statistics.fmean(one.total_reward for one in attempts),
        searched=statistics.fmean(episode.total_reward for episode in searched),
        best_path=statistics.fmean(map(best_path, searched)),
        best_of=statistics.fmean(expected_best([one.total_reward for one in group], m) for group, m in pairs),
        equal=statistics.fmean(equal),
        solved=statistics.fmean(episode.success for episode in searched),
        best_solved=statistics.fmean(expected_best([float(one.success) for one in group], m) for group, m in pairs),
        tokens=statistics.fmean(map(tokens_written, searched)),
        attempt_tokens=statistics.fmean(map(tokens_written, attempts)),
        cpu_seconds=seconds,
        attempt_cpu_seconds=attempt_seconds,
    )


def played(config: EvalConfig) -> tuple[list[Episode], float]:
    """Return the episodes of an evaluation, and its processor seconds."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "episodes"
        run_evaluation(config, agent_from(config.policy, max_batch=256, seed=config.seed), store=store)
        return load_episodes(store), time.process_time() - began


def table(lines: Sequence[Line], rollouts: int) -> Table:
    """Return one row per way to play, with Student's intervals over models."""
    found = Table(title=f"{rollouts} rollouts from each state, {len(lines)} models")
    for column in ("", "return", "solved", "sampled tokens per start"):
        found.add_column(column, justify="right" if column else "left")

    def mean(name: str, digits: int = 0) -> str:
        return f"{statistics.fmean(getattr(line, name) for line in lines):,.{digits}f}"

    def over(name: str, minus: str = "") -> str:
        return shown(student([getattr(line, name) - (getattr(line, minus) if minus else 0.0) for line in lines]))

    found.add_row("policy", over("policy"), "", mean("attempt_tokens"))
    found.add_row("search", over("searched"), over("solved"), mean("tokens"))
    found.add_row(f"best of {mean('equal', 1)} attempts", over("best_of"), over("best_solved"), "as many")
    found.add_row("best path of the search", over("best_path"), "", mean("tokens"))
    found.add_row("search − best of", over("searched", "best_of"), over("solved", "best_solved"), "")
    found.add_row("best path − best of", over("best_path", "best_of"), "", "")
    found.caption = (
        f"{mean('cpu_seconds', 1)} CPU seconds per model for searches, {mean('attempt_cpu_seconds', 1)} for attempts"
    )
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every model, print the table, and write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", help="folders of the models, one per seed")
    parser.add_argument("--study", required=True, help="study whose tasks are played")
    parser.add_argument("--rollouts", type=int, default=4, help="rollouts from each state")
    parser.add_argument("--attempts", type=int, default=64, help="attempts at each start without a search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    study = load_study(arguments.study)
    lines = [measured(model, study, arguments) for model in arguments.models]
    Console(width=140).print(table(lines, arguments.rollouts))
    if arguments.json:
        settings = {name: str(value) for name, value in vars(arguments).items() if name not in ("json", "models")}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps({"settings": settings, "lines": [asdict(x) for x in lines]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
