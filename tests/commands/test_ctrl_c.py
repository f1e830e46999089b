"""Ctrl-C during evaluation, or a signal that schedulers send, leaves a store that can be resumed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from turnwise.cli import main
from turnwise.commands.terminal import INTERRUPTED, resumable
from turnwise.rollouts.store import load_episodes
from turnwise.stop_signals import STOPS

SLOW = '''
import time
import turnwise as tw


class Slow(tw.TurnEnv):
    """Takes its time, and leaves a file when it has begun."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        open("begun", "a").close()
        return "go"

    def act(self, action: tw.Action) -> tw.Step:
        time.sleep(SECONDS)
        return tw.success("done") if self.turn > 2 else tw.running("more")

    def oracle(self) -> str:
        return "x"


tw.register("cli/Slow-v0", Slow)
'''


@pytest.mark.parametrize("kind", [signal.SIGINT, *STOPS])
def test_every_signal_says_how_to_go_on(kind: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    outer = signal.getsignal(kind)
    before = signal.default_int_handler if kind is signal.SIGINT else signal.SIG_DFL
    signal.signal(kind, before)  # as a command finds it; Ray, used by a test before, leaves its own in the process
    with pytest.raises(typer.Exit) as ended, resumable("Use --resume."):
        signal.raise_signal(kind)
    assert ended.value.exit_code == INTERRUPTED
    assert capsys.readouterr().err == "turnwise: interrupted. Use --resume.\n"
    assert signal.getsignal(kind) == before, "the handlers of before are back"
    signal.signal(kind, outer)


def test_ctrl_c_prints_one_line_wherever_a_command_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer turns it into an exit, which printed nothing outside the part of a command that can be resumed."""

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnwise.commands.version.platform.python_version", stopped)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["version"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == INTERRUPTED
    assert capsys.readouterr().err == "turnwise: interrupted.\n"


def test_the_signals_that_stop_a_command() -> None:
    assert set(STOPS) == {signal.SIGTERM, signal.SIGHUP}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.shift) for each in STOPS)],
    ids=lambda kind: kind.name,
)
def test_eval_keeps_what_was_played(
    run: Callable[..., Any], ctrl_c: Callable[..., Any], tmp_path: Path, kind: signal.Signals
) -> None:
    (tmp_path / "slow_cli.py").write_text(SLOW.replace("SECONDS", "0.02"))
    words = ("eval", "slow_cli.py", "-p", "oracle", "-n", "60", "concurrency=2", "--out", "runs/slow", "--no-report")
    store = tmp_path / "runs" / "slow" / "episodes"
    ctrl_c(words, lambda: any(store.glob("part-*.parquet")), kind).interrupted()
    kept = {episode.episode_id for episode in load_episodes(store)}
    assert 0 < len(kept) < 60, "what was played is kept"
    ran = run(*words, "--resume")
    assert ran.code == 0, ran.err
    ids = [episode.episode_id for episode in load_episodes(store)]
    assert len(ids) == len(set(ids)) == 60, "every episode is there once"
    assert kept <= set(ids), "nothing is played again"


PRESSES = """
import os, signal
import turnwise as tw
from turnwise.agents import Decision


class Presses:
    acts = 0

    def start(self, context):
        return self

    async def act(self, observation):
        self.acts += 1
        if self.acts == 31:
            os.kill(os.getpid(), signal.SIGTERM)
            open("goes_on", "a").close()
        return Decision(tw.Action("x"))
"""


@pytest.mark.slow
def test_eval_in_the_background_of_a_script_ends_in_order_on_sigterm(
    ctrl_c: Callable[..., Any], tmp_path: Path
) -> None:
    """SIGINT is ignored there. SIGTERM raised KeyboardInterrupt at the current line, whatever that was doing."""
    (tmp_path / "slow_cli.py").write_text(SLOW.replace("SECONDS", "0.0"))
    (tmp_path / "presses_cli.py").write_text(PRESSES)
    words = ("eval", "slow_cli.py", "-p", "function:presses_cli:Presses", "-n", "60", "concurrency=1", "--no-report")
    ended = ctrl_c((*words, "--out", "runs/slow"), lambda: False, background=True)  # it sends itself the signal
    ended.interrupted()
    assert (tmp_path / "goes_on").exists(), "the step of the event loop is finished"
    assert len(ended.err.splitlines()) == 1, ended.err
    assert 0 < len(load_episodes(tmp_path / "runs" / "slow" / "episodes")) < 60
    assert "interrupted: " in (tmp_path / "runs" / "slow" / "summary.json").read_text()


@pytest.mark.slow
def test_eval_before_the_first_episode(ctrl_c: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "slow_cli.py").write_text(SLOW.replace("SECONDS", "0.5"))
    words = ("eval", "slow_cli.py", "-p", "oracle", "-n", "4", "--out", "runs/slow")
    ctrl_c(words, (tmp_path / "begun").exists).interrupted()


@pytest.mark.slow
def test_certify_keeps_the_laws_that_are_settled(ctrl_c: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "slow_cli.py").write_text(SLOW.replace("SECONDS", "0.1"))
    words = ("certify", "slow_cli.py", "--quick", "--out", "laws.jsonl")
    ended = ctrl_c(words, (tmp_path / "begun").exists)
    ended.interrupted()
    assert "Settled laws are in laws.jsonl: add --resume" in ended.err
