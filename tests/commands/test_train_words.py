"""Arguments after ``turnwise train``: algorithms, their settings, and files of another algorithm."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import ConfigError
from turnwise.trainers import loop
from turnwise.trainers.algorithms import named as on_policy
from turnwise.trainers.options import configured, named_environment, overridden
from turnwise.trainers.registry import ALGORITHMS
from turnwise.trainers.run.run_folder import RunFolder

Run = Callable[..., Any]
LEAST = ("env=turnwise/MazeFO-v0", "model=nowhere")


def test_every_on_policy_algorithm_has_a_word() -> None:
    words = {row.algorithm for row in ALGORITHMS.values() if row.script == "on_policy"}
    assert words == set(on_policy.ALGORITHMS)


def test_a_family_without_the_split_of_evaluations_names_the_setting(run: Run, tmp_path: Path) -> None:
    words = ("train", "bc", "env=turnwise/MazeFO-v0", "demonstrations.count=1", "nano.size=0.1M", "tracking.to=[]")
    run(*words, "--out", "runs/bc").refused("eval.split is dev", "has only train", "eval.episodes=0")
    assert not (tmp_path / "runs/bc/demonstrations").exists(), "refused before anything is played"


@pytest.mark.parametrize("word", ALGORITHMS)
def test_a_word_lists_its_own_settings_and_nobody_elses(run: Run, word: str) -> None:
    ran = run("train", word, "--settings")
    assert ran.code == 0, ran.err
    names = [line.split()[0] for line in ran.out.splitlines()]
    assert {"env", "optimizer.lr", "checkpoint_every"} <= set(names)
    settings = [name for name in names if name.startswith("algorithm.")]
    assert len(settings) == len(set(settings)), "those of one algorithm"
    assert (f"algorithm.name [{ALGORITHMS[word].algorithm}]" in ran.out) is (ALGORITHMS[word].algorithm is not None)


def test_a_word_alone_is_the_environment(run: Run, tmp_path: Path) -> None:
    run("train", "bc", "turnwise/Mase-v0").refused("there is no environment 'turnwise/Mase-v0'", "turnwise/Maze-v0")
    run("train", "bc", "a.py", "steps=1", "b.py").refused("give one environment at a time, not a.py and b.py")
    model = tmp_path / "clone"
    model.mkdir()
    (model / "config.json").touch()
    run("train", "loop", str(model), "a.py").refused("one environment at a time", f"; write the model as model={model}")
    run("eval", str(model), "a.py").refused(f"; write the model as --policy {model}")
    run("train", "bc", "", "a.py").refused("an argument is empty; is a shell variable unset?")
    run("train", "bc", "envs/a=b.py").refused("there is no file envs/a=b.py")
    run("train", "hangman.py").refused("'hangman.py' is not an algorithm", "turnwise train loop hangman.py")


@pytest.mark.parametrize(
    ("text", "value"), [("a.py", "a.py"), ("'a.py'", "a.py"), ('"it\'s.py"', "it's.py"), ("7", "7")]
)
def test_a_setting_is_looked_up_as_the_configuration_reads_it(text: str, value: str) -> None:
    assert overridden(["env=b.py", f"env={text}"], "env") == value


@pytest.mark.parametrize("words", [("--out", "runs/new"), ("out=runs/new",), ("env=guess.py", "--out", "runs/new")])
def test_a_folder_without_a_run_is_not_resumed(run: Run, words: tuple[str, ...]) -> None:
    run("train", "bc", *words, "--resume").refused(
        "there is no run in runs/new to resume (no config.json); start one without --resume, or name a run's folder"
    )


@pytest.mark.parametrize("words", [("--out", "runs/old"), ("out=runs/old", "steps=9")])
def test_a_folder_with_a_run_is_named_where_resume_is_missing(
    run: Run, words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs/old").mkdir(parents=True)
    (tmp_path / "runs/old/config.json").write_text("{}")
    said = "runs/old holds a run already: continue it with --resume, or choose another --out"
    run("train", "loop", *words).refused(said)
    run("train", "loop", "guess.py", *words).refused("setting 'model' is missing")
    assert loop.main(words) == 2
    assert f"error: {said}" in capfd.readouterr().err


def test_defaults_that_a_paper_settles_are_listed_as_such(run: Run) -> None:
    assert "normalizer [turn_mean]" in run("train", "m-grpo", "--settings").out
    assert "loss.ratio_level [trajectory]" in run("train", "rloo", "--settings").out


@pytest.mark.parametrize("word", ALGORITHMS)
def test_the_file_of_a_run_gives_its_settings_back(word: str, tmp_path: Path) -> None:
    teacher = ["algorithm.teacher=none"] if word == "distill" else []
    config = configured(word, None, [*LEAST, "steps=70", "resume=true", *teacher])
    RunFolder(tmp_path, ALGORITHMS[word].algorithm or word).begin(config)
    found = configured(word, tmp_path / "config.json", ["seed=3"])
    assert found == config.model_copy(update={"seed": 3, "resume": False})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lop",), "unknown algorithm 'lop'; did you mean 'loop' or 'rloo'?"),
        (("m_grpo",), "did you mean 'm-grpo'"),
        (("--resume", "steps=6"), "'steps=6' is a setting; the algorithm comes first: turnwise train ALGORITHM"),
        (("grpo", *LEAST, "learning_rate=1e-4"), "there is no setting 'learning_rate': it is optimizer.lr"),
        (("loop", *LEAST, "branching.strategy=restart"), "there is no setting 'branching': loop plays whole attempts"),
        (("xyzzy",), "choose from bc, loop, archer"),
        (("grpo", *LEAST, "group_size=1"), "group_size=1 leaves grpo without a baseline"),
        (
            ("gigpo", *LEAST, "algorithm.omgea=1"),
            "there is no setting 'algorithm.omgea'; did you mean 'algorithm.omega'?",
        ),
        (
            ("rloo", *LEAST, "algorithm.name=grpo"),
            "algorithm.name is set to 'grpo': use `turnwise train grpo`",
        ),
        (("ilql", *LEAST, "algorithm.name=monte_carlo"), "use `turnwise train mc`, not ilql"),
        (("ppo", "--config", "grpo-maze"), "grpo-maze.toml sets algorithm.name to 'grpo': use `turnwise train grpo`"),
    ],
)
def test_a_wrong_word_or_file_is_told_in_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    run("train", *words).refused(said)


def test_a_file_for_another_algorithm_has_a_line_for_each_setting_that_is_not_there(run: Run) -> None:
    wrong = [f"there is no setting '{name}'" for name in ("batch", "demonstrations", "nano")]
    run("train", "grpo", "--config", "bc-maze").refused(*wrong, "setting 'model' is missing", lines=4)


def test_a_file_may_leave_the_name_to_the_word(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('env = "e"\nmodel = "m"\n[algorithm]\nstd = "batch"\n')
    config: Any = configured("grpo", file)
    assert (config.algorithm.name, config.algorithm.std) == ("grpo", "batch")
    with pytest.raises(ConfigError, match=r"there is no setting 'algorithm\.std'"):
        configured("rloo", file)


def test_a_checkpoint_of_another_algorithm_is_refused(run: Run) -> None:
    small: tuple[str, ...] = (
        "env=turnwise/MazeFO-v0",
        "agent.context=last:1",
        "agent.max_tokens=4",
        "eval.episodes=0",
        "threads=1",
    )
    small += ("tracking.to=[]", "episodes.env_kwargs.max_turns=4", "steps=1")
    nano = ("nano.layers=1", "nano.hidden=32", "demonstrations.count=2", "batch=4")
    assert run("train", "bc", *small, *nano, "--out", "runs/bc").code == 0
    model = "model=runs/bc/model"
    trained = run("train", "grpo", *small, model, "tasks_per_step=2", "group_size=2", "--out", "runs/one")
    assert trained.code == 0, trained.err
    run("train", "rloo", *small, model, "tasks_per_step=2", "group_size=2", "--out", "runs/one", "--resume").refused(
        "'grpo'", "'rloo'"
    )


@pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")
def test_the_module_runs_by_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["on_policy", "algorithm.name=nobody", *LEAST])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("turnwise.trainers.on_policy", run_name="__main__", alter_sys=True)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("error: setting 'algorithm.name' cannot be 'nobody'; choose from reinforce, rloo")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_wrong_environment_is_found_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('env = "turnwise/Mazze-v0"\nmodel = "nowhere"\n')
    code = "import sys, turnwise.cli\ntry:\n    turnwise.cli.main(sys.argv[1:])\nfinally:\n"
    code += "    assert 'torch' not in sys.modules"
    command = [sys.executable, "-c", code, "train", "grpo", "--config", "wrong.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Did you mean turnwise/Maze-v0" in done.stderr


@pytest.mark.parametrize(
    ("file", "overrides", "env"),
    [
        ('env = "a/A-v0"', ["steps=1"], "a/A-v0"),
        ('env = "a/A-v0"', ["env=b/B-v0", 'env="c/C-v0"'], "c/C-v0"),
        ("env = = 3", [], None),
        ("env = 3", [], None),
        ("steps = 3", [], None),
    ],
)
def test_the_environment_is_read_from_the_file_and_overrides(
    tmp_path: Path, file: str, overrides: list[str], env: str | None
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(file)
    assert named_environment(path, overrides) == env
