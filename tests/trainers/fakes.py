"""Hand-written episodes and models for the trainers' tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise import Action, Episode, Outcome, Score, TaskSpec, Turn
from turnwise.envs.messages import Observation
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import Group


@dataclass(frozen=True)
class Said:
    """One turn in short: the prompt's new tokens and the action's tokens."""

    context: tuple[int, ...]
    action: tuple[int, ...]
    reward: float = 0.0
    rewrites: bool = False


def turn(
    prompt: Sequence[int], action: Sequence[int], reward: float = 0.0, logp: float = -1.0, version: int = 0
) -> Turn:
    return Turn(
        Observation.of("o"),
        Action("a"),
        reward,
        prompt_ids=tuple(prompt),
        action_ids=tuple(action),
        logprobs=(logp,) * len(action),
        versions=(version,) * len(action),
    )


def episode(
    turns: Sequence[Turn],
    *,
    group: str = "g0",
    name: str = "e",
    outcome: Outcome = Outcome.COMPLETED,
    success: bool = False,
) -> Episode:
    return Episode(
        episode_id=name,
        env_id="test/Fake-v0",
        task=TaskSpec("fake"),
        group_id=group,
        turns=tuple(turns),
        outcome=outcome,
        score=Score(success) if outcome.scored else None,
        error=None if outcome.scored else "the machine is gone",
    )


def conversation(
    said: Sequence[Said], *, group: str = "g0", name: str = "e", outcome: Outcome = Outcome.COMPLETED
) -> Episode:
    """An episode whose prompts grow by new messages; ``rewrites`` starts again from that turn's context alone."""
    history: tuple[int, ...] = ()
    turns = []
    for part in said:
        history = part.context if part.rewrites else history + part.context
        turns.append(turn(history, part.action, part.reward))
        history += part.action
    return episode(turns, group=group, name=name, outcome=outcome)


def returning(reward: float, *, group: str = "g0", name: str = "e", outcome: Outcome = Outcome.COMPLETED) -> Episode:
    """A one-turn episode with a given return."""
    return episode([turn((1, 2), (3,), reward)], group=group, name=name, outcome=outcome)


def comparing(groups: Sequence[Group]) -> tuple[Tensor, Tensor]:
    """The inputs of a group baseline: returns of episodes, and the group of each."""
    batch = Batch.of(groups)
    return batch.return_E, batch.group_E


class Bigram(torch.nn.Module):
    """The smallest language model: the next token's logits are a row of a table. Its gradient has a closed form."""

    def __init__(self, vocabulary: int = 7, seed: int = 0) -> None:
        super().__init__()
        table = torch.randn(vocabulary, vocabulary, generator=torch.Generator().manual_seed(seed))
        self.table = torch.nn.Parameter(table)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        return Output(self.table[input_ids])


@dataclass
class Output:
    logits: Tensor
