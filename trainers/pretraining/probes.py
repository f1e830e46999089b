"""The probe suite: held-out exercises of every skill, scored by exact answers against chance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...inference.policy import Completion, Policy, Sampling
from ...tasks.text.exercise import Exercise
from ...tasks.text.skills import SKILLS, exercise

SEED = 1
"""Seed of the probes; with ``held_out`` names, no training exercise is among them."""
ROOM = 16
"""Tokens that an answer may have beyond the right one."""


@dataclass(frozen=True, slots=True)
class ProbeScore:
    """Exact answers in the exercises of one skill.

    Args:
        right: number of exact answers.
        total: number of exercises.
        chance: expected share of right answers of a player who picks among the choices at random; 0 for skills whose
            answer is not one of a few.
    """

    right: int
    total: int
    chance: float

    @property
    def share(self) -> float:
        """Share of exact answers."""
        return self.right / self.total


def probe_suite(count: int) -> list[Exercise]:
    """Return ``count`` held-out exercises of every skill, always the same ones."""
    return [exercise(skill, index, seed=SEED, held_out=True) for skill in SKILLS for index in range(count)]


def probe_scores(exercises: Sequence[Exercise], answers: Sequence[str]) -> dict[str, ProbeScore]:
    """Score answers by skill: right is what equals the expected text, apart from space around it.

    Args:
        exercises: the exercises.
        answers: one text for each of them.
    """
    pairs = list(zip(exercises, answers, strict=True))
    found: dict[str, ProbeScore] = {}
    for kind in dict.fromkeys(one.kind for one in exercises):
        mine = [(one, answer) for one, answer in pairs if one.kind == kind]
        right = sum(answer.strip() == one.answer for one, answer in mine)
        found[kind] = ProbeScore(right, len(mine), sum(one.chance for one, _ in mine) / len(mine))
    return found


def probe_policy(policy: Policy, tokenizer: Any, exercises: Sequence[Exercise]) -> list[str]:
    """Return a policy's greedy answers.

    Args:
        policy: policy that samples tokens.
        tokenizer: its tokenizer, with a chat template.
        exercises: exercises to answer, each in a conversation of its own.
    """

    async def answers() -> list[Completion]:
        return await asyncio.gather(*(policy.generate(*_request(tokenizer, one)) for one in exercises))

    return [_text(tokenizer, completion) for completion in asyncio.run(answers())]


def _request(tokenizer: Any, one: Exercise) -> tuple[list[int], Sampling]:
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": one.question}], add_generation_prompt=True, tokenize=False
    )
    most = len(tokenizer.encode(one.answer, add_special_tokens=False)) + ROOM
    return tokenizer.encode(prompt, add_special_tokens=False), Sampling(temperature=0.0, max_tokens=most)


def _text(tokenizer: Any, completion: Completion) -> str:
    return str(tokenizer.decode(completion.token_ids, skip_special_tokens=True))


def probe_metrics(scores: Mapping[str, ProbeScore]) -> dict[str, float]:
    """Return the shares by name, as ``metrics.jsonl`` has them."""
    return {f"probe/{kind}": score.share for kind, score in scores.items()}
