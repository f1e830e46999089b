"""Credit of an algorithm outside Turnwise: what would train on a mistake is refused, with the author's line."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from turnwise.errors import ContractError
from turnwise.trainers.algorithms.algorithm import Algorithm, Credit
from turnwise.trainers.algorithms.credited import credited, level_of
from turnwise.trainers.algorithms.rloo import RLOO
from turnwise.trainers.learning.advantages import leave_one_out
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.objective import LossConfig
from turnwise.trainers.learning.rows import Rows

from .batches import batch

GIVEN = [[[1.0, 0.5], [0.0, 0.0, 2.0]], [[0.5], [1.0, 1.0]]]
TURNS = 8
TRAJECTORY = LossConfig(ratio_level="trajectory")


class Rule(Algorithm):
    """A user's rule, whose result a test chooses."""

    name: str = "rule"
    found: ClassVar[Any] = None

    def credit(self, batch: Batch, values: Any) -> Any:
        return type(self).found(batch)


def refused(found: Any, *, loss: LossConfig | None = None, values: bool = False) -> str:
    kind = type("Mine", (Rule,), {"found": staticmethod(found), "needs_values": values, "__annotations__": {}})
    kind.__module__ = __name__
    with pytest.raises(ContractError) as refusal:
        credited(kind(), batch(GIVEN), None, loss or LossConfig())
    return str(refusal.value)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (lambda b: None, "returned nothing; return Credit("),
        (lambda b: b.return_E, "returned an object of type Tensor; return Credit("),
        (
            lambda b: Credit(b.rows.with_advantage(b.reward_U)),
            "each episode, a tensor of shape [4]; got the shape [8]",
        ),
        (lambda b: Credit(b.rows.with_advantage(b.reward_U)), "with_turn_advantage takes this number of them"),
        (lambda b: Credit(b.rows.with_turn_advantage(b.return_E)), "with_advantage takes this number of them"),
        (lambda b: Credit(b.rows.with_advantage(b.return_E[:, None])), "got the shape [4, 1]"),
        (lambda b: Credit(b.rows.with_token_advantage(b.return_E)), "one number for each token"),
        (lambda b: Credit(b.rows.with_advantage(b.return_E / 0)), "an advantage of inf for episode g0-0"),
        (lambda b: Credit(b.rows.select([0])), "changed the number of tokens"),
        (lambda b: Credit(b.rows.with_advantage(b.returns)), "raised AttributeError: 'Batch' object has no attribute"),
    ],
)
def test_a_wrong_result_is_one_sentence_with_the_line(found: Any, said: str) -> None:
    text = refused(found)
    assert said in text
    assert "Mine.credit" in text
    assert "test_credited.py:" in text


def test_credit_that_a_ratio_would_average_is_refused() -> None:
    """A rule that credits turns and forgets ``credit_level`` would give every token the mean of its trajectory."""

    def by_turn(given: Batch) -> Credit:
        return Credit(given.rows.with_turn_advantage(given.reward_U))

    text = refused(by_turn, loss=TRAJECTORY)
    assert "gives every token of a trajectory the mean credit of all" in text
    assert "Override the property credit_level with 'turn'" in text


def test_rows_that_a_rule_has_changed_count_as_before_and_others_read_plain_ones() -> None:
    def twice(given: Batch) -> Credit:
        first = given.rows.with_advantage(given.return_E).with_weight(given.rows.weight)
        assert type(pickle.loads(pickle.dumps(first))) is Rows, "another process has no such class"
        return Credit(first.with_turn_advantage(given.return_E))

    assert "one number for each turn, a tensor of shape [8]; got the shape [4]" in refused(twice)


def test_a_critic_that_would_never_learn_is_refused() -> None:
    def without_target(given: Batch) -> Credit:
        return Credit(given.rows.with_advantage(given.return_E))

    assert "returned no target_T, so its critic would never learn" in refused(without_target, values=True)


def test_a_setting_that_credit_changes_names_the_cure() -> None:
    class Counting(Rule):
        count: int = 0

        def credit(self, batch: Batch, values: Any) -> Any:
            self.count += 1

    with pytest.raises(ContractError, match=r"one of its settings, which are fixed; .* in a private attribute"):
        credited(Counting(), batch(GIVEN), None, LossConfig())


def test_right_credit_passes_unchanged() -> None:
    class Right(Rule):
        def credit(self, batch: Batch, values: Any) -> Credit:
            return Credit(batch.rows.with_advantage(leave_one_out(batch.return_E, batch.group_E)))

    given = batch(GIVEN)
    found, theirs = credited(Right(), given, None, TRAJECTORY), RLOO().credit(given, None)
    assert torch.equal(found.rows.advantage, theirs.rows.advantage)
    assert level_of(found.rows) == "trajectory"
    lists = type("Lists", (Rule,), {"found": staticmethod(lambda b: Credit(b.rows.with_turn_advantage([1.0] * TURNS)))})
    assert credited(lists(), given, None, TRAJECTORY).rows.advantage.sum() == int(given.rows.mask.sum())


def test_the_level_is_the_coarsest_segment_of_equal_credit() -> None:
    rows = batch(GIVEN).rows
    assert level_of(rows.with_turn_advantage(torch.arange(TURNS))) == "turn"
    assert level_of(rows.with_token_advantage(torch.arange(len(rows)))) == "token"
    assert level_of(replace(rows, mask=torch.zeros_like(rows.mask))) == "trajectory", "nothing was sampled"
