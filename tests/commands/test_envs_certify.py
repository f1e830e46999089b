"""``turnwise envs``, ``new`` and ``certify``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.commands import envs
from turnwise.commands.certify import _chosen
from turnwise.commands.envs import Row, folded
from turnwise.envs.registry import MODULES, find

Run = Callable[..., Any]


@pytest.mark.slow
def test_envs_lists_as_text_and_json(run: Run) -> None:
    rows = json.loads(run("envs", "turnwise/", "--json").out)
    table, short = run("envs", "turnwise/").out, run("envs").out
    assert len(rows) >= 8
    assert len(short.splitlines()) <= 50, "the list without a pattern fits on a screen"
    for row in rows:
        assert row["id"] in table
        assert row["problem"] or row["id"] in short or "/MiniWoB-" in row["id"]
        assert row["problem"] or row["levels"], "an environment has levels, or a reason why it cannot be made"
        assert row["source"] == "turnwise"


@pytest.mark.parametrize("installed", [True, False])
def test_a_large_family_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setitem(MODULES, "some", ("json",) if installed else ("no_such_module",))
    for number in range(20):
        tw.register(f"cli/E{number:02}-v0", "turnwise.envs.games.maze:MazeU", extra="some")
    (line,) = (line for line in run("envs").out.splitlines() if "cli/E" in line)
    if installed:
        assert "cli/E00-v0 and 19 more" in line
    else:
        assert line.startswith("20 more, cli/E00-v0 to cli/E19-v0: needs pip install 'turnwise[some]'")


def test_a_missing_package_is_one_line() -> None:
    lacking = [Row(f"a/E{number}-v0", "a", problem=f"a/E{number}-v0 needs 'x'") for number in range(3)]
    alone = Row("b/E-v0", "b", problem="needs 'y'")
    shown, lines = folded([*lacking, alone, Row("c/E-v0", "c")])
    assert [row.id for row in shown] == ["b/E-v0", "c/E-v0"]
    assert lines == ["3 more, a/E0-v0 to a/E2-v0: needs 'x' (`turnwise envs '*'` lists them)"]


def test_envs_takes_parts_and_patterns(run: Run) -> None:
    assert {row["id"].split("/")[1][:4] for row in json.loads(run("envs", "/MAZE", "--json").out)} == {"Maze"}
    assert [row["id"] for row in json.loads(run("envs", "*/Maze-v?", "--json").out)] == ["turnwise/Maze-v0"]
    run("envs", "Maez-v0").refused("no environment matches", "turnwise/Maze-v0")


def test_envs_lists_what_a_file_registers(run: Run, tmp_path: Path) -> None:
    (row,) = json.loads(run("envs", "guess.py", "--json").out)
    assert (row["id"], row["problem"]) == ("demo/GuessNumber-v0", None)
    assert "demo/GuessNumber-v0" in run("envs", "guess.py:demo/*").out
    run("envs", "guess.py:demo/Other-v0").refused("no environment matches 'guess.py:demo/Other-v0'")
    run("envs", "gone.py").refused("there is no file gone.py")
    (tmp_path / "empty_cli.py").write_text("import turnwise\n")
    run("envs", "empty_cli.py").refused("empty_cli.py has no environment: it registers none")


def test_envs_says_which_environments_it_cannot_list(run: Run) -> None:
    run("envs", "minigrid").refused("of minigrid are not listed", "minigrid/BabyAI-GoToRedBall-v0")
    run("envs", "gymnasium/CartPole-v1").refused("of gymnasium are not listed", "gymnasium/FrozenLake-v1")
    assert "minigrid/…" in run("envs").out
    assert "(actions=tags)" in run("envs", "SearchTags").out.replace("\n", " "), "one class has two ids"


def test_envs_shows_arguments_shortly_as_they_are_and_without_secrets(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    maze, prompt = "turnwise.envs.games.maze:MazeU", "[bold]Go.[/] " * 50
    monkeypatch.setattr(envs, "make", lambda id: tw.make("turnwise/MazeU-v0"))
    tw.register("cli/Long-v0", maze, kwargs={"prompt": prompt})
    tw.register("cli/Keyed-v0", maze, kwargs={"api_key": "sk-abcdef", "max_turns": 3})
    for words in (("envs",), ("envs", "cli/")):
        out = run(*words).out
        assert "[bold]Go.[/]" in out, "what looks like markup is shown"
        assert out.count("Go.") <= 5
        assert "sk-abcdef" not in out
        assert "max_turns=3" in out


def test_envs_lists_what_cannot_be_made(run: Run) -> None:
    tw.register("cli/Broken-v0", "no_such_module:Nothing")
    tw.register("cli/Extra-v0", "no_such_module:Nothing", extra="chess")
    broken, extra = json.loads(run("envs", "cli/", "--json").out)
    assert "no_such_module" in broken["problem"]
    assert "pip install" in extra["problem"]


@pytest.mark.slow
def test_certify_passes_what_is_right(run: Run) -> None:
    ran = run("certify", "guess.py", "--law", "oracle_solves", "--law", "fork_is_independent", "--json")
    assert ran.code == 0, ran.err + ran.out
    (certificate,) = json.loads(ran.out)
    assert certificate["passed"]
    assert {verdict["law"] for verdict in certificate["verdicts"]} >= {"oracle_solves", "fork_is_independent"}


@pytest.mark.slow
def test_certify_names_the_broken_law(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "guess.py").read_text().replace("rng.pick(self.left)", "__import__('random').choice(self.left)")
    text = text.replace("        guess = ", "        print('DEBUG')\n        guess = ")
    (tmp_path / "unseeded.py").write_text(text.replace("demo/", "cli/"))
    ran = run("certify", "unseeded.py", "--quick", "--law", "no_global_rng", "--law", "begins")
    assert ran.code == 1, "a broken law is a failure"
    assert "unseeded.py 1/2 pass begins" in ran.err, "progress has a line per law"
    assert "DEBUG" not in ran.out, "standard output has the certificate and nothing else"
    assert "NOT certified" in ran.out
    assert "FAIL  no_global_rng" in ran.out


@pytest.mark.slow
def test_certify_tries_several_in_processes_of_their_own(run: Run) -> None:
    ran = run("certify", "guess.py", "turnwise/MazeU-v0", "--quick", "--law", "same_seed_same_episode", "-j", "2")
    assert ran.code == 0, ran.err + ran.out
    assert "2 of 2 environments are certified" in ran.out


@pytest.mark.slow
def test_certify_survives_what_ends_its_process(run: Run, tmp_path: Path) -> None:
    text = (
        (tmp_path / "guess.py").read_text().replace('return "Guess', '__import__("os")._exit(3)\n        return "Guess')
    )
    (tmp_path / "deadly.py").write_text(text.replace("demo/", "cli/"))
    ran = run("certify", "deadly.py", "guess.py", "--quick", "--law", "oracle_solves", "-j", "1")
    assert ran.code == 1
    assert "its process died with exit code 3" in ran.out
    assert "demo/GuessNumber-v0: certified" in ran.out, "one environment's death is not another's"


KEYED = """\
import turnwise as tw

class Keyed(tw.TurnEnv):
    def __init__(self, key="", **kwargs):
        self.key = key
        super().__init__(**kwargs)
    def start(self, task, rng):
        assert self.key == "right"
        return f"Say {rng.pick(list('abcd'))}."
    def act(self, action):
        return tw.success("Yes.")

tw.register("cli/Keyed-v0", Keyed)
"""


@pytest.mark.slow
def test_certify_makes_environments_with_the_arguments_given_in_other_processes_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keyed.py").write_text(KEYED)
    words = ("certify", "keyed.py", "--quick", "--law", "begins", "--law", "two_processes_agree")
    ran = run(*words, "env_kwargs.key=right")
    assert ran.code == 0, ran.err + ran.out
    assert "2 laws hold" in ran.out
    assert run(*words).code == 1, "without the argument it cannot begin"
    run(*words, "env_kwargs.kye=right").refused("does not take the argument 'kye'")


def test_arguments_that_mean_nothing_are_refused(run: Run) -> None:
    run("certify", "--all", "env_kwargs.max_turns=3").refused("environments that you name")
    run("certify", "turnwise/Maze-v0", "max_turns=3").refused("write its arguments as env_kwargs.KEY=VALUE")
    run("certify", "turnwise/Maze-v0", "env_kwargs.max_turns=abc").refused("must be an integer; got 'abc'")


def test_certify_lists_its_laws(run: Run) -> None:
    listed = run("certify", "--laws").out
    assert "fork_is_independent: " in listed
    assert len(listed.splitlines()) >= 30


@pytest.mark.slow
def test_all_leaves_out_what_is_exempt_from_every_law(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred ids without a verdict would hide the others, and would count as certified."""
    chosen = _chosen([], everything=True)
    assert {"turnwise/Maze-v0", "turnwise/WebHTML-v1", "turnwise/CodeRepair-v3"} <= set(chosen)
    assert not [id for id in chosen if "/MiniWoB-" in id]
    if find("turnwise/MiniWoB-ClickTest-v1").lacks is None:
        assert "128 environments are exempt from every law: the page judges itself" in capsys.readouterr().err
        assert _chosen(["turnwise/MiniWoB-ClickTest-v1"], everything=False), "a named one is shown with its exemption"


@pytest.mark.slow
def test_certify_wants_names_or_all(run: Run) -> None:
    run("certify").refused("--all")
    run("certify", "turnwise/Maze-v0", "--all").refused("--all")
    run("certify", "turnwise/Maez-v0").refused("Did you mean turnwise/Maze-v0")
    run("certify", "guess.py", "--law", "be_nice").refused("there is no law 'be_nice'")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["turn", "tool"])
def test_new_writes_an_environment_that_certifies(run: Run, kind: str) -> None:
    ran = run("new", "my_env", "--kind", kind)
    assert ran.code == 0, ran.err
    assert "turnwise certify my_env" in ran.out, "it says what to do next"
    ran = run("certify", "my_env", "--quick")
    assert ran.code == 0, ran.out + ran.err
    assert "my_env/MyEnv-v0: certified" in ran.out
    assert "success 100.0 %" in run("eval", "my_env", "-p", "oracle", "-n", "3", "--no-report").out
    run("new", "my_env", "--kind", kind).refused("my_env", "exists")
    run("new", "2bad name").refused("2bad name")
