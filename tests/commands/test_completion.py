"""The completions that a shell offers after Tab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def tab(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """``tab("turnwise ev")``: the words that bash would offer."""

    def completed(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_TURNWISE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        ran = run()
        assert ran.code == 0, ran.err
        return list(ran.out.split())

    return completed


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("turnwise ev", {"eval"}),
        ("turnwise eval turnwise/MazeF", {"turnwise/MazeFO-v0"}),
        ("turnwise certify turnwise/Maze-v0 turnwise/Word", {"turnwise/Wordle-v1"}),
        ("turnwise train arc", {"archer"}),
        ("turnwise train loop env=turnwise/MazeF", {"env=turnwise/MazeFO-v0"}),
        ("turnwise train loop env = turnwise/MazeF", {"turnwise/MazeFO-v0"}),  # bash divides words at =
        ("turnwise data --res", {"--resume"}),
        ("turnwise eval my_env.p", set()),  # bash then offers files
    ],
)
def test_completion(tab: Callable[[str], list[str]], line: str, offered: set[str]) -> None:
    assert set(tab(line)) == offered


def test_every_command_is_offered(tab: Callable[[str], list[str]]) -> None:
    assert {"envs", "train", "leaderboard"} <= set(tab("turnwise "))


def test_the_script_for_bash_calls_turnwise(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    ran = run("--show-completion")
    assert "_TURNWISE_COMPLETE=complete_bash" in ran.out
    assert "complete -o default -F _turnwise_completion turnwise" in ran.out
