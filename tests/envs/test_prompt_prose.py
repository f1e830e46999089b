"""Agents read plain American English in built-in environments, by the rules of ``scripts/prose.py``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.builtin import IDS
from turnwise.envs.registry import find
from turnwise.envs.tools import Tool
from turnwise.tasks.rng import Rng

from ..shifts import SEED, core_sample, sampled

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = ("BFCL", "MiniWoB", "turnwise/Web-", "ChessStockfish")
"""Published texts of others, and ids that need a browser or an engine to show what another id shows, too."""
KEPT = "is no move"
"""Maze keeps this refusal: docs/results.md was measured with its texts, which read well otherwise."""
SANDBOXED = "turnwise/Code"
"""Only the prompts and tools of these are read: what else they show are files, and output of commands."""
EPISODES, ACTIONS, SEEDS = 12, 4, 40
ALLOWED = frozenset(
    {
        *("a person", "that person", "the person", "this person", "one person"),
        *("letters", "picture", "pictures", "is held", "are held", "said", "told"),
    }
)
"""Phrases that documentation avoids, but that are right in tasks about people, quotes, festivals, cameras and shops."""


@lru_cache(maxsize=1)
def prose() -> Any:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "scripts" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


def ids() -> list[str]:
    return [id for id, *_ in IDS if not any(part in id for part in ELSEWHERE)]


def faults(text: str, kind: str) -> list[str]:
    found = [(rule, match[0]) for rule in prose().RULES if kind in rule.kinds for match in rule.pattern.finditer(text)]
    return [
        f"{rule.name}: {words!r}; {rule.cure}; in: {text[:300]!r}"
        for rule, words in found
        if kind == "docstring" or words.lower() not in {*ALLOWED, KEPT}
    ]


def described(one: Tool) -> str:
    """Return a tool as a docstring, to which the rules for summaries and entries apply."""
    entries = {name: each.get("description", "") for name, each in one.parameters.get("properties", {}).items()}
    return "\n".join([one.description, *(f"{name}: {text}" for name, text in entries.items())])


def observed(env: tw.TurnEnv, split: str, level: int, seed: int, actions: int) -> Iterator[str]:
    """Yield the observations of an oracle, of an agent that acts at random, and of one that writes nonsense."""
    oracle, rng = env.oracle, Rng("prose", seed)
    for play in (oracle, lambda: env.random_action(rng), lambda: "What now?"):
        observation, _ = env.reset(seed=seed, options={"split": split, "level": level})
        yield observation.text
        for _ in range(actions):
            observation, _, terminated, truncated, _ = env.step(play())
            yield observation.text
            if terminated or truncated:
                break


@pytest.mark.slow
@pytest.mark.parametrize("id", core_sample(ids(), 10, key="prose"))
def test_prompts_tools_and_observations_are_plain_english(id: str) -> None:
    if lacks := find(id).lacks:
        pytest.skip(f"NOT TESTED: {lacks}")
    with tw.make(id) as env:
        assert isinstance(env, tw.TurnEnv)
        tools = {described(one) for one in env.tools}
        family, texts = env.tasks(), set[str]()
        episodes = sampled(list(product(family.splits, family.levels, range(SEEDS))), EPISODES, key=f"prose {id}")
        for split, level, seed in episodes:
            texts.update(observed(env, split, level, seed, 0 if id.startswith(SANDBOXED) else ACTIONS))
            tools |= {described(one) for one in env.tools}
    found = [fault for text in tools for fault in faults(text, "docstring")]
    found += [fault for text in texts for fault in faults(text, "error")]
    assert not found, f"{len(found)} texts of {id} (TEST_SEED={SEED}) break a rule:\n" + "\n".join(found[:20])
