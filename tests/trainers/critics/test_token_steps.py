"""Sampled tokens as steps: closed form on hand-made episodes of two turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from turnwise import Episode, Outcome
from turnwise.errors import ContractError, UsageError
from turnwise.trainers.critics.token_steps import INSIDE, NOWHERE, Per, Tokens, TokenSteps
from turnwise.trainers.learning.rows import pack

from ..fakes import Said, conversation, episode, turn


def tokens(episodes: Sequence[Episode], *, gamma: float = 0.5, per: Per = "turn") -> tuple[Tokens, TokenSteps]:
    rows = pack(episodes)
    steps = TokenSteps.of(episodes, rows, gamma=gamma, per=per)
    return steps.tokens(rows), steps


TWO = conversation([Said((1, 2), (3, 4), 1.0), Said((5,), (6, 7), 2.0)])


def test_two_turns_discounted_per_turn() -> None:
    found, _ = tokens([TWO])
    assert found.ids_N.tolist() == [3, 4, 6, 7]
    assert found.reward_N.tolist() == [0, 1, 0, 2], "paid at the last token of a turn"
    assert found.discount_N.tolist() == [1, 0.5, 1, 0], "none inside a turn, γ between turns, nothing after the end"
    assert found.return_N.tolist() == [2, 2, 2, 2], "1 + γ·2, and 2"
    assert found.successor_N.tolist() == [INSIDE, INSIDE, INSIDE, NOWHERE]


def test_two_turns_discounted_per_token() -> None:
    found, _ = tokens([TWO], per="token")
    assert found.discount_N.tolist() == [0.5, 0.5, 0.5, 0]
    assert found.return_N.tolist() == [0.75, 1.5, 1, 2], "γ(1 + γ·γ·2), 1 + γ·γ·2, γ·2, 2"


def test_the_successor_in_another_row_is_its_prompt() -> None:
    rewritten = conversation([Said((1, 2), (3, 4), 1.0), Said((5,), (6, 7), 2.0, rewrites=True)])
    found, steps = tokens([rewritten])
    assert found.successor_N.tolist() == [INSIDE, 0, INSIDE, NOWHERE]
    assert steps.prompts == ((5,),)
    plain, _ = tokens([TWO])
    for name in ("reward_N", "discount_N", "return_N"):
        assert torch.equal(getattr(found, name), getattr(plain, name)), "rows play no part in what was paid"


def test_a_row_that_goes_on_after_another_turn_is_not_its_own_successor() -> None:
    """Turns 0 and 2 share a row, and turn 1, which is between them, has one of its own."""
    mixed = episode([turn((1,), (3,), 1.0), turn((8,), (9,), 2.0), turn((1, 3, 5), (6,), 4.0)])
    found, steps = tokens([mixed])
    assert found.ids_N.tolist() == [3, 6, 9], "packed by rows"
    assert [steps.prompts[i] if i >= 0 else i for i in found.successor_N.tolist()] == [(8,), NOWHERE, (1, 3, 5)]
    assert found.return_N.tolist() == [1 + 0.5 * 2 + 0.25 * 4, 4, 2 + 0.5 * 4]


def test_truncation_looks_at_the_state_that_was_cut_off_and_termination_at_none() -> None:
    cut = replace(TWO, outcome=Outcome.TRUNCATED, final_prompt_ids=(1, 2, 3, 4, 5, 6, 7, 8))
    found, steps = tokens([cut])
    assert found.discount_N.tolist() == [1, 0.5, 1, 0.5]
    assert steps.prompts[int(found.successor_N[-1])] == cut.final_prompt_ids
    assert found.return_N.tolist() == [2, 2, 2, 2], "a Monte-Carlo return ends where the episode does"
    done = replace(cut, turns=(*cut.turns[:-1], replace(cut.turns[-1], terminated=True)))
    found, _ = tokens([done])
    assert found.successor_N[-1] == NOWHERE
    assert found.discount_N[-1] == 0


def test_a_state_that_was_cut_off_and_not_recorded_is_refused() -> None:
    with pytest.raises(ContractError, match="episode e was cut off by a limit and has no final_prompt_ids"):
        tokens([replace(TWO, outcome=Outcome.TRUNCATED)])


def test_a_turn_that_nobody_sampled_pays_the_step_before_it() -> None:
    silent = episode([turn((1,), (2,), 1.0), turn((), (), 8.0), turn((1, 2, 3), (4,), 16.0)])
    found, _ = tokens([silent])
    assert found.reward_N.tolist() == [1 + 0.5 * 8, 16]
    assert found.discount_N.tolist() == [0.25, 0], "two turns further"
    assert found.return_N.tolist() == [1 + 0.5 * 8 + 0.25 * 16, 16]


def test_values_of_successors_come_from_the_row_or_from_the_prompt() -> None:
    rewritten = conversation([Said((1, 2), (3, 4), 1.0), Said((5,), (6, 7), 2.0, rewrites=True)])
    found, _ = tokens([rewritten])
    value_N = torch.tensor([10.0, 20.0, 30.0, 40.0])
    assert found.following(value_N, torch.tensor([7.0])).tolist() == [20, 7, 40, 0]


def test_as_returns_everything_is_paid_at_once() -> None:
    found, _ = tokens([TWO])
    at_once = found.as_returns()
    assert at_once.reward_N.tolist() == [2, 2, 2, 2]
    assert not at_once.discount_N.any()
    assert at_once.following(torch.ones(4), torch.zeros(0)).tolist() == [0, 0, 0, 0]


drawn = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(-4, 4), st.booleans()), min_size=1, max_size=5
)


@pytest.mark.slow
@given(st.lists(drawn, min_size=1, max_size=3), st.sampled_from([0.5, 1.0]), st.sampled_from(["turn", "token"]))
def test_returns_are_discounted_sums_and_environment_tokens_change_nothing(
    plans: list[list[tuple[int, int, int, bool]]], gamma: float, per: Per
) -> None:
    """Compare with a loop over an episode's tokens, for any observations and rewritten rows."""

    def played(extra: int, rewriting: bool) -> list[Episode]:
        made = []
        for number, plan in enumerate(plans):
            said = [
                Said(tuple(range(10, 10 + c + extra)), tuple(range(50, 50 + a)), float(r), rewrites=rewriting and w)
                for c, a, r, w in plan
            ]
            made.append(conversation(said, name=str(number)))
        return made

    expected: list[float] = []
    for plan in plans:
        paid: list[tuple[float, float]] = []  # reward and discount of each token
        for _, length, reward, _ in plan:
            paid += [(0.0, gamma if per == "token" else 1.0)] * (length - 1) + [(float(reward), gamma)]
        returns, following = [], 0.0
        for reward_, discount in reversed(paid):
            following = reward_ + discount * following
            returns.append(following)
        expected += reversed(returns)
    for extra, rewriting in ((0, False), (3, False)):
        found, steps = tokens(played(extra, rewriting), gamma=gamma, per=per)
        assert found.return_N.tolist() == pytest.approx(expected)
        assert not steps.prompts
    found, _ = tokens(played(0, True), gamma=gamma, per=per)
    assert sorted(found.return_N.tolist()) == pytest.approx(sorted(expected)), "rows may be packed in another order"


def test_parts_say_what_the_whole_says() -> None:
    episodes = [TWO, conversation([Said((1,), (2, 3), -1.0), Said((4,), (5,), 3.0, rewrites=True)], name="f")]
    rows = pack(episodes)
    steps = TokenSteps.of(episodes, rows, gamma=0.5)
    whole = steps.tokens(rows)
    parts = [steps.tokens(rows.select([row], unit="row")) for row in range(int(rows.row.max()) + 1)]
    for name in ("reward_N", "discount_N", "return_N", "successor_N"):
        pieces: list[Tensor] = [getattr(part, name) for part in parts]
        assert torch.equal(torch.cat(pieces), getattr(whole, name)), name


def test_an_episode_of_two_players_is_refused() -> None:
    mixed = episode([turn((1,), (2,), 1.0), replace(turn((1, 3), (4,), -1.0), seat="opponent")])
    with pytest.raises(UsageError, match=r"seats agent, opponent, .* train on one episode per seat"):
        tokens([mixed])
