"""Probes: 1 for a perfect player, chance for a random one, and a model's own greedy answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from turnwise.inference.nano import build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.tasks.rng import Rng
from turnwise.tasks.text.exercise import Exercise
from turnwise.tasks.text.skills import SKILLS
from turnwise.trainers.pretraining.probes import ProbeScore, probe_metrics, probe_policy, probe_scores, probe_suite


@cache
def suite() -> list[Exercise]:
    """The suite that training uses; a test makes it, and not the import of this file in each process."""
    return probe_suite(300)


@pytest.mark.slow
def test_the_suite_has_every_skill_and_never_changes() -> None:
    assert [one.kind for one in suite()] == [skill for skill in SKILLS for _ in range(300)]
    assert probe_suite(300) == suite()


def test_a_perfect_player_scores_one() -> None:
    scores = probe_scores(suite(), [f" {one.answer}\n" for one in suite()])
    assert {skill: score.share for skill, score in scores.items()} == dict.fromkeys(SKILLS, 1.0)


def test_a_random_player_scores_chance() -> None:
    rng = Rng("random player")
    scores = probe_scores(suite(), [rng.pick(one.choices) if one.choices else "?" for one in suite()])
    for skill, score in scores.items():
        assert abs(score.share - score.chance) <= 3 * (score.chance * (1 - score.chance) / 300) ** 0.5, skill
    assert scores["compare"].chance == 0.5
    assert scores["hints"].chance == 0.25
    assert scores["copy"].chance == 0


@pytest.mark.parametrize("answer", ["", "a b", "yes"])
def test_an_answer_must_be_exact(answer: str) -> None:
    assert probe_scores(suite()[:1], [answer])["copy"] == ProbeScore(0, 1, 0.0)


class Echo:
    """A policy that knows every answer, and records every prompt."""

    def __init__(self) -> None:
        self.tokenizer = build_tokenizer("byte")
        self.asked: list[str] = []

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        self.asked.append(str(self.tokenizer.decode(list(prompt_ids))))
        assert sampling.temperature == 0, "probes are greedy"
        answer = next(one.answer for one in suite() if f"<user>{one.question}<ai>" == self.asked[-1])
        ids = self.tokenizer.encode(f"{answer}<end>", add_special_tokens=False)
        assert len(ids) <= sampling.max_tokens
        return Completion(tuple(ids), (0.0,) * len(ids), (0,) * len(ids), Finish.STOP)


def test_a_policy_is_asked_each_question_in_a_conversation_of_its_own() -> None:
    policy, some = Echo(), suite()[::50]
    scores = probe_scores(some, probe_policy(policy, policy.tokenizer, some))
    assert probe_metrics(scores) == {f"probe/{skill}": 1.0 for skill in SKILLS}
    assert len(policy.asked) == len(some)
