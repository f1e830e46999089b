"""An evaluation in a user's hands: complete, interrupted, resumed, extended, on broken environments."""

from __future__ import annotations

import importlib.util
import io
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import turnwise as tw
from turnwise import (
    Action,
    Episode,
    Outcome,
    Rng,
    Split,
    Step,
    TaskFamily,
    TaskSpec,
    TurnEnv,
    failure,
    running,
    success,
)
from turnwise.agents.named import agent_from
from turnwise.agents.scripted import FunctionAgent, MixedAgent, NullAgent, OracleAgent, RandomAgent
from turnwise.config import load_config
from turnwise.envs.wrappers.turn_limit import TurnLimit
from turnwise.errors import ConfigError, ContractError, StoreError, UnknownEnvironmentError, UsageError
from turnwise.evals.evaluation import check_evaluation, run_evaluation, run_evaluation_async
from turnwise.evals.formatting import failures, not_scored
from turnwise.evals.settings import EvalConfig
from turnwise.evals.summary import Summary
from turnwise.evals.terminal import print_summary
from turnwise.rollouts.store import MANIFEST, load_episodes


class Doors(TaskFamily[int]):
    name = "doors"
    levels = (1, 2)
    splits = (Split.TRAIN, Split.TEST_IID)

    def build(self, spec: TaskSpec, rng: Rng) -> int:
        return 3 * spec.seed + rng.randrange(3)  # every seed is an instance of its own


class OneDoor(TurnEnv):
    """Find the door in one or two guesses."""

    family = Doors()
    max_turns = 2
    blocking = False

    def start(self, task: int, rng: Rng) -> str:
        self.door = task % 3
        return "Which door, 0 to 2?"

    def act(self, action: Action) -> Step:
        guess = action.integer()
        if guess == self.door:
            return success("Open.")
        return running("Shut.") if guess in range(3) else failure("There is no such door.")

    def oracle(self) -> str:
        return str(self.door)

    def random_action(self, rng: Rng) -> str:
        return str(rng.randrange(3))


class Breaks(OneDoor):
    """Fails on every level 2 task."""

    def start(self, task: int, rng: Rng) -> str:
        if self.task.level == 2:
            raise RuntimeError("the world is lost")
        return super().start(task, rng)


def config(**fields: object) -> EvalConfig:
    return EvalConfig.model_validate({"env": "demo/OneDoor-v0", "concurrency": 4, "retries": 0, "backoff": 0, **fields})


def test_the_oracle_solves_everything_on_test_tasks(tmp_path: Path) -> None:
    summary = run_evaluation(config(n=30), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    assert (summary.success.value, summary.scored, summary.tasks, summary.policy) == (1.0, 30, 30, "OracleAgent")
    assert [level.episodes for level in summary.levels] == [15, 15]
    assert summary.complete
    assert {episode.task.split for episode in load_episodes(tmp_path / "run")} == {Split.TEST_IID}


def test_the_null_policy_solves_nothing_and_is_called_unparseable(tmp_path: Path) -> None:
    summary = run_evaluation(config(n=10), NullAgent(), store=tmp_path / "run", env=OneDoor)
    assert summary.success.value == 0
    assert summary.failures == {"unparseable": 10}


def test_failures_are_told_apart(tmp_path: Path) -> None:
    wrong = run_evaluation(config(n=8), FunctionAgent(lambda text: "7"), store=tmp_path / "wrong", env=OneDoor)
    assert wrong.failures == {"wrong answer": 8}
    stuck = run_evaluation(config(n=30), FunctionAgent(lambda text: "1"), store=tmp_path / "stuck", env=OneDoor)
    assert set(stuck.failures) == {"turn limit"}


def test_groups_are_attempts_at_one_task(tmp_path: Path) -> None:
    summary = run_evaluation(config(n=10, group_size=4), RandomAgent(), store=tmp_path / "run", env=OneDoor)
    assert (summary.scored, summary.tasks) == (40, 10)
    assert [p.k for p in summary.pass_k] == [2, 4]
    assert all(p.hat.value <= summary.success.value <= p.at.value for p in summary.pass_k)


def test_broken_environments_are_counted_and_never_scored(tmp_path: Path) -> None:
    summary = run_evaluation(config(n=12), OracleAgent(), store=tmp_path / "run", env=Breaks)
    assert (summary.scored, summary.success.value) == (6, 1.0), "what broke says nothing about the oracle"
    assert sum(summary.infrastructure.values()) == 6


def test_nothing_but_failures_is_an_error_that_names_the_cause(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none of 4 episodes is scored.*the world is lost"):
        run_evaluation(config(n=4, levels=[2]), OracleAgent(), store=tmp_path / "run", env=Breaks)


class _Stop:
    """Presses Ctrl-C after some episodes."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, episode: Episode) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    agent, settings = MixedAgent([0.5]), config(n=40, concurrency=3)
    whole = run_evaluation(settings, agent, store=tmp_path / "whole", env=OneDoor)
    partial = run_evaluation(settings, agent, store=tmp_path / "cut", env=OneDoor, on_episode=_Stop(13))
    assert not partial.complete
    assert (partial.episodes, partial.planned) == (13, 40)
    assert "interrupted: 13 of 40" in partial.notes[0]
    resumed = run_evaluation(settings, agent, store=tmp_path / "cut", env=OneDoor, resume=True)
    assert resumed.complete
    assert resumed.success == whole.success
    assert resumed.mean_return == whole.mean_return
    assert resumed.failures == whole.failures
    ids = Counter(episode.episode_id for episode in load_episodes(tmp_path / "cut"))
    assert set(ids.values()) == {1}, "no episode is played twice"
    assert set(ids) == {episode.episode_id for episode in load_episodes(tmp_path / "whole")}


def test_a_refused_evaluation_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store would look like that of an interrupted one."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # no Ray, which is found out late
    refused = config(n=2, rollouts={"engine": "ray"})
    run_evaluation(config(n=2), OracleAgent(), store=tmp_path / "played" / "episodes", env=OneDoor)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").touch()
    for out, resume in (("new", False), ("new", True), ("mine", False), ("played", True)):
        with pytest.raises(UsageError, match="needs Ray"):
            run_evaluation(refused, OracleAgent(), store=tmp_path / out / "episodes", env=OneDoor, resume=resume)
    assert not (tmp_path / "new").exists()
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["note.txt"], "a user's own file stays"
    assert len(load_episodes(tmp_path / "played" / "episodes")) == 2, "episodes of an earlier evaluation stay"


def test_ctrl_c_before_anything_was_scored_stays_ctrl_c(tmp_path: Path) -> None:
    def press(episode: Episode) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_evaluation(config(n=4, levels=[2]), OracleAgent(), store=tmp_path / "run", env=Breaks, on_episode=press)


def test_resuming_plays_again_what_the_machinery_failed(tmp_path: Path) -> None:
    run_evaluation(config(n=12), OracleAgent(), store=tmp_path / "run", env=Breaks)
    mended = run_evaluation(config(n=12), OracleAgent(), store=tmp_path / "run", env=_Mended, resume=True)
    assert (mended.scored, dict(mended.infrastructure)) == (12, {})
    assert mended.retried == 6, "what was tried before is not forgotten"


class _Mended(OneDoor):
    """``Breaks``, repaired."""


_Mended.__qualname__ = Breaks.__qualname__


def test_a_longer_evaluation_continues_a_shorter_one(tmp_path: Path) -> None:
    played: list[Episode] = []
    run_evaluation(config(n=10), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    summary = run_evaluation(
        config(n=16), OracleAgent(), store=tmp_path / "run", env=OneDoor, resume=True, on_episode=played.append
    )
    assert (summary.scored, len(played)) == (16, 6)


def test_a_store_with_episodes_is_not_overwritten(tmp_path: Path) -> None:
    run_evaluation(config(n=2), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    with pytest.raises(StoreError, match="--resume"):
        run_evaluation(config(n=2), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    assert len(load_episodes(tmp_path / "run")) == 2


def test_a_store_of_another_evaluation_is_not_resumed(tmp_path: Path) -> None:
    run_evaluation(config(n=2), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    with pytest.raises(StoreError, match="another run: seed"):
        run_evaluation(config(n=2, seed=5), OracleAgent(), store=tmp_path / "run", env=OneDoor, resume=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; a lock names the process that had it last."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != "_lock"}


def test_a_check_in_advance_refuses_what_the_evaluation_would_and_changes_nothing(tmp_path: Path) -> None:
    run_evaluation(config(n=4), OracleAgent(), store=tmp_path / "played", env=Breaks)  # two of them failed
    (tmp_path / "file").touch()
    changes: list[tuple[dict[str, object], str, dict[str, Any]]] = [
        ({}, "new/episodes", {}),
        ({}, "new/episodes", {"resume": True}),
        ({}, "played", {"resume": True}),
        ({}, "played", {"overwrite": True}),
        ({"seed": 5}, "played", {"overwrite": True}),
        ({}, "played", {}),
        ({"seed": 5}, "played", {"resume": True}),
        ({}, "played", {"resume": True, "overwrite": True}),
        ({}, "file/episodes", {}),
        ({"splits": ["challenge"]}, "new/episodes", {}),
    ]
    refused = []
    for fields, name, how in changes:
        before, error = contents(tmp_path), None
        try:
            check_evaluation(config(n=4, **fields), store=tmp_path / name, env=Breaks, **how)
        except (UsageError, StoreError) as raised:
            error = raised
        assert contents(tmp_path) == before, "a check writes nothing, and removes nothing"
        assert not (tmp_path / "new").exists()
        if error is not None:
            refused.append(str(error))
            with pytest.raises(type(error)) as later:
                run_evaluation(config(n=4, **fields), OracleAgent(), store=tmp_path / name, env=Breaks, **how)
            assert str(later.value) == refused[-1], "the evaluation itself refuses it for the same reason"
    assert len(refused) == 5, refused


def test_a_damaged_store_is_replaced_and_not_resumed(tmp_path: Path) -> None:
    """The check before servers start must let a store be replaced that cannot be read any more."""
    path = tmp_path / "played"
    run_evaluation(config(n=2), OracleAgent(), store=path, env=OneDoor)
    (part,) = path.glob("part-*.parquet")
    part.write_bytes(b"torn")
    damaged = contents(path)
    check_evaluation(config(n=2), store=path, env=OneDoor, overwrite=True)
    assert contents(path) == damaged, "the check itself replaces nothing"
    for resume in (True, False):
        with pytest.raises(StoreError, match=r"damaged: cannot read part-000000\.parquet"):
            check_evaluation(config(n=2), store=path, env=OneDoor, resume=resume)
    assert run_evaluation(config(n=2), OracleAgent(), store=path, env=OneDoor, overwrite=True).scored == 2


NEWER = b'{"kind": "turnwise.episodes", "version": 99}'


@pytest.mark.parametrize("manifest", [b"{torn", b"", b"\xff\xfe\x00", NEWER, None])
def test_a_store_with_a_damaged_manifest_is_replaced(tmp_path: Path, manifest: bytes | None) -> None:
    run_evaluation(config(n=2), OracleAgent(), store=tmp_path / "played", env=OneDoor)
    path = tmp_path / "played" / MANIFEST
    path.unlink() if manifest is None else path.write_bytes(manifest)
    damaged = contents(tmp_path)
    check_evaluation(config(n=2), store=path.parent, env=OneDoor, overwrite=True)
    assert contents(tmp_path) == damaged, "the check itself replaces nothing"
    again = run_evaluation(config(n=2), OracleAgent(), store=path.parent, env=OneDoor, overwrite=True)
    assert (again.scored, len(load_episodes(path.parent))) == (2, 2)


def prices() -> str:
    """Return the bytes of a Parquet file of another program, as Latin-1."""
    pq.write_table(pa.table({"price": [1, 2]}), sink := io.BytesIO())
    return sink.getvalue().decode("latin-1")


PRICES = prices()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"_manifest.json": "{torn", "thesis.txt": "x"}, "not replaced, since thesis.txt is not a file of a store"),
        ({"part-00000-1a2b.snappy.parquet": "x"}, "not replaced, since part-00000-1a2b.snappy.parquet is not"),
        ({"annotations.jsonl": "x"}, "is not an episode store"),
        ({"_manifest.json": "{torn", "part-000000.parquet": None}, "part-000000.parquet is a folder"),
        ({"part-000000.parquet": "torn", "part-000001.parquet": PRICES}, "since part-000001.parquet is not a file of"),
        ({"_manifest.json": "{torn", "part-000000.parquet": PRICES}, "since part-000000.parquet is not a file of"),
        ({"_manifest.json": '{"kind": "acme"}', "part-000000.parquet": "x"}, "since _manifest.json is not a file of"),
        ({"_manifest.json": "[]"}, "since _manifest.json is not a file of a store"),
        ({"_lock": None}, "_lock is a folder"),
    ],
)
def test_overwriting_removes_nothing_of_other_programs(tmp_path: Path, files: dict[str, str | None], says: str) -> None:
    for name, text in files.items():
        (tmp_path / name).mkdir() if text is None else (tmp_path / name).write_bytes(text.encode("latin-1"))
    before = contents(tmp_path)
    for refused in (check_evaluation, lambda *a, **k: run_evaluation(a[0], OracleAgent(), **k)):
        with pytest.raises(StoreError, match=says):
            refused(config(n=2), store=tmp_path, env=OneDoor, overwrite=True)
    assert contents(tmp_path) == before
    assert {each.name for each in tmp_path.iterdir()} - {"_lock"} == {*files} - {"_lock"}


def test_a_lock_that_is_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "_lock").mkdir()
    with pytest.raises(StoreError, match="cannot lock episode store"):
        run_evaluation(config(n=2), OracleAgent(), store=tmp_path, env=OneDoor)


def test_a_search_in_an_environment_that_cannot_be_forked_is_refused_in_advance(tmp_path: Path) -> None:
    class Locked(OneDoor):
        def start(self, task: int, rng: Rng) -> str:
            self.lock = threading.Lock()
            return super().start(task, rng)

    for env, says in ((OneDoor, ""), (Locked, "Locked forks by copy, but its 'lock' cannot be copied")):
        with pytest.raises(ContractError, match=says) if says else nullcontext():
            check_evaluation(config(n=2, search={"rollouts": 2}), store=tmp_path / "run", env=env)
    with pytest.raises(ContractError, match="its 'lock' cannot be copied"):
        run_evaluation(config(n=2, search={"rollouts": 2}), OracleAgent(), store=tmp_path / "run", env=Locked)


def test_a_check_in_advance_finds_an_evaluation_that_is_under_way(tmp_path: Path) -> None:
    def meanwhile(episode: Episode) -> None:
        for how in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(StoreError, match="is writing to episode store"):
                check_evaluation(config(n=2), store=tmp_path / "run", env=OneDoor, **how)
        noticed.append(episode)

    noticed: list[Episode] = []
    run_evaluation(config(n=2), OracleAgent(), store=tmp_path / "run", env=OneDoor, on_episode=meanwhile)
    assert len(noticed) == 2


def test_another_model_in_the_same_folder_is_another_evaluation(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"first")
    first = config(policy=str(model), n=4)
    run_evaluation(first, OracleAgent(), store=tmp_path / "store", env=OneDoor)
    longer = first.model_copy(update={"n": 8})
    run_evaluation(longer, OracleAgent(), store=tmp_path / "store", env=OneDoor, resume=True)
    (model / "model.safetensors").write_bytes(b"second")  # training went on
    with pytest.raises(StoreError, match="belongs to another run: model is"):
        run_evaluation(longer, OracleAgent(), store=tmp_path / "store", env=OneDoor, resume=True)


def limited(turns: int) -> Any:
    return TurnLimit(OneDoor(), turns)


@pytest.mark.slow
def test_a_resumed_run_has_the_same_wrappers(tmp_path: Path) -> None:
    play = partial(run_evaluation, agent=OracleAgent(), store=tmp_path / "store")
    play(config(n=4), env=partial(limited, 2))
    play(config(n=6), env=partial(limited, 2), resume=True)
    with pytest.raises(StoreError, match="another version of"):
        play(config(n=8), env=partial(limited, 1), resume=True)


async def test_inside_an_event_loop(tmp_path: Path) -> None:
    summary = await run_evaluation_async(config(n=6), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    assert summary.success.value == 1


async def test_the_synchronous_one_says_what_to_await_in_a_notebook(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"await evaluate_async\(\)"):
        run_evaluation(config(n=6), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    assert not (tmp_path / "run").exists()


def test_unknown_environment_and_parts_are_usage_errors_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UnknownEnvironmentError, match="no environment"):
        run_evaluation(config(env="demo/Nothing-v0"), OracleAgent(), store=tmp_path / "run")
    with pytest.raises(UsageError, match="no split challenge"):
        run_evaluation(config(splits=["challenge"]), OracleAgent(), store=tmp_path / "run", env=OneDoor)
    assert not (tmp_path / "run").exists()


def test_configuration_reads_what_people_type() -> None:
    read = load_config(EvalConfig, None, ["env=demo/OneDoor-v0", "splits=dev,test_iid", "levels=2", "n=7"])
    assert (read.splits, read.levels, read.n) == ((Split.DEV, Split.TEST_IID), (2,), 7)
    with pytest.raises(ConfigError, match="splits"):
        load_config(EvalConfig, None, ["env=demo/OneDoor-v0", "splits=tset"])
    with pytest.raises(ConfigError, match="'n'"):
        load_config(EvalConfig, None, ["env=demo/OneDoor-v0", "n=0"])


def test_every_field_of_the_configuration_is_documented() -> None:
    for name, field in EvalConfig.model_fields.items():
        assert field.description, f"EvalConfig.{name} has no text under it"


SLOW_RUN = textwrap.dedent(
    """
    import asyncio, sys
    import turnwise as tw
    from turnwise.agents.scripted import NullAgent
    from turnwise.evals.evaluation import run_evaluation
    from turnwise.evals.settings import EvalConfig

    class Slow(tw.TurnEnv):
        async def start(self, task, rng):
            return "?"

        async def act(self, action):
            await asyncio.sleep(0.05)
            return tw.success("!")

    def tell(episode):
        print("episode", flush=True)

    config = EvalConfig(env="demo/Slow-v0", n=2000, concurrency=2)
    summary = run_evaluation(config, NullAgent(), store=sys.argv[1], env=Slow, on_episode=tell)
    print("complete" if summary.complete else "partial", summary.scored, flush=True)
    """
)


@pytest.mark.slow
def test_a_real_sigint_leaves_a_whole_store_and_a_partial_summary(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW_RUN)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "episode\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    last = out.splitlines()[-1].split()
    episodes = load_episodes(tmp_path / "run")
    assert last == ["partial", str(len(episodes))]
    assert len(episodes) >= 5
    assert {episode.outcome for episode in episodes} == {Outcome.COMPLETED}


class Lever(tw.ToolEnv):
    """Pull a lever; every third one is broken by its author."""

    max_turns = 2

    def start(self, task: TaskSpec, rng: Rng) -> str:
        self.number, self.pulled = task.seed, False
        return "Pull the lever."

    @tw.tool(ends=True)
    def pull(self, times: int) -> object:
        """Pull it."""
        if times < 1:
            raise tw.ToolError("pull it at least once")
        self.pulled = True
        return "Click." if self.number % 3 else dict[str, str]()["lever"]

    def judge(self) -> bool:
        return self.pulled

    def oracle(self) -> tw.ToolCall:
        return tw.ToolCall("pull", {"times": 1})


def test_a_bug_of_the_author_is_no_failure_of_the_policy(tmp_path: Path) -> None:
    config = EvalConfig(env="test/Lever-v0", policy="oracle", n=9, retries=0)
    summary = run_evaluation(config, OracleAgent(), store=tmp_path / "store", env=Lever)
    assert (summary.episodes, summary.scored, summary.success.value) == (9, 6, 1.0)
    assert summary.infrastructure == {"EnvironmentFailedError": 3}
    ((error, count),) = summary.environment_errors.items()
    assert count == 3
    assert re.search(r"raised in step: KeyError: 'lever' \(at .*test_evaluation.py:\d+ in Lever.pull\)", error), error
    assert Summary.from_json(summary.to_json()) == summary
    assert "3 environment bug (not scored)" in failures(summary)
    console = Console(file=io.StringIO(), width=400)
    print_summary(summary, console)
    for text in (console.file.getvalue(), not_scored(summary)):  # type: ignore[attr-defined]
        assert "KeyError: 'lever'" in text, "the terminal and the report show the author's error"
        assert "test_evaluation.py" in text


def test_what_the_agent_sends_wrong_stays_its_own_failure(tmp_path: Path) -> None:
    config = EvalConfig(env="test/Lever-v0", n=4, retries=0)
    agent = FunctionAgent(lambda observation: Action(tool_calls=(tw.ToolCall("pull", {"times": 0}),)))
    summary = run_evaluation(config, agent, store=tmp_path / "store", env=Lever)
    assert (summary.scored, summary.success.value, summary.environment_errors) == (4, 0.0, {})


def test_a_reader_hears_what_an_environment_lacks(tmp_path: Path) -> None:
    class Silent(TurnEnv):
        max_turns = 1

        def start(self, task: TaskSpec, rng: Rng) -> str:
            return "Say 1."

        def act(self, action: Action) -> Step:
            return success("Yes.") if action.integer() == 1 else failure("No.")

    config = EvalConfig(env="test/Silent-v0", policy="random", n=2)
    summary = run_evaluation(config, RandomAgent(), store=tmp_path / "store", env=Silent)
    family, random = summary.notes
    assert (
        "test/Silent-v0 has no task family: its test tasks differ from its training tasks by the seed alone" in family
    )
    assert "write random_action(rng)" in random
    assert not {"test_template", "test_entity"} & set(map(str, Silent.tasks().splits)), "nothing is held out"


@pytest.mark.parametrize("policy", ["oracle", "mixed:0.5"])
def test_a_policy_that_needs_an_oracle_is_refused_where_there_is_none(policy: str, tmp_path: Path) -> None:
    config = EvalConfig(env="gymnasium/FrozenLake-v1", policy=policy, n=2)
    with pytest.raises(UsageError, match=r"gymnasium/FrozenLake-v1 has no oracle \(Gymnasium has no oracle for it"):
        run_evaluation(config, agent_from(policy), store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


class WithoutOracle(TurnEnv):
    """An environment whose author wrote no oracle."""

    def start(self, task: TaskSpec, rng: Rng) -> str:
        return "Say 1."

    def act(self, action: Action) -> Step:
        return success("Yes.") if action.integer() == 1 else failure("No.")


def test_an_author_who_writes_no_oracle_has_none(tmp_path: Path) -> None:
    config = EvalConfig(env="test/WithoutOracle-v0", policy="oracle", n=2)
    with pytest.raises(UsageError, match="test/WithoutOracle-v0 has no oracle; choose another policy"):
        run_evaluation(config, agent_from("oracle"), store=tmp_path / "store", env=WithoutOracle)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"group_size": 2}, "one episode per task"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"program": {"command": "true"}}, "plays whole episodes"),
    ],
)
def test_a_search_that_cannot_choose_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        EvalConfig(env="turnwise/Maze-v0", policy="model", search={"rollouts": 2}, **fields)  # type: ignore[arg-type]
