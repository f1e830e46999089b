"""The help texts of the command line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import turnwise
from turnwise.cli import COMMANDS, build_app, main
from turnwise.errors import StoreError

Run = Callable[..., Any]


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"bench"}))
def test_every_command_explains_itself(run: Run, command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert f"turnwise {command}" in ran.out, "help names the command"
    if command != "version":
        assert "Examples:" in ran.out, "help shows examples"


def test_no_words_means_help(run: Run) -> None:
    ran = run()
    for command in COMMANDS:
        assert command in ran.out + ran.err


@pytest.mark.slow
def test_help_is_light() -> None:
    code = "import sys\nfrom turnwise.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
    code += "heavy = {'torch', 'transformers', 'matplotlib', 'scipy', 'pyarrow', 'httpx', 'turnwise.rollouts.runner'}\n"
    code += "found = heavy & set(sys.modules)\nassert not found, found"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"help must answer at once: {done.stderr}"


@pytest.mark.slow
def test_the_list_of_environments_is_light() -> None:
    code = "import sys\nfrom turnwise.cli import main\ntry:\n    main(['envs'])\nexcept SystemExit:\n    pass\n"
    code += "heavy = {'torch', 'transformers', 'matplotlib', 'scipy', 'pyarrow', 'fastapi', 'playwright'}\n"
    code += "found = heavy & set(sys.modules)\nassert not found, found"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"no environment needs these before an episode begins: {done.stderr}"


def test_a_near_miss_of_a_command_is_told(run: Run) -> None:
    ran = run("evla")
    assert ran.code == 2
    assert "'eval'" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("eval guess.py --seed x", "'--seed': must be an integer; got 'x'"),
        ("eval guess.py --seed -3", "'--seed': must be greater than or equal to 0; got '-3'"),
        ("eval guess.py --max-cost much", "'--max-cost': must be a number; got 'much'"),
        ("export runs/a a.jsonl --format dpo", "'--format' / '-f': 'dpo' is not one of 'chat', 'atif', 'inspect'."),
        ("watch --port abc", "'--port': must be an integer; got 'abc'"),
    ],
)
def test_a_refused_value_of_an_option_is_named(run: Run, words: str, said: str) -> None:
    ran = run(*words.split())
    assert ran.code == 2
    assert said in " ".join(ran.err.replace("│", "").split())


def test_version(run: Run) -> None:
    ran = run("version")
    assert ran.code == 0
    assert ran.out.startswith(f"turnwise {turnwise.__version__}\n")
    assert "torch " in ran.out
    assert run("--version").out == ran.out.splitlines()[0] + "\n"


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "turnwise", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"turnwise {turnwise.__version__}\n"), done.stderr


def test_help_describes_every_command_in_its_own_words() -> None:
    listed = {command.name: command.help for command in build_app("").registered_commands}
    called = {command.name: command.callback for command in build_app().registered_commands if not command.hidden}
    assert set(listed) == set(called) == set(COMMANDS)
    for name, callback in called.items():
        assert listed[name] == inspect.getdoc(callback), name


@pytest.mark.slow
def test_bench_lists_what_comes_with_the_source(run: Run) -> None:
    ran = run("bench")
    assert ran.code == 0, ran.err
    assert "runner" in ran.out
    assert "Examples:" in run("bench", "--help").out, "help is help, also where other words go to a benchmark"
    run("bench", "nothing").refused("there is no benchmark 'nothing'", "runner")


def test_debug_shows_the_traceback(run: Run) -> None:
    run("replay", "runs/nowhere").refused("runs/nowhere")
    for words in (("--debug", "replay", "runs/nowhere"), ("replay", "runs/nowhere", "--debug")):
        with pytest.raises(StoreError):
            main(words)
