"""A program is trained: its episodes are made of exactly the tokens that the policy sampled, and the learner agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import turnwise as tw
from turnwise.agents.chat import ChatAgent
from turnwise.errors import ProgramFailedError
from turnwise.inference.models import load_model
from turnwise.inference.policy import Completion, Sampling
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes
from turnwise.service.process import ProgramConfig
from turnwise.service.program import ProgramAgent
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.run.settings import AgentConfig

from ..trainers import small
from .fakes import program

LAST_ONE = """
state = env()
opening = [message for message in state["messages"] if message["role"] == "system"]
seen = state["messages"]
while not state["done"]:
    said = ask(seen)
    state = env({"text": said["content"]})
    seen = opening + state["messages"]
"""
"""Shows the model what ``last:1`` would: the opening and the last observation."""
SETTINGS: dict[str, Any] = {"max_tokens": 4, "show_tools": False}


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that finds its way through the maze sometimes."""
    return small.clone(small.cloning(tmp_path_factory.mktemp("cloned") / "bc")).model


class Spy(TransformersPolicy):
    """Keeps its requests and its answers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.exchanges: list[tuple[tuple[int, ...], Completion]] = []

    async def generate(self, prompt_ids: Any, sampling: Sampling, *, session: str = "") -> Completion:
        completion = await super().generate(prompt_ids, sampling, session=session)
        self.exchanges.append((tuple(prompt_ids), completion))
        return completion


async def played(agent: ChatAgent, n: int = 3) -> list[tw.Episode]:
    options = RunOptions(group_size=2, concurrency=1, env_kwargs={"max_turns": 6}, retries=0)
    maze = tw.make(small.ENV)
    tasks = [maze.unwrapped.tasks().spec(seed) for seed in range(n)]  # type: ignore[attr-defined]
    maze.close()
    return [episode async for episode in run_episodes(small.ENV, agent, tasks, options=options)]


@pytest.mark.slow
async def test_what_is_trained_is_what_was_sampled(cloned: Path, tmp_path: Path) -> None:
    model, tokenizer = load_model(cloned)
    policy = Spy(model, tokenizer)
    chat = ChatAgent(policy, tokenizer, sampling=Sampling(max_tokens=4), context="last:1", show_tools=False)
    command = program(tmp_path / "agent.py", LAST_ONE)
    episodes = await played(ProgramAgent(chat, ProgramConfig(command=command)))
    turns = [turn for episode in episodes for turn in episode.turns]
    assert [(turn.prompt_ids, turn.action_ids) for turn in turns] == [
        (prompt, completion.token_ids) for prompt, completion in policy.exchanges
    ], "ids read and sampled are ids recorded, all of them, in order"
    assert [turn.logprobs for turn in turns] == [completion.logprobs for _, completion in policy.exchanges]
    batch = Batch.of(grouped(episodes))
    assert batch.rows.tokens == sum(len(completion.token_ids) for _, completion in policy.exchanges)
    rows = Learner(model, OptimizerConfig(), temperature=1.0).recompute_old(batch.rows)
    assert torch.allclose(rows.logp_old, rows.logp_behave, atol=1e-4), "the learner's own log-probabilities agree"

    same = 0
    for one, other in zip(await played(chat), episodes, strict=True):
        if not any("think>" in turn.action.text for turn in one.turns):  # a program does not get thoughts
            tokens = [[(turn.prompt_ids, turn.action_ids) for turn in episode.turns] for episode in (one, other)]
            assert tokens[0] == tokens[1], "the model itself, with the same seeds, would have played the same tokens"
            same += 1
    assert same >= 3


@pytest.mark.slow
def test_loop_trains_a_program(cloned: Path, tmp_path: Path) -> None:
    agent = SETTINGS | {"program": {"command": list(program(tmp_path / "agent.py", LAST_ONE))}}
    config = small.looping(tmp_path / "run", cloned, steps=2, agent=agent)
    result = small.run(config)
    assert result.steps == 2
    metrics = result.metrics
    assert (metrics["episodes"], metrics["unscored"], metrics["policy_failed"]) == (6.0, 0.0, 0.0)
    assert metrics["mismatch_p99"] < 1e-3, "the learner scores what was sampled as the sampler did"
    before, _ = load_model(cloned)
    after, _ = load_model(result.model)
    moved = [not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert any(moved), "the weights move"
    saved = json.loads((result.folder / "config.json").read_text(encoding="utf-8"))
    assert "agent.py" in json.dumps(saved), "the run's folder says which program"


@pytest.mark.slow
def test_a_program_that_never_works_stops_the_run(cloned: Path, tmp_path: Path) -> None:
    agent = SETTINGS | {"program": {"command": list(program(tmp_path / "agent.py", "import no_such_module"))}}
    with pytest.raises(ProgramFailedError, match=r"none of 4 episodes.*no_such_module"):
        small.run(small.looping(tmp_path / "run", cloned, steps=1, agent=agent))


def test_a_program_cannot_choose_the_temperature_it_is_trained_at() -> None:
    with pytest.raises(ValueError, match="temperatures that the learner does not know of"):
        AgentConfig.model_validate({"program": {"command": ["python"], "fixed_temperature": False}})


def test_a_command_is_enough_of_a_configuration() -> None:
    read = AgentConfig.model_validate({"program": ["python", "agent.py"]})
    assert read.program is not None
    assert read.program.command == ("python", "agent.py")
