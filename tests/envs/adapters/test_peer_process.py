"""The process of a package's games: it ends with its owner, and one game's error stays its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.adapters import peer_process
from turnwise.envs.adapters.hosted_env import HostedEnv
from turnwise.envs.adapters.peer_process import HostedGame
from turnwise.errors import EnvironmentDiedError, EnvironmentFailedError, UsageError

HERE = str(Path(__file__).parent)


def command_of(module: str, *arguments: object) -> list[str]:
    """The command of a child whose games are in a module of this folder."""
    path = [HERE, *(each for each in sys.path if isinstance(each, str))]
    call = f"main({', '.join(map(repr, arguments))})"
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; from {module} import main; {call}"]


@pytest.fixture(autouse=True)
def games(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the games of this folder, and leave no process."""
    monkeypatch.setattr(peer_process, "child_command", command_of)
    yield
    for child in list(peer_process._running.values()):
        child.stop()
    peer_process._running.clear()


def game() -> HostedGame:
    """A new game."""
    return HostedGame("hosted_games")


def hanging_call(one: HostedGame) -> threading.Event:
    """Call a method that hangs, in another thread; the event is set when the call has failed."""
    ended = threading.Event()

    def hang() -> None:
        with pytest.raises(EnvironmentDiedError):
            one.ask("begin", hang=True)
        ended.set()

    threading.Thread(target=hang, daemon=True).start()
    return ended


def gone(*pids: int) -> bool:
    """Whether processes end within some seconds; one that is not reaped yet has ended."""
    for _ in range(1200):
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_games_error_leaves_the_others_alone() -> None:
    good, bad = game(), game()
    assert good.ask("begin")["text"] == "hi"
    with pytest.raises(UsageError, match="begin takes only values that JSON has"):
        bad.ask("begin", hang=object())
    with pytest.raises(EnvironmentFailedError, match="not JSON serializable"):
        bad.ask("odd")
    with pytest.raises(EnvironmentFailedError, match="SystemExit: 3"):
        bad.ask("leave")
    assert good.ask("begin")["value"] == 1


class Odd(HostedEnv):
    """An environment of these games, which scores them."""

    child = "hosted_games"

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self._points = 0
        self._limit_turns(100.5 + task.seed)
        return str(self._begin_game()["text"])

    def act(self, action: tw.Action) -> tw.Step:
        return tw.running("", self._gain(int(action.text), 10))

    def oracle(self) -> str:
        return str(self._ask_game("begin")["value"])


def test_an_environment_has_the_limit_of_its_task_and_pays_what_its_score_gains() -> None:
    env = Odd()
    with pytest.raises(UsageError, match=r"no episode has started; call reset\(\) first"):
        env.oracle()
    env.reset(seed=3)
    assert (env.max_turns, env.oracle()) == (103, "1")
    assert [env.step(each)[1] for each in ("5", "3", "3")] == [0.5, -0.2, 0.0]
    env.close()
    short = Odd(max_turns=2)
    short.reset(seed=3)
    assert short.max_turns == 2
    with pytest.raises(UsageError, match="max_turns must be an integer of at least 1; got 0"):
        Odd(max_turns=0)
    short.close()


def test_a_dead_process_has_a_reason() -> None:
    one = game()
    own = one.ask("start_process")
    with pytest.raises(EnvironmentDiedError, match="died in crash: exit code 7, the heap is gone"):
        one.ask("crash")
    assert not one.usable
    assert gone(own), "what a game started ends with its process"


def test_a_game_that_hangs_is_killed_and_the_others_do_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, hanging = game(), game()
    own = waiting.ask("start_process")
    errors: list[Any] = []

    def wait() -> None:
        while not hanging._child._turn.locked():
            time.sleep(0.01)
        with pytest.raises(EnvironmentDiedError) as died:
            waiting.ask("begin")
        errors.append(died.value)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    with monkeypatch.context() as patch:
        patch.setattr(peer_process, "MOST_SECONDS", 0.5)
        with pytest.raises(EnvironmentDiedError, match=r"no answer for 0\.5 s in begin"):
            hanging.ask("begin", hang=True)
    thread.join(60)
    assert len(errors) == 1
    assert gone(waiting._child._process.pid, own)
    assert not Path(waiting._child._folder).exists()
    assert game().ask("begin")["text"] == "hi", "the next game has a new process"


def test_a_game_that_waits_to_begin_does_not_die_with_another() -> None:
    env, hanging = Odd(), game()
    env.reset(seed=0)
    ended, process = hanging_call(hanging), hanging._child
    while not process._turn.locked():
        time.sleep(0.01)
    begun: list[Any] = []
    thread = threading.Thread(target=lambda: begun.append(env.reset(seed=1)), daemon=True)
    thread.start()
    time.sleep(0.3)  # until it waits; if it comes later, it finds a new process anyway
    process.stop()
    thread.join(60)
    assert begun, "its call was never sent, so another process may answer it"
    assert ended.wait(60)
    assert env.oracle() == "1"
    env.close()


def test_the_next_game_finds_the_package_loaded() -> None:
    one = game()
    assert one.ask("begin")["text"] == "hi"
    process = one._child._process.pid
    one.close()
    other = game()
    assert other.ask("begin")["text"] == "hi"
    assert other._child._process.pid == process, "to load a package takes seconds"
    other.close()
    other._child._process.kill()
    third = game()
    assert third.ask("begin")["text"] == "hi", "one that has ended meanwhile is replaced"
    assert third._child._process.pid != process


def test_a_process_without_games_ends_itself_and_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_IDLE_SECONDS", "0.2")
    one = game()
    own = one.ask("start_process")
    process, folder = one._child._process.pid, Path(one._child._folder)
    assert alive(process), "while it has a game, it waits for calls"
    one.close()
    assert gone(process, own)
    assert not folder.exists()


def test_a_call_that_hangs_ends_with_the_last_game() -> None:
    hanging = game()
    own = hanging.ask("start_process")
    ended = hanging_call(hanging)
    while not hanging._child._turn.locked():
        time.sleep(0.01)
    hanging.close()
    assert ended.wait(60)
    assert gone(hanging._child._process.pid, own)


def test_stop_ends_a_call_that_waits_in_another_thread() -> None:
    hanging = game()
    own, ended = hanging.ask("start_process"), hanging_call(hanging)
    time.sleep(0.3)
    hanging._child.stop()
    assert ended.wait(60)
    assert gone(hanging._child._process.pid, own)


def test_the_process_ends_with_its_owner_though_a_game_hangs() -> None:
    program = f"""
import sys; sys.path.insert(0, {HERE!r})
import threading, time
from turnwise.envs.adapters import peer_process
import test_peer_process
peer_process.child_command = test_peer_process.command_of
one, other = test_peer_process.game(), test_peer_process.game()
own = other.ask("start_process")
threading.Thread(target=lambda: one.ask("begin", hang=True), daemon=True).start()
time.sleep(0.3)
print(one._child._process.pid, own, one._child._folder, flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    child, own, folder = owner.stdout.readline().split()
    assert alive(int(child))
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert gone(int(child), int(own))
    assert not Path(folder).exists()
