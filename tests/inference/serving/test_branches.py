"""Branches over several servers: a branch continues at the server that has its prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnwise.agents.chat import ChatAgent
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.rollouts.branching import Strategy, branch_episodes
from turnwise.rollouts.branching_entropy import EntropyBranching
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool

from ...rollouts.fakes import Count, tasks
from .fake_server import FakeServer


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize(
    ("strategy", "size"), [(EntropyBranching(threshold=1), 4), (StateValues(rollouts=2), 2)], ids=["entropy", "vine"]
)
async def test_a_tree_stays_at_the_server_that_has_its_prefix(
    serve: Callable[..., FakeServer], tokenizer: Any, strategy: Strategy, size: int
) -> None:
    servers = [serve(), serve(), serve()]
    policy = RemotePolicy([ServerClient(server.url) for server in servers])
    agent = ChatAgent(policy, tokenizer, sampling=Sampling(max_tokens=4))
    options = RunOptions(group_size=size, concurrency=16)
    async with EnvPool.of(Count) as pool:
        played = branch_episodes(pool, agent, tasks(8), strategy=strategy, options=options)
        episodes = [episode async for episode in played]
    assert all(episode.scored for episode in episodes)
    sent = [{tuple(body["token_ids"]) for body in server.calls("/inference/v1/generate")} for server in servers]
    places: dict[str, set[int]] = {}
    for episode in episodes:
        root = episode.fork.owners[0] if episode.fork is not None else episode.episode_id
        for turn in episode.turns[1:]:  # first prompts are the same for all attempts at a task, wherever they are
            found = {number for number, prompts in enumerate(sent) if turn.prompt_ids in prompts}
            assert found, "it was read as it is recorded"
            places.setdefault(root, set()).update(found)
    assert all(len(found) == 1 for found in places.values()), places
    assert len(places) >= 16
    assert len(set().union(*places.values())) > 1, "other trees are elsewhere"
    branched = [e for e in episodes if e.fork is not None]
    assert bool(branched) == isinstance(strategy, EntropyBranching)
