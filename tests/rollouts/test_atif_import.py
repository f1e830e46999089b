"""ATIF trajectories as demonstrations: what Turnwise wrote comes back, and other programs' files are read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.messages import Action, ToolCall
from turnwise.errors import UsageError
from turnwise.rollouts.atif import to_atif
from turnwise.rollouts.chat_jsonl import from_chat
from turnwise.rollouts.episode import Episode

from .test_exports import BROKEN, FORKED, SCRIPTED, SOLVED, UNREAD

READ = replace(
    SOLVED, turns=(SOLVED.turns[0], replace(SOLVED.turns[1], action=Action("", (ToolCall("buy", {"n": 1}),))))
)
HARBOR: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "session_id": "s",
    "agent": {"name": "some-agent", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You have a shell."},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Make a file."}]},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I make it.",
            "reasoning_content": "Easy.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "touch a"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "done"}]},
            "metrics": {"prompt_tokens": 5, "completion_tokens": 2},
        },
        {"step_id": 4, "source": "agent", "message": "It is there.", "observation": {"results": [{"content": "ok"}]}},
        {"step_id": 5, "source": "agent", "message": "Finished."},
    ],
}


def imported(path: Path, *trajectories: dict[str, Any], env: str = "test/Shop-v0") -> list[Episode]:
    path.write_text("\n".join(json.dumps(one) for one in trajectories))
    return list(from_chat(path, env))


def test_an_exported_episode_comes_back(tmp_path: Path) -> None:
    read, scripted = imported(tmp_path / "own.jsonl", to_atif(READ), to_atif(SCRIPTED))
    for episode, original in ((read, READ), (scripted, SCRIPTED)):
        assert episode.episode_id == original.episode_id
        assert episode.task == original.task
        assert (episode.success, episode.total_reward) == (original.success, original.total_reward)
        assert [turn.action.text for turn in episode.turns] == [turn.action.text for turn in original.turns]
        heard = [turn.observation.text for turn in episode.turns]
        assert heard == [turn.observation.text for turn in original.turns]
    calls = [[(call.name, dict(call.arguments)) for call in turn.action.tool_calls] for turn in read.turns]
    assert calls == [[("price", {"shop": "A"}), ("price", {"shop": "B"})], [("buy", {"n": 1})]]
    assert read.turns[0].observation == READ.turns[0].observation, "images are parts, too"
    assert read.final_observation is not None
    assert read.final_observation.text == "Bought."


def test_the_other_programs_file_is_one_for_atifs_own_models() -> None:
    atif = pytest.importorskip("atif", reason="NOT TESTED with ATIF's own models: pip install atif")
    atif.Trajectory.model_validate(HARBOR)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_of_another_program_is_a_successful_demonstration(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(HARBOR, indent=indent))
    (episode,) = from_chat(path, "test/Shell-v0")
    assert [turn.action.text for turn in episode.turns] == ["I make it.", "It is there.", "Finished."]
    assert [message.role for message in episode.turns[0].observation.messages] == ["system", "user"]
    roles = [[message.role for message in turn.observation.messages] for turn in episode.turns[1:]]
    assert roles == [["tool"], ["user"]], "a result without a call is what the user says"
    assert (episode.success, episode.total_reward) == (True, 1.0)


def test_what_others_write_in_extra_says_nothing(tmp_path: Path) -> None:
    steps = [{**step, "extra": {"problem": "hard", "sent": False}} for step in HARBOR["steps"]]
    steps[2]["tool_calls"] = [{**HARBOR["steps"][2]["tool_calls"][0], "extra": None}]
    foreign = {**HARBOR, "steps": steps, "extra": {"outcome": "fine"}}
    assert [imported(tmp_path / "t.jsonl", each) for each in (foreign,)] == [imported(tmp_path / "t.jsonl", HARBOR)]


@pytest.mark.parametrize(
    ("trajectory", "said"),
    [
        (to_atif(BROKEN), r"line 1: the episode has no score \(outcome infra_failed\)"),
        (to_atif(FORKED), "line 1: step 3 is copied context"),
        (to_atif(UNREAD), "line 1: step 2 is an action that the environment could not read"),
        (to_atif(SOLVED), "line 1: step 4 is an action that the environment could not read"),
        ({**HARBOR, "steps": []}, "line 1, steps: List should have at least 1 item"),
        ({**HARBOR, "steps": [{"step_id": 1, "source": "me"}]}, "line 1, steps.0.source: Input should be"),
        ({**HARBOR, "steps": HARBOR["steps"][:2]}, "line 1: the conversation has no assistant message"),
        ({**to_atif(READ), "extra": {"env": "other/X-v0"}}, "line 1: the line belongs to environment other/X-v0"),
    ],
)
def test_what_demonstrates_nothing_is_refused_with_its_line(tmp_path: Path, trajectory: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        imported(tmp_path / "t.jsonl", trajectory)
