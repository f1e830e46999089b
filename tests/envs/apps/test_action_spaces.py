"""Calls, programs and MCP are three ways into one world: the oracle's acts are worth the same in each."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.apps.env import AppsEnv
from turnwise.envs.messages import Action
from turnwise.rollouts.episode import Episode
from turnwise.sandboxes.backend import Backend
from turnwise.tasks.apps.family import APPS_FAMILY
from turnwise.tasks.apps.templates.catalogue import TEMPLATES
from turnwise.tasks.score import Score
from turnwise.tasks.spec import Split, TaskSpec

KINDS = ("question", "action", "mixed", "refusal", "dialogue")
LEVEL = 3


def chosen() -> list[TaskSpec]:
    """A task of each kind that there is."""
    found = []
    for kind in KINDS:
        names = [name for name in APPS_FAMILY.templates(Split.TRAIN) if TEMPLATES[name].kind == kind]
        if names:
            found.append(APPS_FAMILY.spec(5, template=names[0], level=LEVEL))
    return found


def played(spec: TaskSpec, **kwargs: Any) -> tuple[Score, list[Action]]:
    """The oracle's score, and what it did."""
    env = tw.make("turnwise/Apps-v2", **kwargs)
    env.reset(options={"task": spec})
    inner, over = env.unwrapped, False
    did: list[Action] = []
    info: dict[str, Any] = {}
    assert isinstance(inner, AppsEnv)
    while not over:
        action = Action.of(inner.oracle())
        did.append(action)
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    env.close()
    return info["score"], did


async def over_mcp(spec: TaskSpec, acts: list[Action]) -> tuple[Score, str]:
    """The score of the same calls, made by the official client, and what the task was there."""
    import mcp

    from turnwise.service.mcp.server import McpConfig, McpService

    records: list[Episode] = []
    config = McpConfig("turnwise/Apps-v2", spec.seed, str(spec.split), spec.level, spec.template)
    service = McpService(config, records.append)
    async with mcp.Client(service._server(), mode="legacy") as connected:
        for call in (call for act in acts for call in act.tool_calls):
            await connected.call_tool(call.name, dict(call.arguments))
    [record] = records
    assert record.score is not None
    return record.score, str(record.task)


@pytest.mark.parametrize("spec", chosen(), ids=lambda spec: spec.template)
def test_a_task_is_worth_the_same_by_calls_and_by_programs(spec: TaskSpec, backend: Backend) -> None:
    by_calls, _ = played(spec)
    by_programs, programs = played(spec, actions="python")
    assert by_calls.success
    assert by_programs == by_calls
    assert all(program.tool_calls[0].name == "python" for program in programs)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="NOT TESTED: pip install 'turnwise[mcp]'")
@pytest.mark.parametrize("spec", chosen(), ids=lambda spec: spec.template)
async def test_a_task_is_worth_the_same_over_mcp(spec: TaskSpec) -> None:
    by_calls, acts = await asyncio.to_thread(played, spec)
    by_mcp, task = await over_mcp(spec, acts)
    assert spec.digest in task or spec.template in task
    assert by_mcp == by_calls
