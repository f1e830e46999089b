"""The study harness: its rules are pure, its files name what exists, and a finished run is never run again."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import re
import shutil
import statistics
from itertools import chain
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from turnwise.config import load_config
from turnwise.errors import ConfigError, UsageError
from turnwise.evals.curves import Run, read_run
from turnwise.trainers.run.settings import TrainConfig

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("importable")

STUDIES = sorted(path.stem for path in (BENCHMARKS / "studies").glob("*.toml"))
SMALL = """
title = "Small"
env = "turnwise/MazeMedium-v0"
thresholds = [-5.0]
against = ["slow", "fast"]
scale = { min = -50.0, max = -2.0 }
data = { episodes = 12, skills = [0.0, 1.0], weights = [1.0, 1.0] }
measure = { tasks = 6, attempts = 1 }
start = { gate = false, tasks = 8, attempts = 1 }
sweep = { values = [1e-3, 3e-3], seeds = 2 }
env_kwargs = { max_turns = 12 }

[shared]
agent = { context = "last:1:bare", max_tokens = 4 }
eval = { split = "train", episodes = 6, every = 1 }
steps = 2

[[learner]]
name = "bc"
script = "behavior_cloning"
config = "bc-maze"
data = true
settings = { nano = { layers = 1, hidden = 32 }, batch = 16 }

[[learner]]
name = "fast"
script = "loop"
config = "loop-maze"
after = "bc"
swept = "optimizer.lr"
settings = { tasks_per_step = 2, group_size = 2, minibatch = 4 }

[[learner]]
name = "turns"
like = "fast"
seeds = 1
settings = { ratio_level = "turn" }
"""


@pytest.fixture
def plan() -> Any:
    return importlib.import_module("study_plan")


def load_study(name: str) -> Any:
    return importlib.import_module("study_config").load_study(name)


def normalized(value: float, low: float, middle: float, high: float) -> float:
    found: float = importlib.import_module("study_config").normalized(value, low, middle, high)
    return found


@pytest.fixture
def report() -> Any:
    return importlib.import_module("study_report")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_a_control_is_a_run_of_its_own_and_leaves_the_digests_of_others(plan: Any, small: Path) -> None:
    before = load_study(str(small))
    digests = {learner.name: plan.digest(before, learner.name) for learner in before.learner}
    small.write_text(SMALL + '[[learner]]\nname = "blind"\nlike = "fast"\ncontrol = "noise"\n')
    study = load_study(str(small))
    assert {name: plan.digest(study, name) for name in digests} == digests
    assert study["blind"].control == "noise"
    assert study["blind"].script == "loop"
    assert plan.digest(study, "blind") != plan.digest(study, "fast")


def test_a_teacher_is_trained_before_its_student_and_named_in_its_settings(plan: Any, small: Path) -> None:
    before = load_study(str(small))
    digests = {learner.name: plan.digest(before, learner.name) for learner in before.learner}
    student = 'name = "student"\nscript = "on_policy"\nafter = "bc"\nteacher = "turns"\n'
    small.write_text(f"{SMALL}[[learner]]\n{student}\n")
    study = load_study(str(small))
    assert {name: plan.digest(study, name) for name in digests} == digests
    order = jobs_run(plan, study, ["student"], range(1), lambda job: -1.0)
    names = [job.learner for job in order]
    assert names[-1] == "student"
    assert names.index("turns") < names.index("student")
    outcomes = dict.fromkeys(order, -1.0)
    words = plan.words(study, order[-1], outcomes, root=Path("root"))
    (teacher,) = (job for job in order if job.learner == "turns")
    assert f'algorithm.teacher="root/{teacher.folder}/run/model"' in words


def test_a_learner_changes_what_the_study_gives_its_environment(plan: Any, small: Path) -> None:
    changed = "settings = { episodes = { env_kwargs = { max_turns = 13, turn_limit = 12 } } }"
    small.write_text(f'{SMALL}[[learner]]\nname = "cut"\nlike = "fast"\n{changed}\n')
    study = load_study(str(small))
    words = plan.words(
        study, plan.Job("cut", "d", 1e-3, 0), {plan.Job("bc", plan.digest(study, "bc"), None, 0): 0.0}, root=Path()
    )
    assert "episodes.env_kwargs.max_turns=13" in words
    assert "episodes.env_kwargs.turn_limit=12" in words


def test_a_table_of_a_learner_hides_no_setting_of_the_study(small: Path) -> None:
    settings = 'settings = { eval = { split = "train", episodes = 6, every = 2 } }'
    shown = f'[[learner]]\nname = "seldom"\nlike = "bc"\n{settings}\n'
    small.write_text(SMALL + shown)
    load_study(str(small))
    small.write_text(
        SMALL + shown.replace('like = "bc"', 'script = "loop"').replace('split = "train", episodes = 6, ', "")
    )
    with pytest.raises(
        ConfigError, match=r"'eval' of seldom replaces that of \[shared\] and hides \['episodes', 'split'\]"
    ):
        load_study(str(small))


def test_data_are_played_for_whoever_starts_from_a_learner_of_them(small: Path) -> None:
    small.write_text(SMALL + '[[learner]]\nname = "alone"\nscript = "loop"\n')
    study = load_study(str(small))
    assert all(map(study.reads_data, ("bc", "fast", "turns"))), "a clone that was lost is trained again"
    assert not study.reads_data("alone")


def test_noise_has_the_size_of_the_critics_advantages_and_not_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    controls = importlib.import_module("study_controls")
    true_B = torch.linspace(-1, 5, 4000)
    monkeypatch.setattr(controls.UtteranceCritic, "advantage", lambda self, states, actions: true_B)
    controls.noisy_advantages()
    critic = object.__new__(controls.UtteranceCritic)
    one, other = critic.advantage([], []), critic.advantage([], [])
    assert float(one.mean()) == pytest.approx(2, abs=0.1)
    assert float(one.std()) == pytest.approx(float(true_B.std()), rel=0.05)
    assert abs(float(torch.corrcoef(torch.stack([one, true_B]))[0, 1])) < 0.06
    assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.06, "new noise each time"


def test_the_score_is_0_50_and_100_at_its_three_marks() -> None:
    marks = [normalized(value, -101.0, -83.0, -6.84) for value in (-101.0, -83.0, -6.84)]
    assert marks == pytest.approx([0.0, 50.0, 100.0])
    assert normalized(-92.0, -101.0, -83.0, -6.84) == pytest.approx(25.0)
    assert normalized(-44.92, -101.0, -83.0, -6.84) == pytest.approx(75.0)
    assert normalized(-119.0, -101.0, -83.0, -6.84) == pytest.approx(-50.0), "worse than the floor is not hidden"


@given(st.lists(st.floats(-1000, 0), min_size=2, max_size=2))
def test_a_better_return_never_scores_less(returns: list[float]) -> None:
    low, high = (normalized(value, -101.0, -60.0, -6.84) for value in sorted(returns))
    assert low <= high + 1e-9


def test_the_sweep_takes_the_best_mean_of_equals_the_smaller_and_no_failure(plan: Any) -> None:
    assert plan.choose({1e-3: [-10.0, -20.0], 3e-3: [-12.0, -14.0]}) == 3e-3
    assert plan.choose({3e-3: [-10.0], 1e-3: [-10.0]}) == 1e-3
    assert plan.choose({1e-3: [-10.0, None], 3e-3: [-90.0, -90.0]}) == 3e-3
    assert plan.choose({1e-3: [None], 3e-3: [None]}) is None


def jobs_run(plan: Any, study: Any, names: list[str], seeds: range, outcome: Any) -> list[Any]:
    """Every job that a harness with unlimited processes would run, in order."""
    outcomes: dict[Any, float | None] = {}
    order: list[Any] = []
    while waiting := plan.ready(study, names, seeds, outcomes):
        for job in waiting:
            assert job not in outcomes, f"{job} was to be run twice"
            order.append(job)
        outcomes |= {job: outcome(job) for job in waiting}
    return order


def best_at(rate: float) -> Any:
    return lambda job: 0.0 if job.value is None else -abs(math.log(job.value / rate))


def test_everything_runs_once_what_it_needs_before_it(plan: Any, small: Path) -> None:
    study = load_study(str(small))
    order = jobs_run(plan, study, ["fast", "turns"], range(3), best_at(3e-3))
    assert len(order) == len(set(order))
    place = {(job.learner, job.value, job.seed): number for number, job in enumerate(order)}
    assert {key for key in place if key[0] == "bc"} == {("bc", None, seed) for seed in (0, 1, 2, 100, 101)}
    swept = {("fast", value, seed) for value in (1e-3, 3e-3) for seed in (100, 101)}
    assert {key for key in place if key[0] == "fast"} == swept | {("fast", 3e-3, seed) for seed in range(3)}
    assert [key for key in place if key[0] == "turns"] == [("turns", 3e-3, 0)], "an ablation has the rate it is like"
    for learner, value, seed in place:
        if learner != "bc":
            assert place["bc", None, seed] < place[learner, value, seed]
        if learner != "bc" and seed < 100:
            assert max(place[key] for key in swept) < place[learner, value, seed]


def test_what_is_finished_is_not_run_again(plan: Any, small: Path) -> None:
    study = load_study(str(small))
    done = dict.fromkeys(jobs_run(plan, study, ["bc", "fast"], range(2), best_at(0.001)), -1.0)
    assert plan.ready(study, ["bc", "fast"], range(2), done) == []
    more = plan.ready(study, ["bc", "fast"], range(3), done)
    assert [(job.learner, job.seed) for job in more] == [("bc", 2)], "one more seed needs one more of everything"


def test_without_a_start_nothing_is_started(plan: Any, small: Path) -> None:
    study = load_study(str(small))
    order = jobs_run(plan, study, ["fast"], range(2), lambda job: None if job.learner == "bc" else -1.0)
    assert {job.learner for job in order} == {"bc"}


def test_other_settings_are_other_runs(plan: Any, small: Path) -> None:
    study = load_study(str(small))
    before = {name: plan.digest(study, name) for name in ("bc", "fast", "turns")}
    assert len(set(before.values())) == 3
    small.write_text(SMALL.replace("batch = 16", "batch = 17"))
    changed = load_study(str(small))
    assert all(plan.digest(changed, name) != before[name] for name in before), "what starts from it changes with it"
    small.write_text(SMALL.replace("attempts = 1", "attempts = 2"))
    again = load_study(str(small))
    assert {name: plan.digest(again, name) for name in before} == before, "measuring otherwise needs no training"


def test_data_with_habits_are_other_data_and_without_them_the_same(plan: Any, small: Path) -> None:
    study = load_study(str(small))
    before = {name: plan.digest(study, name) for name in ("bc", "fast")}, plan.data_folder(study)
    weights = "weights = [1.0, 1.0]"
    small.write_text(SMALL.replace(weights, f"{weights}, habits = 0.0"))
    same = load_study(str(small))
    assert ({name: plan.digest(same, name) for name in before[0]}, plan.data_folder(same)) == before
    small.write_text(SMALL.replace(weights, f"{weights}, habits = 0.25"))
    other = load_study(str(small))
    assert all(plan.digest(other, name) != mark for name, mark in before[0].items())
    assert plan.data_folder(other) != before[1]


def test_an_example_plays_the_data_and_writes_the_files_that_settings_name(plan: Any, tmp_path: Path) -> None:
    study = load_study("search-habit")
    few = study.model_copy(update={"data": study.data.model_copy(update={"episodes": 4})})
    play = importlib.import_module("study_data").play
    episodes = play(few, tmp_path)
    assert len(episodes) == 4
    files = tmp_path / plan.files_folder(few)
    first = (files / "corpus.jsonl").stat()
    assert play(few, tmp_path) == episodes, "none is played twice"
    again = (files / "corpus.jsonl").stat()
    assert (again.st_ino, again.st_mtime_ns) == (first.st_ino, first.st_mtime_ns), "runs may be reading them"
    job = plan.Job("bc", plan.digest(few, "bc"), None, 0)
    words = plan.words(few, job, {}, root=tmp_path)
    assert f'episodes.env_kwargs.questions="{files}/both.jsonl"' in words
    other = study.data.model_copy(update={"demonstrator": {"habit": "mother of", "haste": 0.8}})
    assert plan.digest(study.model_copy(update={"data": other}), "bc") != plan.digest(study, "bc")


@pytest.mark.parametrize("data", ["data = { episodes = 2 }", 'data = { episodes = 2, skills = [1.0], example = "a" }'])
def test_data_have_one_source(small: Path, data: str) -> None:
    lines = [data if line.startswith("data =") else line for line in SMALL.splitlines()]
    small.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="set one of them"):
        load_study(str(small))


@pytest.mark.parametrize(("name", "said"), [("none", "there is no file"), ("minimal_env", "has no function")])
def test_an_example_without_data_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        importlib.import_module("study_data").load_example(name)


def test_the_results_of_release_0_1_are_those_of_the_renamed_settings(plan: Any) -> None:
    study = load_study("limits")
    kept = [json.loads(line) for line in (BENCHMARKS / "results" / "limits" / "results.jsonl").read_text().splitlines()]
    assert {line["learner"] for line in kept} == {"bc", "ppo", "ppo-cut"}
    assert {line["digest"] for line in kept} == {plan.digest(study, line["learner"]) for line in kept}
    new = {"loss": {"ratio_level": "turn"}, "modulators": [{"centered": True}], "shared_token_weight": "split"}
    old = {"loss": {"level": "turn"}, "modulators": [{"centred": True}], "shared": "once"}
    assert plan.first_names(new) == old


def test_a_learner_can_be_swept_only_over_something(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("".join(line for line in SMALL.splitlines(True) if not line.startswith("sweep =")))
    with pytest.raises(ConfigError, match=r"no \[sweep\]"):
        load_study(str(file))


def test_learners_in_different_units_are_compared_by_their_success() -> None:
    rows = importlib.import_module("study_rows")
    records = [{"step": 0, "eval/return": 0.9, "eval/success": 0.1}, {"step": 1, "episodes": 8, "eval/success": 0.5}]
    run = Run("run", tuple(records))
    assert rows.trace_of(run) == [(0, 0.9)]
    assert rows.trace_of(run, load_study("partial-code").curve) == [(0, 0.1), (8, 0.5)]


@pytest.mark.parametrize("name", [*STUDIES, "docs/studies.md"])
def test_a_shipped_study_names_scripts_settings_and_models_that_exist(plan: Any, tmp_path: Path, name: str) -> None:
    file = BENCHMARKS / "studies" / f"{name}.toml"
    if name.startswith("docs"):
        file = tmp_path / "mine.toml"
        text, *further = re.findall(r"```toml.*?\n(.*?)```", (BENCHMARKS.parent / name).read_text(), re.DOTALL)
        file.write_text("\n".join(["# of the page", text, *further]))
    study = load_study(str(file))
    sequential = study.sequential.pairs if study.sequential else ()
    assert {*study.against, *study.also, *chain(*study.pairs), *chain(*sequential)} <= {
        one.name for one in study.learner
    }
    assert len({learner.swept for learner in study.learner} - {None}) <= 1, "what is swept is the same for all"
    *others, last = (study[one].swept for one in study.against)
    assert len({*others}) == 1, "those that the last one is compared with are all swept, or none"
    assert last in {others[0], None}, "a sweep may favor the others, and not the last one alone"
    outcomes: dict[Any, float | None] = {}
    agents = {}
    for learner in (study[one.name] for one in study.learner):
        value = study.sweep.values[0] if study.sweep and learner.swept else None
        job = plan.Job(learner.name, plan.digest(study, learner.name), value, 0)
        outcomes[job] = -1.0
        words = plan.words(study, job, outcomes, root=Path("root"))
        module = importlib.import_module(f"turnwise.trainers.{learner.script}")
        kinds = [k for k in vars(module).values() if isinstance(k, type) and issubclass(k, TrainConfig)]
        homes = module.__name__, f"{module.__name__}_settings"  # long settings have a file of their own
        (kind,) = (kind for kind in kinds if kind.__module__ in homes)
        path = words[1] if words[0] == "--config" else None
        config = load_config(kind, path, words[2:] if path else words)
        assert (config.env, config.threads) == (study.env, 1)
        agents[learner.name] = (config.agent.context, config.agent.parser, config.agent.show_tools)
        if learner.after is not None:
            assert agents[learner.name] == agents[learner.after], "a learner reads what its clone reads"
        if value is not None:
            assert config.optimizer.lr == value
        assert callable(module.main)
    assert file.read_text().startswith("# ")


def test_a_part_of_the_seeds_is_those_that_all_of_them_have(plan: Any, small: Path) -> None:
    read = importlib.import_module("study").seed_range
    assert (read("10"), read("5:10")) == (range(10), range(5, 10))
    for wrong in ("0", "5:5", "-1:3", "x", ":"):
        with pytest.raises(argparse.ArgumentTypeError, match="names no seeds"):
            read(wrong)
    study, everything = load_study(str(small)), range(3)
    jobs = set(jobs_run(plan, study, ["turns", "fast"], everything, lambda job: -1.0))
    parts = [set(jobs_run(plan, study, ["turns", "fast"], part, lambda job: -1.0)) for part in (range(2), range(2, 3))]
    assert parts[0] | parts[1] == jobs
    assert not any(job.learner == "turns" for job in parts[1]), "an ablation of one seed has seed 0"


def test_no_rate_is_chosen_by_the_luck_that_is_reported(plan: Any, tmp_path: Path) -> None:
    (tmp_path / "same.toml").write_text(SMALL.replace("attempts = 1", "attempts = 1, seed = 7, sweep_seed = 7"))
    with pytest.raises(ConfigError, match="sweep and report are both measured with the seed 7"):
        load_study(str(tmp_path / "same.toml"))
    (tmp_path / "small.toml").write_text(SMALL)
    small = load_study(str(tmp_path / "small.toml"))
    assert plan.measuring_seed(small, 0) != plan.measuring_seed(small, 100)


def test_unknown_studies_and_learners_are_told(small: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no study 'chess'; there are .*limits, limits-maze, maze-fo"):
        load_study("chess")
    for wrong, near in {"maze-of": "'maze-po' or 'maze-fo'", "reprot": r"'report'\?"}.items():
        with pytest.raises(ConfigError, match=f"there is no study '{wrong}'; did you mean {near}"):
            load_study(wrong)
    with pytest.raises(UsageError, match="no learner 'ppo'; there are bc, fast, turns"):
        load_study(str(small))["ppo"]
    small.write_text(SMALL.replace('after = "bc"', 'after = "cb"'))
    with pytest.raises(UsageError, match="no learner 'cb'"):
        load_study(str(small))


def test_learners_that_all_three_tasks_have_are_put_together(tmp_path: Path) -> None:
    together = importlib.import_module("study_together")
    best, earlier = ([together.table_of(name, BENCHMARKS / "results" / name) for name in g] for g in together.GROUPS)
    together.write_together(BENCHMARKS / "results", tmp_path)
    page = tmp_path / "results" / "together.md"
    assert page.with_suffix(".png").stat().st_size > 1000
    first, text = re.split(r"\n!\[.*\n", page.read_text())
    maze = best[0][2]
    assert maze["loop"].name == "loop-constant", "its name in the tables of several tasks"
    assert "loop-constant" not in maze
    for name in ("loop", "archer"):
        scores = together.scores_of(best, name)
        middle = statistics.fmean(statistics.fmean(sorted(found)[2:8]) for found in scores.values())
        assert f"| {name} | 10 + 10 + 10 | {middle:.1f} (" in first
    assert "measured after" not in first, "all play 240 episodes"
    for name in ("bc", "ppo", "loop"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        ends = [
            [study.normalized(one["return"], dataset) for one in rows[name].lines] for study, dataset, rows in earlier
        ]
        middle = statistics.fmean(statistics.fmean(sorted(scores)[2:8]) for scores in ends)
        assert f"| {middle:.1f} (" in line, "the middle half of ten seeds, of each task alike"
        high = sum(score >= 90 for scores in ends for score in scores) / 30
        assert f"| {high:.0%} (" in line
    assert "| archer-demos |" not in text, "it has four seeds on the house"
    (loop,) = [line for line in text.splitlines() if line.startswith("| loop |")]
    assert "| 204 | 600 |" in loop, "measured after 188, 212 and 212 episodes, which is not 240"
    rows = earlier[0][2]
    rows["loop"] = dataclasses.replace(rows["loop"], failed=2)
    line = together._line(earlier, "loop", 240.0, early=True)
    assert "| 10 + 10 + 10 (2 failed) |" in line
    assert "| 94% (80% … 98%) |" in line, "30 of 32 runs end at 75 or more"


def test_turns_of_rollouts_are_counted_and_shown_where_all_lines_have_them(tmp_path: Path) -> None:
    episodes, rows = (importlib.import_module(name) for name in ("study_episodes", "study_rows"))
    lines = [{"step": n, "cost/steps": 40.0, "cost/sampled": 90.0} for n in (1, 2)] + [{"step": 2, "eval/return": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = episodes.played_of(read_run(tmp_path))
    assert found == {"played_turns": 80.0, "played_tokens": 180.0}

    def table_of(*lines: dict[str, float]) -> list[str]:
        traces = ((0.0, 0.1), (10.0, 0.2))
        row = rows.Row("vine-ppo", None, lines, (traces,) * 2, (None,) * 2, ((),) * 2, 0)
        table: list[str] = episodes.played_table([row])
        return table

    other = {"played_turns": 120.0, "played_tokens": 180.0, "episodes": 10.0}
    assert table_of(found | {"episodes": 10.0}, other)[-1] == "| vine-ppo | 10 | 100 | 180 |"
    assert table_of({"episodes": 10.0}, other) == []


def test_a_learner_to_draw_must_exist(small: Path) -> None:
    small.write_text(SMALL.replace("\n[shared]", 'drawn = ["bc", "quick"]\n[shared]'))
    with pytest.raises(UsageError, match="no learner 'quick'; there are bc, fast, turns"):
        load_study(str(small))


def test_what_was_clipped_is_a_mean_over_steps_and_missing_without_ratios(tmp_path: Path) -> None:
    clipping_of = importlib.import_module("study_rows").clipping_of
    clipped = [{"step": n + 1, "clip_low": 0.1 * n, "clip_high": 0.0, "ratio_p99": 1.5} for n in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in clipped))
    found = clipping_of(read_run(tmp_path))
    assert (found.low, found.high, found.p99) == (pytest.approx(0.1), 0.0, 1.5)
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 0.0}) + "\n")
    assert clipping_of(read_run(tmp_path)) is None


def test_tables_are_replaced_and_what_stands_above_them_stays(report: Any, tmp_path: Path) -> None:
    file = tmp_path / "maze.md"
    report.place(file, "Maze", "first")
    assert file.read_text() == f"# Maze\n\n{report.MARK}\n\nfirst\n"
    file.write_text(file.read_text().replace("# Maze\n", "# Maze\n\n**Verdict**: none.\n"))
    report.place(file, "Maze", "second")
    assert file.read_text() == f"# Maze\n\n**Verdict**: none.\n\n{report.MARK}\n\nsecond\n"
    file.write_text("# Maze\n\nNo mark.\n")
    with pytest.raises(UsageError, match=r"maze\.md lacks the line <!--"):
        report.place(file, "Maze", "third")
    assert file.read_text() == "# Maze\n\nNo mark.\n"


def test_results_are_read_to_the_last_whole_line_and_the_last_of_a_run_counts(tmp_path: Path) -> None:
    study = importlib.import_module("study")
    line = {"learner": "bc", "digest": "d", "value": None, "seed": 0, "measure": "m", "return": -5.0}
    file = tmp_path / "results.jsonl"
    file.write_text(json.dumps(line | {"return": None}) + "\n" + json.dumps(line) + "\n" + '{"learner": "f')
    assert study.read_results(file) == [line]
    assert study.read_results(tmp_path / "none") == []


@pytest.mark.slow
def test_the_pages_of_results_are_what_the_kept_lines_say(report: Any, tmp_path: Path) -> None:
    pages = BENCHMARKS.parent / "docs" / "results"
    shutil.copytree(pages, tmp_path / "results")
    assert importlib.import_module("study").main(["report", "--docs", str(tmp_path)]) == 0
    for page in pages.glob("*.md"):
        assert (tmp_path / "results" / page.name).read_text() == page.read_text(), "run: benchmarks/study.py report"
    kept = {path.parent.name for path in (BENCHMARKS / "results").glob("*/data.json")}
    written = {page.stem: page.read_text() for page in pages.glob("*.md") if report.MARK in page.read_text()}
    assert set(written) == kept | {"together"}, "tables without kept lines cannot be written again"
    for name in kept:
        assert written[name].startswith(f"# {load_study(name).title}\n"), "a title is changed by hand, too"


class Forever:
    """A run that goes on until an interrupt, or one that ended without a result."""

    def __init__(self, code: int | None = None) -> None:
        self.code = code

    def poll(self) -> int | None:
        return self.code

    def interrupt(self) -> None:
        self.code = 130

    def wait(self) -> int:
        assert self.code is not None, "it would be waited for without end"
        return self.code


def test_an_error_of_the_harness_stops_every_run(plan: Any, small: Path, tmp_path: Path) -> None:
    study = importlib.import_module("study")
    harness = study.Harness(study.load_study(str(small)), tmp_path / "out", tmp_path / "kept")
    over, running = Forever(code=0), Forever()
    harness.running = [
        study.Running(plan.Job("bc", "d", None, seed), each, 0.0) for seed, each in enumerate((over, running))
    ]
    with pytest.raises(FileNotFoundError, match=r"result\.json"):
        harness.run([], [])
    assert (running.code, harness.running) == (130, [])


@pytest.mark.shift
def test_a_study_runs_resumes_and_reports(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = importlib.import_module("study")
    out, kept, docs = tmp_path / "out", tmp_path / "kept", tmp_path / "docs"
    small.write_text(SMALL.replace("[1e-3, 3e-3], seeds = 2", "[1e-3], seeds = 1"))
    places, file = ["--out", str(out), "--results", str(kept)], kept / "small" / "results.jsonl"
    assert study.main([str(small), "--learners", "bc", "--seeds", "1", *places]) == 0
    first = file.read_text()
    small.write_text(small.read_text().replace("gate = false, ", ""))
    capsys.readouterr()
    assert study.main([str(small), "--learners", "bc,fast", "--seeds", "1", *places]) == 2
    assert "is not a fair start: it does not read" in capsys.readouterr().err
    assert '"learner": "fast"' not in file.read_text(), "no learner was trained from it"
    small.write_text(small.read_text().replace("start = { ", "start = { gate = false, "))
    assert study.main([str(small), "--learners", "bc,fast", "--seeds", "1", *places]) == 0
    results = file.read_text()
    assert results.startswith(first), "what was finished is not run again"
    lines = [json.loads(line) for line in results.splitlines()]
    ran = [(line["learner"], line["value"], line["seed"]) for line in lines]
    assert len(ran) == len(set(ran)) == 1 + 1 + 1 + 1
    for line in lines:
        assert line["measured_episodes"] == 6
        assert line["cpu_seconds_training"] > 0
        assert line["episodes"] == (8 if line["learner"] == "fast" else 0), "two steps of two tasks, twice each"
        assert line["curve"], "what is reported needs the run no more"
    weights = {line["seed"]: line["weights"] for line in lines if line["learner"] == "bc"}
    started = [(line["clone"], weights[line["seed"]]) for line in lines if line["learner"] == "fast"]
    assert started
    assert all(clone == own for clone, own in started), "a line names the clone of its run"
    assert study.main([str(small), "--learners", "bc,fast", "--seeds", "1", *places]) == 0
    assert file.read_text() == results
    reading = importlib.import_module("study_reading")
    assert reading.main([str(small), "--learners", "bc,fats", *places]) == 2
    assert "fats" in capsys.readouterr().err
    for _ in range(2):
        assert reading.main([str(small), "--learners", "bc,fast", *places]) == 0
    (read,) = [one for one in reading.read_lines(kept / "small" / "reading.jsonl") if one["learner"] == "bc"]
    measured = ("plays", "reads", "low", "high")
    assert {name: read[name] for name in measured} == {name: lines[0]["start"][name] for name in measured}
    assert len(reading.read_lines(kept / "small" / "reading.jsonl")) == 2, "nothing is measured twice"
    shutil.rmtree(out)
    (kept / "small" / "reading.jsonl").rename(tmp_path / "read")
    assert reading.main([str(small), "--learners", "fast", *places]) == 1
    assert "1 runs have no model" in capsys.readouterr().out
    (tmp_path / "read").rename(kept / "small" / "reading.jsonl")
    assert study.main([str(small), "--learners", "bc", "--seeds", "2", *places]) == 0
    again = [json.loads(line) for line in file.read_text().splitlines()][len(lines) :]
    assert sorted((line["learner"], line["seed"]) for line in again) == [("bc", 0), ("bc", 1)]
    report, told = importlib.import_module("study_report"), ["report", str(small), "--docs", str(docs), "--results"]
    assert study.main([*told, str(tmp_path / "nowhere")]) == 2
    assert "run the study first" in capsys.readouterr().err
    assert study.main([*told, str(kept)]) == 0
    page = docs / "results" / "small.md"
    text = page.read_text()
    assert "| bc | – | 2 |" in text
    assert "| fast | 0.00" in text
    assert "| bc, blind | – | 2 |" in text
    assert "of return to bc (2 seeds; " in text
    assert "| oracle | – | 2 |" in text
    heads = "| learner | seeds | success | at T = 0.5 (95 %) | at T = 0 (95 %) | blind | reading adds (95 %) |"
    assert f"{heads}\n|---|---|---|---|---|---|---|\n| bc | 1 |" in text
    assert page.with_suffix(".png").stat().st_size > 1000
    small.write_text(small.read_text().replace("group_size = 2", "group_size = 4").replace("batch = 16", "batch = 8"))
    with pytest.raises(UsageError, match="made by another version of this study"):
        report.write_report(study.load_study(str(small)), kept / "small", study.read_results(file), docs)
    assert page.read_text() == text, "a table is never replaced by an empty one"


@pytest.mark.parametrize("name", ["value_explained", "critic/explained"])
def test_what_values_explain_is_of_the_last_two_thirds_and_one_step_does_not_decide(tmp_path: Path, name: str) -> None:
    values = importlib.import_module("study_values")
    lines = [{"step": n + 1, name: share} for n, share in enumerate([-9.0, -9.0, 0.1, 0.2, -40.0, 0.4])]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = values.explained_of(read_run(tmp_path))
    assert found == {"explained_median": pytest.approx(0.15), "explained": pytest.approx(-9.825)}
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 0.0}) + "\n")
    assert set(values.explained_of(read_run(tmp_path)).values()) == {None}


def test_a_mean_is_shown_where_not_all_seeds_have_a_median() -> None:
    values, rows = (importlib.import_module(name) for name in ("study_values", "study_rows"))
    old, new = {"explained": 0.5}, {"explained": 0.7, "explained_median": 0.9}

    def table_of(*lines: dict[str, float]) -> str:
        row = rows.Row("ppo", None, lines, *((None,) * 2 for _ in range(3)), 0)
        return str(values.explained_table([row])[-1])

    assert table_of(old, new) == "| ppo | mean | 0.600 |"
    assert table_of(new, new) == "| ppo | median | 0.900 |"
