"""Whole episodes over servers: many at once, failures in the middle, and the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import turnwise as tw
from turnwise.agents.agent import Agent
from turnwise.agents.chat import ChatAgent
from turnwise.agents.named import agent_from
from turnwise.agents.settings import AgentSettings
from turnwise.cli import build_app
from turnwise.errors import ModelError, UsageError
from turnwise.inference.policy import Sampling
from turnwise.inference.serving.http import probing
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Pause
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes

from ...rollouts.fakes import Count, tasks
from .fake_server import FakeServer
from .helpers import scores

Serve = Callable[..., FakeServer]


def agent_over(*servers: FakeServer, tokenizer: Any, patience: float = 60.0) -> Agent:
    clients = [ServerClient(server.url) for server in servers]
    policy = RemotePolicy(clients, patience=patience, backoff=0.01)
    return ChatAgent(policy, tokenizer, sampling=Sampling(max_tokens=4), context="last:1")


async def played(
    agent: Agent, count: int, *, at: int = -1, do: Callable[[], Any] = lambda: None, skip: tuple[str, ...] = ()
) -> list[Episode]:
    """Play ``count`` tasks at once; when ``at`` episodes are over something is done, and only then the last one begins.

    So at least one episode meets what was done, however fast the others are.
    """
    episodes: list[Episode] = []
    options = RunOptions(concurrency=count, retries=1, backoff=0.01)
    done = asyncio.Event()

    async def admitted() -> AsyncGenerator[tw.TaskSpec, None]:
        *first, last = tasks(count)
        for task in first:
            yield task
        await done.wait()
        yield last

    if at < 0:
        done.set()
    async for episode in run_episodes(Count, agent, admitted(), options=options, skip=skip):
        episodes.append(episode)
        if len(episodes) == at:
            await asyncio.to_thread(do)
            done.set()
    return episodes


def exact(episodes: list[Episode], model: Any) -> None:
    """Each token was sampled after the prompt that is recorded, by these weights."""
    for turn in [turn for episode in episodes for turn in episode.turns]:
        assert turn.logprobs == pytest.approx(scores(model)(turn.prompt_ids, turn.action_ids), abs=1e-3)


@pytest.mark.slow
async def test_64_episodes_at_once_are_recorded_as_they_were_served(
    serve: Serve, models: list[Any], tokenizer: Any
) -> None:
    servers = [serve(), serve()]
    episodes = await played(agent_over(*servers, tokenizer=tokenizer), 64)
    assert {episode.outcome for episode in episodes} == {Outcome.COMPLETED}
    recorded = sorted(turn.prompt_ids for episode in episodes for turn in episode.turns)
    sent = [body["token_ids"] for server in servers for body in server.calls("/inference/v1/generate")]
    episodic = [tuple(ids) for ids in sent if len(ids) > 3]  # those of the probes are shorter
    assert sorted(episodic) == recorded, "what was served is not what was recorded"
    exact(episodes[::8], models[0])


@pytest.mark.slow
async def test_a_replica_killed_in_the_middle_loses_nothing(serve: Serve, models: list[Any], tokenizer: Any) -> None:
    servers = [serve(), serve()]
    agent = agent_over(*servers, tokenizer=tokenizer)
    episodes = await played(agent, 32, at=8, do=servers[0].kill)
    assert len({episode.episode_id for episode in episodes}) == 32
    assert {episode.outcome for episode in episodes} == {Outcome.COMPLETED}, "the other replica takes over"
    assert {episode.attempts for episode in episodes} == {1}, "and no episode is begun again"
    exact(episodes[-8:], models[0])


@pytest.mark.slow
async def test_when_the_only_server_is_gone_episodes_fail_unscored_and_the_run_goes_on_from_there(
    fake: FakeServer, models: list[Any], tokenizer: Any
) -> None:
    agent = agent_over(fake, tokenizer=tokenizer, patience=0.2)
    episodes = await played(agent, 40, at=5, do=fake.kill)
    assert len({episode.episode_id for episode in episodes}) == 40
    done = [episode for episode in episodes if episode.outcome is Outcome.COMPLETED]
    lost = [episode for episode in episodes if episode.outcome is Outcome.INFRA_FAILED]
    assert len(done) >= 5
    assert len(lost) >= 1
    assert len(done) + len(lost) == 40
    assert all(episode.score is None and fake.url in str(episode.error) for episode in lost)
    await asyncio.to_thread(fake.start)
    patient = agent_over(fake, tokenizer=tokenizer)
    again = await played(patient, 40, skip=tuple(episode.episode_id for episode in done))
    assert {episode.episode_id for episode in again} == {episode.episode_id for episode in lost}
    assert {episode.outcome for episode in again} == {Outcome.COMPLETED}
    exact(again[:4], models[0])


# -- agent_from and the command line --------------------------------------------------------------------------------


def test_an_address_becomes_an_agent_as_the_model_was_trained(
    serve: Serve, folders: list[Path], tmp_path: Path
) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(folders[0], folder)
    AgentSettings(context="last:2", max_tokens=5, temperature=0.5).save(folder)
    server = serve(root=str(folder))
    agent = agent_from(server.url, temperature=0.0)
    assert isinstance(agent, ChatAgent)
    assert isinstance(agent.policy, RemotePolicy)
    assert (agent.sampling.max_tokens, agent.sampling.temperature) == (5, 0.0)
    assert type(agent.context).__name__ == "LastTurns"
    both = agent_from(f"{server.url},{serve(root=str(folder)).url}/#policy")
    assert isinstance(both, ChatAgent)
    assert isinstance(both.policy, RemotePolicy)
    assert len(both.policy.servers) == 2


@pytest.mark.parametrize(
    ("suffix", "options", "error", "message"),
    [
        (
            "",
            {},
            ModelError,
            r"loaded its model from 'Qwen/nano', which is not a folder on this machine.*--tokenizer FOLDER",
        ),
        ("#other", {}, UsageError, "does not serve 'other'; it serves 'policy'"),
        ("", {"tokenizer": "/no/such/folder"}, ModelError, "there is no model at /no/such/folder"),
        (",http://127.0.0.1:9", {}, UsageError, r"policy 'http.*127\.0\.0\.1:9 cannot be reached"),
    ],
)
def test_what_is_wrong_with_a_server_is_one_line(
    serve: Serve, suffix: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    server = serve(root="Qwen/nano")
    with pytest.raises(error, match=message) as caught:
        agent_from(server.url + suffix, **options)
    assert "\n" not in str(caught.value)


def test_the_tokenizer_of_another_model_is_refused(serve: Serve, tmp_path: Path) -> None:
    from turnwise.inference.nano import build_tokenizer

    (tmp_path / "config.json").write_text("{}")
    build_tokenizer("bpe", ["the look of things"]).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="differs from that of server"):
        agent_from(serve().url, tokenizer=str(tmp_path))


async def test_an_agent_can_be_made_inside_an_event_loop(serve: Serve, folders: list[Path]) -> None:
    agent = agent_from(serve(root=str(folders[0])).url, max_tokens=3)
    assert {episode.outcome for episode in await played(agent, 4)} == {Outcome.COMPLETED}


@pytest.mark.slow
def test_the_command_plays_over_a_server(
    serve: Serve, folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.register("test/ServerResponse-v0", Count)
    server = serve(root="somewhere else")
    common = [
        "eval",
        "test/ServerResponse-v0",
        "--policy",
        server.url,
        "-n",
        "6",
        "max_tokens=4",
        "--out",
        str(tmp_path / "out"),
    ]
    refused = CliRunner().invoke(build_app("eval"), common)
    assert refused.exit_code != 0
    asyncio.run(ServerClient(server.url).pause(Pause.KEEP))
    monkeypatch.setattr(probing, "PAUSED_SECONDS", 0.1)
    refused = CliRunner().invoke(build_app("eval"), common)
    assert isinstance(refused.exception, UsageError)
    assert "is paused" in str(refused.exception)
    asyncio.run(ServerClient(server.url).resume())
    words = [*common, "--tokenizer", str(folders[0]), "--json"]
    result = CliRunner().invoke(build_app("eval"), words)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["outcomes"] == {"completed": 6}
