"""``turnwise export`` and ``turnwise import``: chat messages in JSON lines, out of a store and into one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.commands import export
from turnwise.commands.export import Format
from turnwise.envs import registry
from turnwise.rollouts.annotations import annotate
from turnwise.rollouts.chat_jsonl import to_chat
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.store import load_episodes

from .conftest import EXAMPLES

Run = Callable[..., Any]


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_what_is_exported_comes_back_with_calls_and_tasks(run: Run, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "tool_env.py", tmp_path / "tool_env.py")
    assert run("eval", "tool_env.py", "-p", "oracle", "-n", "3", "--out", "runs/one", "--no-report").code == 0
    ran = run("export", "runs/one", "chats.jsonl", "--success")
    assert (ran.code, ran.out.strip()) == (0, "chats.jsonl"), ran.err
    assert "3 episodes written" in ran.err
    first = lines("chats.jsonl")[0]
    assert first["messages"][0]["role"] in ("system", "user")
    call = next(said["tool_calls"][0] for said in first["messages"] if "tool_calls" in said)
    names = {tool["function"]["name"] for tool in first["tools"]}
    assert call["function"]["name"] in names, "the tools that are called are described"
    assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert {said["role"] for said in first["messages"]} >= {"assistant", "tool"}
    run("export", "runs/one", "chats.jsonl").refused("already exists")

    ran = run("import", "chats.jsonl", "--env", "tool_env.py", "--out", "runs/back", "--split", "dev")
    assert ran.code == 0, ran.err
    before, after = load_episodes("runs/one/episodes"), load_episodes("runs/back")
    for one, other in zip(before, after, strict=True):
        assert (one.episode_id, one.task, one.success) == (other.episode_id, other.task, other.success)
        assert one.total_reward == pytest.approx(other.total_reward)
        assert to_chat(one)["messages"] == to_chat(other)["messages"], "the same but for ids, which an export gives"
    run("import", "chats.jsonl", "--env", "tool_env.py", "--out", "runs/back").refused("already has 3 episodes")


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_stops_midway_leaves_no_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Format, error: BaseException
) -> None:
    assert run("eval", "guess.py", "-p", "oracle", "-n", "2", "--out", "runs/one", "--no-report").code == 0
    words, before = ("export", "runs/one", "out.eval", "--format", format), sorted(tmp_path.iterdir())

    def stops(store: Path) -> Iterator[Episode]:
        yield load_episodes(store)[0]
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(export, "read_episodes", stops)
        assert run(*words).code in (1, 2, 130)
        assert sorted(tmp_path.iterdir()) == before, "neither under its name nor under another one"
    assert run(*words).code == 0
    assert (tmp_path / "out.eval").stat().st_size > 0


def test_tasks_are_written_as_rows_of_nemo_gym(run: Run, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "tool_env.py", tmp_path / "tool_env.py")
    ran = run("export-nemo", "tool_env.py", "-n", "3", "--out", "rows.jsonl")
    assert (ran.code, ran.out.strip(), "3 tasks written" in ran.err) == (0, "rows.jsonl", True), ran.err
    rows = lines("rows.jsonl")
    assert [row["turnwise"]["task"]["split"] for row in rows] == ["train"] * 3
    assert {tool["type"] for tool in rows[0]["responses_create_params"]["tools"]} == {"function"}
    run("export-nemo", "tool_env.py", "--out", "rows.jsonl").refused("already exists")
    run("export-nemo", "tool_env.py", "n=3").refused("not an argument of the environment")


def test_an_environment_of_a_file_is_asked_for_by_its_option(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(EXAMPLES / "tool_env.py", tmp_path / "tool_env.py")
    assert run("eval", "tool_env.py", "-p", "oracle", "-n", "1", "--out", "runs/one", "--no-report").code == 0
    (id,) = {episode.env_id for episode in load_episodes("runs/one/episodes")}
    monkeypatch.delitem(sys.modules, "tool_env")  # as in another shell
    monkeypatch.delitem(registry._entries, id)
    cure = "If it is in a file, add --env my_env.py."
    run("replay", "runs/one").refused(f"there is no environment '{id}'", cure)
    ran = run("export", "runs/one", "bare.jsonl")
    assert cure in ran.err, ran.err
    assert "tools" not in lines("bare.jsonl")[0]
    assert run("replay", "runs/one", "--env", "tool_env.py").code == 0
    assert run("export", "runs/one", "chats.jsonl", "--env", "tool_env.py").code == 0
    assert lines("chats.jsonl")[0]["tools"]


def test_a_label_is_exported_with_its_episode(run: Run) -> None:
    assert run("eval", "turnwise/MazeFO-v0", "-p", "oracle", "-n", "2", "--out", "runs/one", "--no-report").code == 0
    first, second = (episode.episode_id for episode in load_episodes("runs/one/episodes"))
    annotate(Path("runs/one/episodes"), second, label="odd", comment="a <b>long</b> way")
    assert run("export", "runs/one", "chats.jsonl").code == 0
    noted = {line["episode_id"]: line.get("annotation") for line in lines("chats.jsonl")}
    assert noted == {first: None, second: {"label": "odd", "comment": "a <b>long</b> way"}}


def test_failures_and_unreadable_actions_are_left_out(run: Run) -> None:
    assert run("eval", "guess.py", "-p", "null", "-n", "3", "--out", "runs/none", "--no-report").code == 0
    failed = "no episode of runs/none was written: none of its 3 has a score and readable actions and success"
    run("export", "runs/none", "chats.jsonl", "--success").refused(failed)
    run("export", "runs/nowhere", "chats.jsonl").refused("no episodes at runs/nowhere")
    assert not Path("chats.jsonl").exists(), "nothing is left of a refusal"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 2: Invalid JSON"),
        ('{"messages": []}', "line 2, messages: List should have at least 1 item"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "line 2: the conversation has no assistant message"),
        ('{"messages": [{"role": "assistant", "content": "a"}]}', "line 2: the first message is the assistant's"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}]}]}',
            "line 2: content must be text or an image as a data: URL",
        ),
        (
            '{"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", '
            '"arguments": "[1]"}}]}]}',
            "line 2: the arguments of f are not a JSON object",
        ),
        (
            '{"messages": [{"role": "user"}, {"role": "assistant", "content": "b"}], "env": "other/Env-v0"}',
            "line 2: the line belongs to environment other/Env-v0, not demo/GuessNumber-v0; import each with its own",
        ),
        (
            '{"messages": [{"role": "user"}, {"role": "assistant", "content": "b"}], "reward": NaN}',
            "line 2, reward: Input should be a finite number",
        ),
        (
            '{"messages": [{"role": "user"}, {"role": "assistant", "content": "b"}], "episode_id": "a-0"}',
            "line 2: its episode_id 'a-0' is line 1's",
        ),
    ],
)
def test_a_line_that_is_no_conversation_is_named(run: Run, text: str, said: str) -> None:
    good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "episode_id": "a-0"}
    Path("mine.jsonl").write_text(f"{json.dumps(good)}\n{text}\n")
    run("import", "mine.jsonl", "--env", "guess.py", "--out", "runs/mine").refused(said)


@pytest.mark.slow
def test_own_demonstrations_are_cloned(run: Run) -> None:
    said = [("user", "Guess a number from 0 to 15."), ("assistant", "7"), ("user", "Too low."), ("assistant", "9")]
    line = json.dumps({"messages": [{"role": role, "content": text} for role, text in said]})
    Path("mine.jsonl").write_text(f"{line}\n" * 4)
    ran = run("import", "mine.jsonl", "--env", "guess.py", "--out", "runs/mine")
    assert ran.code == 0, ran.err
    small = ("nano.size=0.1M", "steps=1", "batch=2", "eval.episodes=0", "threads=1", "tracking.to=[]")
    ran = run("train", "bc", "env=guess.py", "demonstrations.store=runs/mine", *small, "--out", "runs/bc")
    assert ran.code == 0, ran.err
