"""Credit over trees, against brute force: every action is looked up by the tokens that only it has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise import Episode, Turn
from turnwise.trainers.algorithms.arpo import ARPO
from turnwise.trainers.algorithms.grpo import GRPO
from turnwise.trainers.algorithms.trees import action_U, copies_U, counted_once
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.normalizers import Normalizer, normalizer
from turnwise.trainers.learning.rows import Rows
from turnwise.trainers.on_policy import Parts, iterate

from ..fakes import Bigram
from ..test_on_policy import config
from .batches import Rewards, batch, mean, per_turn, tasks
from .forks import Leaf, grown, trees

LEAVES = [Leaf(None, 0, (0.0, 1.0, 1.0)), Leaf(0, 1, (0.0, 0.0)), Leaf(1, 2, (3.0,)), Leaf(None, 0, (1.0,))]
"""0 begins; 1 leaves it after a turn; 2 leaves 1 after one more; 3 begins too. Returns 2, 0, 3, 1."""

VOCABULARY = 620


def weighing(batch_: Batch, kind: str, mode: Normalizer = "const") -> Rows:
    """Rows with credit and what every token counts for, as the script makes them."""
    rows = ARPO(advantage=kind).credit(batch_, None).rows  # type: ignore[arg-type]
    return counted_once(batch_, rows.with_weight(normalizer(rows, mode, denominator=1.0 if mode == "const" else None)))


def per_action(rows: Rows) -> dict[int, float]:
    """Σ weight · advantage of each action's first token, by that token, over all rows."""
    found: dict[int, float] = {}
    for turn in torch.unique(rows.turn[rows.mask]).tolist():
        first = int((rows.turn == turn).nonzero()[0])
        token = int(rows.ids[first])
        found[token] = found.get(token, 0.0) + float(rows.weight[first] * rows.advantage[first])
    return found


def brute_force(episodes: Sequence[Episode]) -> dict[int, float]:
    """For each action ever taken, the mean advantage of the episodes in which it stands."""
    baseline = mean([episode.total_reward for episode in episodes])
    through: dict[int, list[float]] = {}
    for episode in episodes:
        for turn in episode.turns:
            through.setdefault(turn.action_ids[0], []).append(episode.total_reward - baseline)
    return {token: mean(values) for token, values in through.items()}


@pytest.mark.slow
@given(trees(), st.sampled_from(["soft", "hard"]))
def test_an_action_counts_once_with_the_mean_advantage_of_all_that_went_on_from_it(
    leaves: list[Leaf], kind: str
) -> None:
    episodes = grown(leaves)
    found = per_action(weighing(Batch.of(grouped(episodes)), kind))
    wanted = brute_force(episodes)
    assert found.keys() == wanted.keys()
    assert list(found.values()) == pytest.approx([wanted[token] for token in found], abs=1e-5)


@pytest.mark.slow
@given(trees())
def test_hard_and_soft_are_the_papers(leaves: list[Leaf]) -> None:
    episodes = grown(leaves)
    given_, wanted = Batch.of(grouped(episodes)), brute_force(episodes)
    actions = [turn.action_ids[0] for episode in episodes for turn in episode.turns]
    assert per_turn(ARPO(advantage="hard"), given_) == pytest.approx([wanted[token] for token in actions], abs=1e-5)
    assert per_turn(ARPO(advantage="soft"), given_) == per_turn(GRPO(), given_), "as if nothing were shared"


@pytest.mark.slow
@given(tasks)
def test_without_branches_it_is_grpo(rewards: Rewards) -> None:
    given_ = batch(rewards)
    for kind in ("soft", "hard"):
        assert per_turn(ARPO(advantage=kind), given_) == pytest.approx(per_turn(GRPO(), given_), abs=1e-6)
    rows = given_.rows.with_weight(normalizer(given_.rows, "traj_mean"))
    assert counted_once(given_, rows) is rows


@given(trees(), st.randoms(use_true_random=False))
def test_who_shares_an_action_is_known_without_the_episode_that_took_it(leaves: list[Leaf], rng: object) -> None:
    """Some episodes may be lost: those that are left still share what they shared."""
    episodes = [episode for episode in grown(leaves) if rng.random() < 0.6]  # type: ignore[attr-defined]
    given_ = Batch.of(grouped(episodes))
    tokens = [turn.action_ids[0] for episode in episodes for turn in episode.turns]
    actions = action_U(given_).tolist()
    assert len(set(zip(tokens, actions, strict=True))) == len(set(tokens)) == len(set(actions))
    assert copies_U(given_).tolist() == [tokens.count(token) for token in tokens]


def test_the_same_turn_of_another_task_is_another_action() -> None:
    one, other = grown(LEAVES), grown(LEAVES, group="g1")
    assert copies_U(Batch.of(grouped([*one, *other]))).tolist() == 2 * copies_U(Batch.of(grouped(one))).tolist()


def test_an_example_by_hand() -> None:
    """R̄ = 1.5. Turn 0 of episode 0 is shared by 0, 1 and 2; turn 1 of episode 1 by 1 and 2."""
    given_ = Batch.of(grouped(grown(LEAVES)))
    assert copies_U(given_).tolist() == [3, 1, 1, 3, 2, 1, 3, 2, 1, 1]
    third, half = (0.5 - 1.5 + 1.5) / 3, (-1.5 + 1.5) / 2
    wanted = [third, 0.5, 0.5, third, half, -1.5, third, half, 1.5, -0.5]
    assert per_turn(ARPO(advantage="hard"), given_) == pytest.approx(wanted, abs=1e-6)
    rows = weighing(given_, "soft", "traj_mean")
    shared = rows.weight[rows.turn == 0], rows.weight[rows.turn == 3]
    unshared = normalizer(rows, "traj_mean")
    assert torch.allclose(shared[0], unshared[rows.turn == 0] / 3)
    assert torch.allclose(shared[1], unshared[rows.turn == 3] / 3)
    assert torch.equal(rows.weight[rows.turn == 1], unshared[rows.turn == 1])


def gradient(episodes: Sequence[Episode], kind: str, shared: str) -> torch.Tensor:
    """The gradient of an update of a table, as the script makes it."""
    model, found = Bigram(VOCABULARY), list[torch.Tensor]()
    model.table.register_hook(lambda grad: found.append(grad.clone()))  # type: ignore[no-untyped-call]
    learner = Learner(model, OptimizerConfig(max_grad_norm=1e9))
    algorithm = {"name": "arpo", "advantage": kind}
    chosen = config("arpo", algorithm=algorithm, shared_token_weight=shared, normalizer="const", denominator=1.0)
    iterate(chosen, Parts(learner), grouped(episodes), version=0)
    return torch.stack(found).sum(0) if found else torch.zeros_like(model.table)


def gradient_by_hand(counted: Sequence[tuple[float, Turn]]) -> torch.Tensor:
    """−Σ A ∇ log π(action) over these."""
    model = Bigram(VOCABULARY)
    logp = model.table.log_softmax(-1)
    loss = logp.sum() * 0
    for advantage, turn in counted:
        ids = [turn.prompt_ids[-1], *turn.action_ids]
        loss = loss - advantage * sum(logp[before, token] for before, token in itertools.pairwise(ids))
    (found,) = torch.autograd.grad(loss, model.table)
    return found


@pytest.mark.slow
@settings(max_examples=25)
@given(trees(), st.sampled_from(["soft", "hard"]))
def test_what_branches_repeat_teaches_once_or_as_often_as_it_is_repeated(leaves: list[Leaf], kind: str) -> None:
    episodes = grown(leaves)
    baseline, wanted = mean([episode.total_reward for episode in episodes]), brute_force(episodes)
    distinct = {turn.action_ids: turn for episode in episodes for turn in episode.turns}
    once = gradient_by_hand([(wanted[action[0]], turn) for action, turn in distinct.items()])
    each = gradient_by_hand([(e.total_reward - baseline, turn) for e in episodes for turn in e.turns])
    assert torch.allclose(gradient(episodes, kind, "split"), once, atol=1e-5)
    assert torch.allclose(gradient(episodes, kind, "full"), each, atol=1e-5)
