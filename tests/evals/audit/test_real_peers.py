"""Logs that the peers' own packages write, each in a virtual environment of its own.

::

    python -m venv i && i/bin/pip install inspect-ai==0.3.285
    python -m venv v && v/bin/pip install verifiers==0.4.0
    INSPECT_PYTHON=i/bin/python VERIFIERS_PYTHON=v/bin/python pytest tests/evals/audit/test_real_peers.py
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from turnwise.evals.audit.checks import Audit, audit_log
from turnwise.evals.audit.logs import find_logs

RUN_INSPECT = """
import sys
import anyio
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import match
from inspect_ai.solver import solver

@solver
def answer():
    async def solve(state, generate):
        if state.sample_id == "broken":
            raise RuntimeError("the sandbox died")
        if state.sample_id == "slow":
            await anyio.sleep(60)
        state.messages.append(ChatMessageAssistant(content="4"))
        state.output.completion = "4"
        return state
    return solve

samples = [Sample(id=id, input="2 + 2?", target="4") for id in ("a", "b", "broken", "slow", "beyond the limit")]
eval(
    Task(dataset=MemoryDataset(samples), solver=answer(), scorer=match()), model="mockllm/model", epochs=2, limit=4,
    time_limit=10, fail_on_error=False, score_on_error=sys.argv[2] == "scored", log_dir=sys.argv[1],
    log_format="eval", display="none",
)
"""
WRITE_TRACES = """
import json, sys
from pathlib import Path
import verifiers.v1 as vf
from verifiers.v1 import graph
from verifiers.v1.episode import Episode
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.task import TaskData
from verifiers.v1.types import AssistantMessage, UserMessage
from verifiers.v1.graph import MessageNode
from verifiers.v1.utils.trace_store import write_episode

folder = Path(sys.argv[1])
def made(n, fails=False, again=False):
    task = TraceTask(type="T", data=TaskData(idx=n // 2, prompt="Go."), key=f"key{n // 2}", hash="h")
    trace = Trace(task=task, agent=AgentInfo(config=AgentConfig()))
    path = [UserMessage(content="Go."), AssistantMessage(content=f"move {n}"), UserMessage(content="And?")]
    def node(parent, message, ids, sampled=False):
        mask = [sampled] * len(ids)
        trace.nodes.append(MessageNode(parent=parent, message=message, token_ids=ids, mask=mask, sampled=sampled))
        return len(trace.nodes) - 1
    at = node(None, path[0], [1, 2])
    at = node(at, path[1], [3, 4], True)
    if again:
        at = node(node(None, path[0], [1, 2]), path[1], [3, 9])
    at = node(at, path[2], [5])
    node(at, AssistantMessage(content="done"), [6], True)
    trace.timing.agent.start, trace.timing.agent.end = trace.timing.start, trace.timing.start + 1 + n
    trace.record_reward("solved", 0.0 if fails else 1.0)
    trace.is_completed, trace.ok = True, True
    if fails:
        trace.record_error(vf.SandboxError("it died"))
    return Episode(task=task, traces=[trace], ok=trace.ok)

faulty = sys.argv[2] == "faulty"
for n in range(6):
    write_episode(folder, made(n, fails=faulty and n == 2, again=faulty and n == 3))
config = folder / "configs" / "resolved" / "eval.json"
config.parent.mkdir(parents=True)
config.write_text(json.dumps({"num_rollouts": 3 if faulty else 2, "select": {"limit": 3}}))
"""


def wrote(variable: str, program: str, folder: Path, kind: str) -> Audit:
    """Let a peer write a log, and audit it."""
    folder.mkdir()
    command = [os.environ[variable], "-c", program, str(folder), kind]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    (log,) = find_logs(folder)
    return audit_log(log)


@pytest.mark.slow
@pytest.mark.skipif("INSPECT_PYTHON" not in os.environ, reason="NOT TESTED with inspect's own writer; see above")
def test_inspects_own_log_is_read(tmp_path: Path) -> None:
    found = wrote("INSPECT_PYTHON", RUN_INSPECT, tmp_path / "unscored", "unscored")
    assert found.outcomes == {"scored": 4, "failed": 4}
    (zeros,) = found.findings
    assert "2 episodes are scored although they failed (2 time limit); 2 count as zero" in zeros.text
    assert zeros.examples == ("slow epoch 1", "slow epoch 2")
    found = wrote("INSPECT_PYTHON", RUN_INSPECT, tmp_path / "scored", "scored")
    (zeros,) = found.findings
    assert zeros.count == 4, "its score_on_error makes zeros of the failures too"
    assert "2 RuntimeError" in zeros.text


@pytest.mark.slow
@pytest.mark.skipif("VERIFIERS_PYTHON" not in os.environ, reason="NOT TESTED with verifiers' own writer; see above")
def test_verifiers_own_traces_are_read(tmp_path: Path) -> None:
    clean = wrote("VERIFIERS_PYTHON", WRITE_TRACES, tmp_path / "clean", "clean")
    assert (clean.findings, clean.unknown, clean.outcomes) == ((), (), {"scored": 6})
    found = wrote("VERIFIERS_PYTHON", WRITE_TRACES, tmp_path / "faulty", "faulty")
    texts = {each.name: each.text for each in found.findings}
    assert texts.keys() == {"lost", "zeros", "tokens"}
    assert "3 of 9 planned episodes are not in the log" in texts["lost"]
    assert "1 episode is scored although it failed (1 SandboxError)" in texts["zeros"]
    assert "1 of 6 turns does not continue the tokens before them; 1 of them has the same messages" in texts["tokens"]
