from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Episode, Outcome
from turnwise.errors import ContractError, DivergedError, UnscoredEpisodeError
from turnwise.rollouts.rows import CONTEXT, merge
from turnwise.trainers.learning.rows import Rows, pack

from ..fakes import Said, conversation, episode, turn

tokens = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
says = st.builds(Said, context=tokens, action=tokens, rewrites=st.booleans())
conversations = st.lists(says, min_size=1, max_size=6).map(conversation)


def test_prompts_that_continue_share_one_row() -> None:
    (row,) = merge(conversation([Said((1, 2), (3,)), Said((4,), (5, 6))]))
    assert row.ids == (1, 2, 3, 4, 5, 6)
    assert row.mask == (False, False, True, False, True, True)
    assert row.turn_index == (CONTEXT, CONTEXT, 0, CONTEXT, 1, 1)
    assert row.logprobs == (0.0, 0.0, -1.0, 0.0, -1.0, -1.0)


def test_a_rewritten_prompt_starts_a_new_row() -> None:
    first, second = merge(conversation([Said((1, 2), (3,)), Said((9, 9), (5,), rewrites=True)]))
    assert first.ids == (1, 2, 3)
    assert second.ids == (9, 9, 5), "the second row is what the policy read, not what it had read before"


def test_two_seats_with_their_own_histories_grow_two_rows() -> None:
    rows = merge(episode([turn((1,), (2,)), turn((8,), (9,)), turn((1, 2, 3), (4,)), turn((8, 9, 7), (6,))]))
    assert [row.ids for row in rows] == [(1, 2, 3, 4), (8, 9, 7, 6)], (
        "interleaved histories each continue their own row"
    )


def test_turns_without_sampled_tokens_are_not_trained() -> None:
    scripted = replace(turn((), ()), prompt_ids=())
    (row,) = merge(episode([scripted, turn((1,), (2,))]))
    assert row.turn_index == (CONTEXT, 1), "turn indices stay those of the episode"


@pytest.mark.parametrize("outcome", [Outcome.INFRA_FAILED, Outcome.CANCELLED])
def test_unscored_episodes_cannot_be_merged(outcome: Outcome) -> None:
    with pytest.raises(UnscoredEpisodeError, match="the machine is gone"):
        merge(conversation([Said((1,), (2,))], outcome=outcome))


def test_a_turn_with_too_few_logprobs_is_named() -> None:
    broken = replace(turn((1,), (2, 3)), logprobs=(-1.0,))
    with pytest.raises(ContractError, match=r"turn 0 .* 2 action ids, 1 log-probabilities"):
        merge(episode([broken]))


@pytest.mark.parametrize("logprob", [float("nan"), float("-inf"), float("inf")])
def test_a_log_probability_that_is_not_finite_ends_training_and_is_named(logprob: float) -> None:
    broken = replace(turn((1,), (2, 3)), logprobs=(-1.0, logprob))
    with pytest.raises(DivergedError, match=rf"turn 1 of episode e with a log-probability of {logprob}"):
        merge(episode([turn((1,), (2,)), broken]))


def test_an_action_without_a_prompt_is_refused() -> None:
    with pytest.raises(ContractError, match="first token cannot be scored"):
        merge(episode([turn((), (2,))]))


@given(conversations)
def test_every_sampled_token_is_in_exactly_one_row_once(talk: Episode) -> None:
    rows = merge(talk)
    found = [(t, i) for row in rows for t, i, m in zip(row.turn_index, row.ids, row.mask, strict=True) if m]
    wanted = [(index, token) for index, said in enumerate(talk.turns) for token in said.action_ids]
    assert sorted(found, key=lambda pair: pair[0]) == wanted, "sampled tokens, in order, each exactly once"
    for row in rows:
        assert all(m == (t != CONTEXT) for m, t in zip(row.mask, row.turn_index, strict=True))


@given(conversations)
def test_every_action_stands_after_exactly_the_prompt_it_was_sampled_under(talk: Episode) -> None:
    for row in merge(talk):
        for index in {t for t in row.turn_index if t != CONTEXT}:
            start = row.turn_index.index(index)
            assert row.ids[:start] == talk.turns[index].prompt_ids


@pytest.mark.slow
@given(st.lists(conversations, min_size=1, max_size=4), st.integers(1, 40), st.sampled_from(["row", "episode"]))
def test_microbatches_divide_without_loss(talks: list[Episode], budget: int, whole: str) -> None:
    rows = pack(talks)
    parts = rows.microbatches(budget, whole=whole)  # type: ignore[arg-type]
    assert sum(len(part) for part in parts) == len(rows)
    unit = "row" if whole == "row" else "episode"
    for part in parts:
        padded = part.padded()
        assert padded.ids_BL.numel() <= budget or torch.unique(getattr(part, unit)).numel() == 1
        assert torch.equal(padded.ids_BL.flatten()[padded.flat_T], part.ids), "packing and padding round-trip"
        assert int(padded.attention_BL.sum()) == len(part), "attention covers every real token, trained on or not"
    seen = [u for part in parts for u in torch.unique(getattr(part, unit)).tolist()]
    assert len(seen) == len(set(seen)), "a unit is never divided"


def test_turns_are_numbered_across_the_batch() -> None:
    rows = pack([conversation([Said((1,), (2,)), Said((3,), (4,))]), conversation([Said((5,), (6,))])])
    assert rows.turn[rows.mask].tolist() == [0, 1, 2]
    credited = rows.with_turn_advantage(torch.tensor([10.0, 20.0, 30.0]))
    assert credited.advantage[rows.mask].tolist() == [10.0, 20.0, 30.0]
    assert not credited.advantage[~rows.mask].any(), "context carries no advantage"


def test_choosing_episodes_keeps_indices_and_weights() -> None:
    rows = pack([conversation([Said((1,), (2,))]) for _ in range(3)]).with_advantage(torch.tensor([1.0, 2.0, 3.0]))
    part = rows.with_weight(rows.mask.float() / 3).select([2, 0])
    assert torch.unique(part.episode).tolist() == [0, 2]
    assert part.advantage[part.mask].tolist() == [1.0, 3.0]
    assert part.weight.sum().item() == pytest.approx(2 / 3)


def test_no_episodes_are_no_rows() -> None:
    rows = pack([])
    assert isinstance(rows, Rows)
    assert len(rows) == 0
    assert rows.tokens == 0
    assert rows.microbatches(10) == []
