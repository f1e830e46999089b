"""ATIF and inspect's logs: the same conversation, exact tokens, no zero for a failure, and the peers' own readers."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.messages import Action, ImagePart, Message, Observation, TextPart, ToolCall, message
from turnwise.inference.policy import Finish
from turnwise.rollouts.atif import to_atif
from turnwise.rollouts.episode import Episode, Fork, Outcome, Turn
from turnwise.rollouts.inspect_eval import write_eval
from turnwise.rollouts.store import EpisodeStore
from turnwise.tasks.score import Score
from turnwise.tasks.spec import TaskSpec

from ..commands.conftest import run  # noqa: F401 - a fixture

Run = Callable[..., Any]


def said(*messages: Message) -> Observation:
    return Observation(messages)


def tokens(first: int, n: int) -> dict[str, Any]:
    return {
        "prompt_ids": tuple(range(first)),
        "action_ids": tuple(range(first, first + n)),
        "logprobs": tuple(-0.5 for _ in range(n)),
        "versions": (3,) * n,
    }


SOLVED = Episode(
    "e1",
    "test/Shop-v0",
    TaskSpec("Shop", seed=5),
    "g1",
    (
        Turn(
            said(message("system", "Rules."), Message("user", (TextPart("Look: "), ImagePart(b"png")))),
            Action("Two calls.", (ToolCall("price", {"shop": "A"}), ToolCall("price", {"shop": "B"}, "own"))),
            0.0,
            thoughts="Cheap first.",
            **tokens(4, 3),
        ),
        Turn(
            said(Message("tool", (TextPart("7"),), name="price"), Message("tool", (TextPart("9"),), name="price")),
            Action("", (ToolCall("buy", [1]),)),  # type: ignore[arg-type]
            1.0,
            terminated=True,
            finish=Finish.LENGTH,
            **tokens(9, 2),
        ),
    ),
    Outcome.COMPLETED,
    final_observation=said(Message("tool", (TextPart("Bought."),), name="buy")),
    score=Score(success=True, checks={"cheapest": True}),
    fingerprints={"env": "abc"},
)
SCRIPTED = replace(
    SOLVED,
    episode_id="e2",
    turns=(Turn(said(message("user", "Go.")), Action("left"), 0.5, terminated=True),),
    final_observation=None,
    score=Score(success=False),
)
BROKEN = replace(SCRIPTED, episode_id="e3", outcome=Outcome.INFRA_FAILED, score=None, error="the server died")
UNREAD = replace(
    SCRIPTED,
    episode_id="e4",
    turns=(Turn(said(message("user", "Go.")), Action(problem="What?"), 0.0, truncated=True),),
    outcome=Outcome.TRUNCATED,
)
FORKED = replace(SOLVED, episode_id="e5", fork=Fork("e1", ("e1",)))
ALL = (SOLVED, SCRIPTED, BROKEN, UNREAD, FORKED)


def test_atif_has_the_conversation_and_its_exact_tokens() -> None:
    made = to_atif(SOLVED)
    assert [step["source"] for step in made["steps"]] == ["system", "user", "agent", "agent"]
    assert [step["step_id"] for step in made["steps"]] == [1, 2, 3, 4]
    first, last = made["steps"][2:]
    assert first["reasoning_content"] == "Cheap first."
    assert [call["tool_call_id"] for call in first["tool_calls"]] == ["call_3_0", "own"]
    answers = [(each["source_call_id"], each["content"]) for each in first["observation"]["results"]]
    assert answers == [("call_3_0", "7"), ("own", "9")], "each result belongs to its call"
    assert first["metrics"]["completion_token_ids"] == [4, 5, 6]
    assert first["metrics"]["logprobs"] == [-0.5] * 3
    assert first["extra"]["versions"] == [3, 3, 3]
    assert last["tool_calls"][0]["arguments"] == {}
    assert last["tool_calls"][0]["extra"] == {"arguments": [1]}, "what is not an object is kept beside"
    assert last["observation"]["results"][0]["content"] == "Bought."
    assert (made["extra"]["success"], made["extra"]["reward"]) == (True, 1.0)
    assert made["final_metrics"]["total_completion_tokens"] == 5


def test_a_failure_has_no_score_and_a_shared_turn_is_marked() -> None:
    failed = to_atif(BROKEN)["extra"]
    assert (failed["outcome"], failed["error"]) == ("infra_failed", "the server died")
    assert not {"success", "reward"} & set(failed), "a failure is not a zero"
    copied = [step.get("is_copied_context", False) for step in to_atif(FORKED)["steps"]]
    assert copied == [True, True, True, False]
    assert to_atif(FORKED)["final_metrics"]["total_completion_tokens"] == 2, "shared tokens count once"
    assert to_atif(SCRIPTED)["steps"][1]["llm_call_count"] == 0, "no model acted"
    assert to_atif(UNREAD)["steps"][1]["extra"]["problem"] == "What?"


@pytest.mark.parametrize("episode", ALL, ids=[episode.episode_id for episode in ALL])
def test_atifs_own_models_accept_every_episode(episode: Episode) -> None:
    atif = pytest.importorskip("atif", reason="NOT TESTED with ATIF's own models: pip install atif")
    given = json.loads(json.dumps(to_atif(episode)))
    assert atif.Trajectory.model_validate(given).to_json_dict() == given, "nothing is lost on the way"


def entries(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_a_log_of_inspect(tmp_path: Path) -> None:
    assert write_eval(tmp_path / "run.eval", ALL) == 5
    found = entries(tmp_path / "run.eval")
    samples = [value for name, value in found.items() if name.startswith("samples/")]
    assert [sample["epoch"] for sample in samples] == [1, 2, 3, 4, 5], "episodes of one task are its epochs"
    first, _, broken, *_ = samples
    assert first["scores"]["success"]["value"] == 1.0
    assert first["messages"][2]["content"][0] == {"type": "reasoning", "reasoning": "Cheap first."}
    assert [each["tool_call_id"] for each in first["messages"] if each["role"] == "tool"][:2] == ["call_2_0", "own"]
    assert [each["role"] for each in first["input"]] == ["system", "user"]
    assert "scores" not in broken
    assert broken["error"]["message"] == "the server died"
    header = found["header.json"]
    assert header["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 2 / 4, "over scored episodes only"
    assert (header["results"]["total_samples"], header["results"]["completed_samples"]) == (5, 4)
    assert len(found["summaries.json"]) == 5
    with pytest.raises(FileExistsError):
        write_eval(tmp_path / "run.eval", ALL)


READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
log = read_eval_log(sys.argv[1])
print(json.dumps({
    "status": log.status, "task": log.eval.task, "samples": len(log.samples),
    "errors": sum(each.error is not None for each in log.samples),
    "values": [each.scores["success"].value for each in log.samples if each.scores],
    "roles": [each.role for each in log.samples[0].messages],
    "accuracy": log.results.scores[0].metrics["accuracy"].value,
    "header": read_eval_log(sys.argv[1], header_only=True).results.total_samples,
    "summaries": len(read_eval_log_sample_summaries(sys.argv[1])),
}))
"""


@pytest.mark.skipif(
    "INSPECT_PYTHON" not in os.environ,
    reason="NOT TESTED with inspect's own reader: python -m venv v && v/bin/pip install inspect-ai, and set "
    "INSPECT_PYTHON=v/bin/python",
)
def test_inspects_own_reader_reads_it(tmp_path: Path) -> None:
    write_eval(tmp_path / "run.eval", ALL)
    command = [os.environ["INSPECT_PYTHON"], "-c", READ, str(tmp_path / "run.eval")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    roles = found.pop("roles")
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
    assert found == {
        "status": "success",
        "task": "test/Shop-v0",
        "samples": 5,
        "errors": 1,
        "values": [1.0, 0.0, 0.0, 1.0],
        "accuracy": 0.5,
        "header": 5,
        "summaries": 5,
    }


def stored(path: str, episodes: Sequence[Episode]) -> None:
    with EpisodeStore(Path(path), run={"env": "test/Shop-v0"}) as store:
        for episode in episodes:
            store.append(episode)


def test_the_command_writes_each_format(run: Run) -> None:  # noqa: F811
    stored("runs/one", (SCRIPTED, BROKEN, UNREAD))
    ran = run("export", "runs/one", "all.jsonl", "--format", "atif")
    assert ran.code == 0, ran.err
    assert "3 episodes written" in ran.err
    lines = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert [line["trajectory_id"] for line in lines] == ["e2", "e3", "e4"]
    run("export", "runs/one", "run.eval", "-f", "inspect", "--success").refused("none of its 3 has success")
    assert run("export", "runs/one", "run.eval", "-f", "inspect").code == 0
    run("export", "runs/one", "run.json", "-f", "inspect").refused("write run.eval")
    run("export", "runs/one", "run.eval", "-f", "inspect").refused("already exists")
