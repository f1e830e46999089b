"""The ``[agent]`` table: a model acts as it was trained, in training and evaluation, unless a user says otherwise."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.agents.settings import AgentSettings
from turnwise.trainers import loop
from turnwise.trainers.options import configured
from turnwise.trainers.registry import ALGORITHMS

Run = Callable[..., Any]

LAMP = '''
import turnwise as tw


class Lamp(tw.ToolEnv):
    """Switch the lamp on."""

    max_turns = 2

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.on = False
        return "It is dark."

    @tw.tool(ends=True)
    def switch(self) -> str:
        """Switch the lamp on."""
        self.on = True
        return "Light."

    def judge(self) -> tw.Score:
        return tw.Score(self.on)

    def oracle(self) -> tw.ToolCall:
        return tw.ToolCall("switch")


tw.register("test/Lamp-v0", Lamp)
'''
QUICK = ("env=my_env.py", "threads=1", "tracking.to=[]", "progress=false", "eval.temperature=0", "eval.episodes=2")


def successes(folder: str) -> list[float]:
    lines = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    return [line["eval/success"] for line in lines if "eval/success" in line]


@pytest.mark.slow
def test_a_clone_goes_on_where_it_ended_and_eval_agrees(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """First day, A1 and A2: a perfect clone stays perfect in RL, and without the file that says how it acts."""
    (tmp_path / "my_env.py").write_text(LAMP)
    nano = ("nano.size=0.1M", "nano.layers=1", "nano.hidden=32", "optimizer.lr=1e-2")
    ran = run("train", "bc", *QUICK, *nano, "demonstrations.count=8", "steps=20", "eval.every=0", "agent.max_tokens=24",
              "agent.context=last:1", "--out", "runs/bc")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "parser 'tools' (auto: the tool calls of the chat template)" in ran.err
    assert successes("runs/bc") == [0.0, 1.0]

    on = ("model=runs/bc/model", "tasks_per_step=1", "group_size=2", "steps=1")
    ran = run("train", "loop", *QUICK, *on, "--out", "runs/loop")
    assert ran.code == 0, ran.err
    assert successes("runs/loop")[0] == 1.0, "RL starts where the clone ended"
    assert "differently" not in ran.err
    kept = [AgentSettings.beside(f"runs/{name}/model") for name in ("bc", "loop")]
    assert kept[0] == kept[1], "the exported model keeps how it acts"
    assert (kept[1].context, kept[1].max_tokens) == ("last:1", 24)

    words = [*QUICK, *on, "out=runs/module", "agent.max_tokens=30"]
    capfd.readouterr()
    assert loop.main(words) == 0, "python -m turnwise.trainers.loop takes an environment's file too (C2)"
    assert "agent.max_tokens = 30 (trained with 24)" in capfd.readouterr().err
    assert AgentSettings.beside("runs/module/model").max_tokens == 30

    ran = run("eval", "my_env.py", "-p", "runs/loop/model", "-n", "3", "agent.temperature=0", "--json", "--no-report")
    summary = json.loads(ran.out)
    assert summary["success"]["value"] == 1.0
    assert any("agent.temperature = 0.0 (trained with 1.0)" in note for note in summary["notes"])

    shutil.copytree("runs/loop/model", "hub")
    Path("hub/agent.json").unlink()  # as models of the Hub come
    ran = run("eval", "my_env.py", "-p", "hub", "-n", "3", "temperature=0", "max_tokens=24", "--json", "--no-report")
    summary = json.loads(ran.out)
    assert summary["success"]["value"] == 1.0, "auto reads the tool calls that the template asks for"
    assert any("parser 'tools'" in note for note in summary["notes"])
    read_as_text = ("agent.parser=text", "agent.max_tokens=24", "--out", "runs/text", "--json", "--no-report")
    ran = run("eval", "my_env.py", "-p", "hub", "-n", "3", *read_as_text)
    assert json.loads(ran.out)["success"]["value"] == 0.0
    manifest = json.loads(Path("runs/text/episodes/_manifest.json").read_text())
    assert manifest["run"]["agent"] == {"parser": "text", "max_tokens": 24}, "how it was played is recorded"


def test_every_algorithm_takes_what_is_not_set_from_the_model(tmp_path: Path) -> None:
    AgentSettings(context="last:1:bare", parser="search", max_tokens=7, temperature=0.5).save(tmp_path)
    for word in ALGORITHMS:
        teacher = [f"algorithm.teacher={tmp_path}"] if word == "distill" else []
        config = configured(word, None, [f"model={tmp_path}", "env=turnwise/MazeU-v0", "agent.max_tokens=9", *teacher])
        agent = config.agent
        assert (agent.context, agent.parser, agent.temperature) == ("last:1:bare", "search", 0.5), word
        assert agent.max_tokens == 9, f"{word}: what the user sets wins"


def test_what_cannot_be_meant_is_refused(run: Run, tmp_path: Path) -> None:
    eval_ = ("eval", "guess.py", "-p", "oracle")
    run(*eval_, "agent.parser=json").refused("agent.parser", "'json' is unknown", "auto")
    run(*eval_, "agent.max_batch=3").refused("agent.max_batch", "there is no setting")
    run(*eval_, "parser=tools").refused("there is no setting 'parser'; did you mean 'agent.parser'?")
    run(*eval_, "temperature=0", "agent.temperature=1").refused("set one of them")
    run("train", "loop", "env=guess.py", "model=m", "agent.top_p=0.9").refused("agent.top_p", "trap 17")
    (tmp_path / "agent.json").write_text('{"context": "all"}')
    run("train", "loop", "env=guess.py", f"model={tmp_path}").refused("agent.json", "'all' is unknown")
