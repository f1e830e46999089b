"""An unmodified program of OpenAI's SDK solves Turnwise environments through the endpoint."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.rows import merge
from turnwise.rollouts.runner import run_episodes
from turnwise.service.process import ProgramConfig
from turnwise.service.program import ProgramAgent

from ..service.fakes import Speaker, agent, calls
from .test_examples import EXAMPLES, load

PROGRAM = ProgramConfig(command=(sys.executable, str(EXAMPLES / "black_box_agent.py")), grace=10.0)
SHOPS = ("Adler", "Blum", "Cole")


def shopper(prompt: str) -> str:
    """The responses of a model that has learned to shop."""
    prices = [int(price) for price in re.findall(r"<tool>(\d+)", prompt)]
    return calls("price", shop=SHOPS[len(prices)]) if len(prices) < len(SHOPS) else calls("buy", price=min(prices))


def halving(prompt: str) -> str:
    """The responses of a model that has learned to search."""
    low, high = 1, 16
    for guess, answer in re.findall(r"<ai>(\d+)<end><user>(Too \w+)", prompt):
        low, high = (int(guess) + 1, high) if answer == "Too low" else (low, int(guess) - 1)
    return str((low + high) // 2)


async def play(env: str, policy: Speaker, family: str) -> list[tw.Episode]:
    tasks = [tw.TaskSpec(family, seed=seed) for seed in range(2)]
    acting = ProgramAgent(agent(policy), PROGRAM)
    return [e async for e in run_episodes(env, acting, tasks, options=RunOptions(isolation="inline"))]


@pytest.mark.slow
async def test_it_solves_an_environment_of_tools() -> None:
    load("tool_env.py")
    policy = Speaker(shopper)
    episodes = await play("demo/Bookshops-v0", policy, "Bookshops")
    assert all(episode.success for episode in episodes), [episode.error for episode in episodes]
    sampled = {said.token_ids for said in policy.said}
    assert {turn.action_ids for episode in episodes for turn in episode.turns} == sampled
    assert all(len(merge(episode)) == 1 for episode in episodes), "one growing row per episode"


@pytest.mark.slow
async def test_it_solves_an_environment_of_words() -> None:
    load("minimal_env.py")
    episodes = await play("demo/GuessNumber-v0", Speaker(halving), "GuessNumber")
    assert all(episode.success for episode in episodes), [episode.error for episode in episodes]


def test_it_knows_nothing_of_turnwise() -> None:
    text = Path(PROGRAM.command[1]).read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|from) turnwise", text, re.MULTILINE)
