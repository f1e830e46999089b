"""Calls of an algorithm outside Turnwise: its errors with its line, and results that would train on a mistake."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import pydantic
import torch
from torch import Tensor

from ...envs.author_line import at, author_line, method_at
from ...errors import ContractError, TurnwiseError
from ...rollouts.turns import one_line
from ..critics.values import Values
from ..learning.batch import Batch
from ..learning.loss import Level
from ..learning.objective import LossConfig
from ..learning.rows import Rows
from .algorithm import Algorithm, Credit
from .named import is_outside, word_of


class SizedRows(Rows):
    """Rows that refuse advantages of another number of episodes or turns; indexing would take the first of them."""

    episodes: ClassVar[int]
    turns: ClassVar[int]

    @classmethod
    def of(cls, batch: Batch) -> SizedRows:
        """Return the rows of a batch, of a class with the numbers of its episodes and turns: changed rows keep it."""
        counts = {"episodes": len(batch.episodes), "turns": int(batch.reward_U.numel())}
        kind: type[SizedRows] = type(cls.__name__, (cls,), counts)
        return kind(**batch.rows.columns())

    def __reduce__(self) -> tuple[type[Rows], tuple[Tensor, ...]]:
        return Rows, tuple(self.columns().values())  # to other processes, which change no advantages

    def with_advantage(self, advantage_E: Any) -> Rows:
        return super().with_advantage(_numbers(advantage_E, "with_advantage", "episode", self.episodes, self.turns))

    def with_turn_advantage(self, advantage_U: Any) -> Rows:
        return super().with_turn_advantage(
            _numbers(advantage_U, "with_turn_advantage", "turn", self.turns, self.episodes)
        )

    def with_token_advantage(self, advantage_T: Any) -> Rows:
        return super().with_token_advantage(_numbers(advantage_T, "with_token_advantage", "token", len(self)))


def _numbers(given: Any, method: str, each: str, count: int, others: int | None = None) -> Tensor:
    """Return advantages as a tensor, if there is one for each.

    Raises:
        ContractError: there are others.
    """
    numbers = torch.as_tensor(given).detach()
    if numbers.shape == (count,):
        return numbers
    other = {"episode": "with_turn_advantage", "turn": "with_advantage"}.get(each)
    meant = f"; {other} takes this number of them" if other and numbers.shape == (others,) else ""
    raise ContractError(
        f"{method} takes one number for each {each}, a tensor of shape [{count}]; got the shape "
        f"{list(numbers.shape)}{meant}"
    )


def credited(algorithm: Algorithm, batch: Batch, values: Values | None, loss: LossConfig) -> Credit:
    """Return an algorithm's credit; that of one outside Turnwise is checked.

    Args:
        algorithm: the algorithm.
        batch: the batch, with ``logp_old``.
        values: the critic, if it needs one.
        loss: the loss that learns from the credit.

    Raises:
        ContractError: an algorithm outside Turnwise raised, or its credit cannot be learned from.
    """
    if not is_outside(algorithm):
        return algorithm.credit(batch, values)
    rows = SizedRows.of(batch)
    try:
        credit: Any = algorithm.credit(batch.with_rows(rows), values)
    except Exception as error:
        raise _raised(algorithm, error) from error
    if not (isinstance(credit, Credit) and isinstance(credit.rows, Rows)):
        _refuse(algorithm, f"returned {_kind(credit)}; return Credit(batch.rows.with_advantage(…))")
    wrong_T = ~torch.isfinite(credit.rows.advantage) if len(credit.rows) == len(rows) else None
    if wrong_T is None or credit.rows.advantage.shape != rows.mask.shape:
        _refuse(algorithm, "changed the number of tokens; return batch.rows with advantages, all of its tokens")
    if wrong_T.any():
        episode = batch.episodes[int(rows.episode[wrong_T][0])]
        value = float(credit.rows.advantage[wrong_T][0])
        _refuse(
            algorithm,
            f"returned an advantage of {value} for episode {episode.episode_id}, whose return is "
            f"{episode.total_reward:.4g}; advantages must be finite numbers (a division by a deviation of 0?)",
        )
    if algorithm.needs_values and credit.target_T is None:
        _refuse(
            algorithm,
            "returned no target_T, so its critic would never learn; return Credit(rows, target_T=…), or set "
            "needs_values = False",
        )
    level = level_of(credit.rows)
    try:
        loss.refuse_erasing(level, algorithm.name)
    except ValueError as error:
        _refuse(algorithm, f"has another credit_level: {error}. Override the property credit_level with {level!r}")
    return credit


def level_of(rows: Rows) -> Level:
    """Return the coarsest segment whose sampled tokens all have the same advantage."""
    advantage_N = rows.advantage[rows.mask]
    if _constant(advantage_N, rows.episode[rows.mask]):
        return "trajectory"
    return "turn" if _constant(advantage_N, rows.turn[rows.mask]) else "token"


def _constant(number_N: Tensor, index_N: Tensor) -> bool:
    if not number_N.numel():
        return True
    segments, inverse_N = torch.unique(index_N, return_inverse=True)
    low, high = torch.full((segments.numel(),), torch.inf), torch.full((segments.numel(),), -torch.inf)
    low = low.scatter_reduce(0, inverse_N, number_N, "amin")
    high = high.scatter_reduce(0, inverse_N, number_N, "amax")
    return bool(torch.equal(low, high))


def _kind(found: Any) -> str:
    return "nothing" if found is None else f"an object of type {type(found).__name__}"


def _raised(algorithm: Algorithm, error: Exception) -> TurnwiseError:
    """Return the error of an algorithm that raised, with the line of its own code."""
    frozen = isinstance(error, pydantic.ValidationError) and any(
        each["type"] == "frozen_instance" for each in error.errors()
    )
    what = (
        "set one of its settings, which are fixed; what it remembers between steps belongs in a private attribute "
        "(docs/algorithms.md)"
        if frozen
        else f"raised {one_line(error)}"
    )
    what = f"went wrong: {error}" if isinstance(error, TurnwiseError) else what
    return ContractError(f"{word_of(algorithm)}.credit {what}{at(author_line(error))}")


def _refuse(algorithm: Algorithm, what: str) -> NoReturn:
    raise ContractError(f"{word_of(algorithm)}.credit {what}{method_at(algorithm, 'credit')}")
