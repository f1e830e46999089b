"""Rows: the token sequences to train on, made from episodes without encoding any text again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ContractError, DivergedError, UnscoredEpisodeError, UsageError
from .episode import Episode, Turn

CONTEXT = -1
"""Turn and version of a token that was not sampled."""


@dataclass(frozen=True, slots=True)
class Row:
    """One token sequence as the policy saw it grow; all fields have one entry per token.

    Args:
        ids: prompt and action tokens, in order.
        mask: true on tokens that the policy sampled, and only there.
        logprobs: log-probability of sampled tokens under the behavior policy; 0 elsewhere.
        versions: policy version of sampled tokens; ``CONTEXT`` elsewhere.
        turn_index: index of the turn in the episode, for sampled tokens; ``CONTEXT`` elsewhere.
    """

    ids: tuple[int, ...]
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    turn_index: tuple[int, ...]


def merge(episode: Episode) -> list[Row]:
    """Build the rows of an episode: a turn whose prompt continues a row extends it, any other starts a new one.

    A rewritten context (history dropped, reasoning removed, observations compressed) is thus trained as the policy saw
    it, and never retroactively (traps.md, traps 2 and 28). Every sampled token is in exactly one row, once. A
    closing token that a template appends after an action is part of the next prompt, so it is context.

    Raises:
        UnscoredEpisodeError: the episode was not played to an end.
        UsageError: a model behind a chat API played it.
        ContractError: a turn's ids, log-probabilities and versions differ in length, or it has actions but no prompt.
    """
    if not episode.trainable:
        raise UnscoredEpisodeError(
            f"episode {episode.episode_id} is {episode.outcome} ({episode.error}): nothing can be learned from it"
        )
    growing: list[_Growing] = []
    for index, turn in enumerate(episode.turns):
        if not turn.action_ids:
            refuse_chat_api(episode, turn)
            continue
        check_turn(episode, index, turn)
        fitting = [row for row in growing if row.continued_by(turn.prompt_ids)]
        if fitting:
            row = max(fitting, key=lambda row: len(row.ids))
        else:
            row = _Growing()
            growing.append(row)
        row.extend(turn, index)
    return [row.sealed() for row in growing]


def refuse_chat_api(episode: Episode, turn: Turn) -> None:
    """Refuse a turn that a model behind a chat API played, since there are no tokens to train on.

    Raises:
        UsageError: the turn is from a chat API and was not encoded for another model.
    """
    if turn.by_chat_api and not turn.action_ids:
        raise UsageError(
            f"a model behind a chat API played episode {episode.episode_id}, and such an API gives no token ids or "
            "log-probabilities: its episodes are for evaluation, and for behavior cloning with "
            "demonstrations.sampled_ids=false, which encodes the recorded text"
        )


def check_turn(episode: Episode, index: int, turn: Turn) -> None:
    """Refuse a turn that cannot be made into a row: see ``merge``."""
    sizes = len(turn.action_ids), len(turn.logprobs), len(turn.versions)
    if len(set(sizes)) != 1:
        raise ContractError(
            f"turn {index} of episode {episode.episode_id} has {sizes[0]} action ids, {sizes[1]} log-probabilities "
            f"and {sizes[2]} versions: one of each is needed per token"
        )
    if not turn.prompt_ids:
        raise ContractError(
            f"turn {index} of episode {episode.episode_id} has action ids but no prompt ids: "
            "its first token cannot be scored"
        )
    check_logprobs(episode, index, turn)


def check_logprobs(episode: Episode, index: int, turn: Turn) -> None:
    """Refuse a turn with a log-probability that is not finite, from which every ratio would be NaN.

    Raises:
        DivergedError: a log-probability is NaN or infinite.
    """
    wrong = next((value for value in turn.logprobs if not math.isfinite(value)), None)
    if wrong is not None:
        raise DivergedError(
            f"the policy sampled turn {index} of episode {episode.episode_id} with a log-probability of {wrong}: its "
            "weights or arithmetic are no longer finite. Continue from an earlier checkpoint with a smaller "
            "optimizer.lr, or in float32"
        )


class _Growing:
    """A row under construction."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.mask: list[bool] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self.turn_index: list[int] = []

    def continued_by(self, prompt_ids: Sequence[int]) -> bool:
        size = len(self.ids)
        if size > len(prompt_ids) or self.ids[-1] != prompt_ids[size - 1]:  # one look settles most of the many rows
            return False
        return self.ids == list(prompt_ids[:size])

    def extend(self, turn: Turn, index: int) -> None:
        context = turn.prompt_ids[len(self.ids) :]
        self.ids += [*context, *turn.action_ids]
        self.mask += [False] * len(context) + [True] * len(turn.action_ids)
        self.logprobs += [0.0] * len(context) + list(turn.logprobs)
        self.versions += [CONTEXT] * len(context) + list(turn.versions)
        self.turn_index += [CONTEXT] * len(context) + [index] * len(turn.action_ids)

    def sealed(self) -> Row:
        return Row(
            tuple(self.ids), tuple(self.mask), tuple(self.logprobs), tuple(self.versions), tuple(self.turn_index)
        )
