"""Traps of docs/traps.md that concern credit: who is compared with whom, and over which steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Outcome
from turnwise.errors import UnscoredEpisodeError
from turnwise.trainers.collect.staleness import StalenessGate
from turnwise.trainers.learning.advantages import bootstraps, centered, leave_one_out, turn_gae, turn_rewards
from turnwise.trainers.learning.groups import grouped, members, with_failures
from turnwise.trainers.learning.loss import policy_loss
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.rows import Rows, pack

from .fakes import Said, comparing, conversation, episode, returning, turn

reward = st.floats(-10, 10, width=32)


@given(st.lists(reward, min_size=2, max_size=6), st.data())
def test_trap_03_a_forked_episode_counts_once_in_the_baseline(returns: list[float], data: st.DataObject) -> None:
    """Trap 3: duplicate a trajectory's rows; no advantage may change, and none may weigh more."""
    forks = data.draw(st.lists(st.booleans(), min_size=len(returns), max_size=len(returns)))
    plain = [conversation([Said((1,), (2,), r), Said((3,), (4,))], name=f"e{i}") for i, r in enumerate(returns)]
    forked = [
        conversation([Said((1,), (2,), r), Said((3,), (4,), rewrites=fork)], name=f"e{i}")
        for i, (r, fork) in enumerate(zip(returns, forks, strict=True))
    ]
    advantage = leave_one_out(*comparing(grouped(plain)))
    assert torch.equal(leave_one_out(*comparing(grouped(forked))), advantage)
    rows = pack(forked).with_advantage(advantage)
    rows = rows.with_weight(normalizer(rows, "traj_mean"))
    assert int(rows.row.max()) + 1 == len(returns) + sum(forks), "forks did make more rows"
    totals = torch.zeros(len(returns)).index_add_(0, rows.episode, rows.weight * rows.advantage)
    assert torch.allclose(totals, advantage / len(returns), atol=1e-6), "each episode pulls with its advantage, once"


def test_trap_09_length_bias_has_its_closed_form_in_every_mode() -> None:
    """Trap 9: two trajectories of equal return, 1 and 4 tokens. Gradient mass per trajectory is known for each mode.

    A mean per trajectory gives both the same mass (so the long one's tokens get a quarter each); a token mean or a
    constant gives mass by length. None changes the sum over the batch by how it is divided.
    """
    rows = pack([conversation([Said((1,), (2,))]), conversation([Said((1,), (2,) * 4)])]).with_advantage(torch.ones(2))
    wanted = {"traj_mean": (1 / 2, 1 / 2), "token_mean": (1 / 5, 4 / 5), "group_mean": (1 / 5, 4 / 5)}
    for mode, mass in wanted.items():
        weighted = rows.with_weight(normalizer(rows, mode))  # type: ignore[arg-type]
        assert _mass(weighted) == pytest.approx(mass), mode
    assert _mass(rows.with_weight(normalizer(rows, "const", denominator=10))) == pytest.approx((1 / 10, 4 / 10))


def test_trap_09_a_standard_deviation_inflates_easy_and_hard_tasks_and_is_off_by_default() -> None:
    """Trap 9, std bias: 1 success in 8 and 4 in 8; with std the rare one weighs more than without."""
    rare = [returning(float(i == 0), group="rare", name=f"r{i}") for i in range(8)]
    even = [returning(float(i < 4), group="even", name=f"e{i}") for i in range(8)]
    groups = grouped([*rare, *even])
    plain, scaled = centered(*comparing(groups)), centered(*comparing(groups), scale="group")
    assert plain[:8].abs().sum() < plain[8:].abs().sum()
    assert scaled[0] / scaled[8] > plain[0] / plain[8] * 1.3
    assert torch.equal(plain, centered(*comparing(groups), scale="none")), "off unless asked for"


@pytest.mark.parametrize("estimator", [leave_one_out, centered])
def test_trap_10_a_group_of_one_has_no_advantage(estimator: object) -> None:
    """Trap 10: some libraries set the mean to 0 there, which makes the advantage the raw reward."""
    assert callable(estimator)
    groups = grouped([returning(7.0, group="lonely"), *(returning(r, group="pair", name=str(r)) for r in (1.0, 3.0))])
    advantage = estimator(*comparing(groups))
    assert advantage[0] == 0.0
    assert advantage[1] == -advantage[2] != 0.0
    assert [group.comparable for group in groups] == [False, True]


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=8), st.data())
def test_failures_of_the_machinery_never_reach_a_baseline(outcomes: list[Outcome], data: st.DataObject) -> None:
    """With any rewards of lost episodes, advantages are those of the group without them."""
    given_ = [data.draw(reward) for _ in outcomes]
    everything = [returning(r, name=f"e{i}", outcome=o) for i, (r, o) in enumerate(zip(given_, outcomes, strict=True))]
    survivors = [e for e in everything if e.trainable]
    groups = grouped(everything)
    assert members(groups) == survivors
    assert groups[0].excluded + groups[0].policy_failed == len(everything) - len(survivors)
    assert torch.equal(leave_one_out(*comparing(groups)), leave_one_out(*comparing(grouped(survivors))))


def test_failing_early_is_not_cheap() -> None:
    """If turns cost something, a policy that times out at once would be the best paid of its group."""
    played = [returning(r, name=f"e{i}") for i, r in enumerate((-5.0, -7.0))]
    groups = grouped([*played, returning(0.0, name="late", outcome=Outcome.POLICY_FAILED)])
    assert members(groups) == played
    assert (groups[0].policy_failed, groups[0].excluded) == (1, 0), "counted, apart from what the machinery lost"
    whole = with_failures(groups)
    assert leave_one_out(*comparing(whole)).tolist() == [2.0, -1.0, -1.0], "as bad as the worst"


def test_growing_out_of_the_context_is_a_failure_like_any_other() -> None:
    """With rewards of 0 and 1 it would otherwise never be punished."""
    late = conversation([Said((1,), (2, 2)), Said((3,), (4,))], name="late", outcome=Outcome.POLICY_FAILED)
    (group,) = with_failures(grouped([returning(1.0, name="won"), late]))
    assert leave_one_out(*comparing([group])).tolist() == [1.0, -1.0]
    *_, ended = group.members
    assert not bootstraps(ended), "nothing follows it"
    assert (ended.trainable, ended.success, ended.turns[-1].terminated) == (True, False, True)
    assert pack(group.members).tokens == 1 + 3


@given(st.lists(reward, max_size=4), st.lists(reward, min_size=1, max_size=4), st.lists(reward, max_size=3))
def test_no_failure_returns_more_than_an_attempt_that_was_played_to_its_end(
    finished: list[float], failed: list[float], elsewhere: list[float]
) -> None:
    episodes = [returning(r, name=f"e{i}") for i, r in enumerate(finished)]
    episodes += [returning(r, name=f"f{i}", outcome=Outcome.POLICY_FAILED) for i, r in enumerate(failed)]
    others = [returning(r, name=f"o{i}", group="other") for i, r in enumerate(elsewhere)]
    group, *_ = with_failures(grouped([*episodes, *others]))
    worst = min([*(finished or elsewhere), *failed])
    assert group.returns == pytest.approx([*finished, *([worst] * len(failed))], abs=1e-4)


def test_an_attempt_without_actions_has_no_advantage() -> None:
    at_once = episode([], name="at once", outcome=Outcome.POLICY_FAILED)
    groups = grouped([returning(1.0), at_once])
    assert with_failures(groups) == tuple(groups)
    assert groups[0].policy_failed == 1


def test_a_group_where_all_but_one_failed_teaches_nothing() -> None:
    lost = [returning(-50.0, name=f"e{i}", outcome=Outcome.INFRA_FAILED) for i in range(5)]
    groups = grouped([*lost, returning(9.0, name="e5")])
    assert leave_one_out(*comparing(groups)).tolist() == [0.0]
    assert (groups[0].excluded, groups[0].comparable) == (5, False)
    with pytest.raises(UnscoredEpisodeError):
        pack([*members(groups), lost[0]])


def test_trap_12_inserting_environment_tokens_changes_no_advantage() -> None:
    """Trap 12: GAE runs over turns. Long observations between actions are not steps, and γ is per turn."""
    short = conversation([Said((1,), (2, 2), 1.0), Said((3,), (4,), 2.0), Said((5,), (6, 6, 6), 4.0)])
    long = conversation([Said((1,) * 9, (2, 2), 1.0), Said((3,) * 50, (4,), 2.0), Said((5,) * 7, (6, 6, 6), 4.0)])
    values = torch.tensor([0.5, 1.0, 2.0])
    credited = []
    for talk in (short, long):
        advantage, _ = turn_gae(turn_rewards(talk), values, bootstrap=None, gamma=0.9, lam=0.8)
        rows = pack([talk]).with_turn_advantage(advantage)
        credited.append(rows.advantage[rows.mask])
    assert torch.equal(*credited)
    per_turn = turn_gae(turn_rewards(short), torch.zeros(3), bootstrap=None, gamma=0.5, lam=1.0)[0]
    assert per_turn.tolist() == [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4], "γ per turn, whatever a turn's length"


@given(st.lists(reward, min_size=1, max_size=5))
def test_trap_13_turns_are_told_not_guessed_from_rewards(rewards: list[float]) -> None:
    """Trap 13: a port infers the end of a turn from a nonzero reward, and fails on a last turn that pays nothing."""
    talk = conversation([Said((1,), (2, 3), r) for r in [*rewards, 0.0]])
    advantage, _ = turn_gae(turn_rewards(talk), torch.ones(len(rewards) + 1), bootstrap=None, gamma=1.0, lam=1.0)
    rows = pack([talk]).with_turn_advantage(advantage)
    assert torch.unique(rows.turn[rows.mask]).tolist() == list(range(len(rewards) + 1))
    assert rows.advantage[rows.mask][-2:].tolist() == [-1.0, -1.0], "its value is 1 and it pays nothing"
    assert float(advantage[0]) == pytest.approx(sum(rewards) - 1, abs=1e-3), "a reward ends nothing"


def test_trap_14_truncation_bootstraps_and_termination_does_not() -> None:
    """Trap 14: a time limit leaves a state with a value; an ending does not."""
    turns = [turn((1,), (2,), 1.0), turn((1, 2, 3), (4,), 1.0)]
    values, after = torch.tensor([0.0, 0.0]), 10.0
    advantages = {}
    for outcome in (Outcome.COMPLETED, Outcome.TRUNCATED):
        ended = episode(turns, outcome=outcome)
        bootstrap = after if bootstraps(ended) else None
        advantages[outcome], _ = turn_gae(turn_rewards(ended), values, bootstrap=bootstrap, gamma=0.5, lam=1.0)
    assert advantages[Outcome.COMPLETED].tolist() == [1.5, 1.0]
    assert advantages[Outcome.TRUNCATED].tolist() == [1.5 + 0.25 * after, 1.0 + 0.5 * after]


@given(st.integers(1, 8), st.integers(0, 3), st.lists(st.sampled_from("bax"), max_size=60), st.integers(0, 60))
def test_trap_20_the_staleness_gate_survives_a_restart(batch: int, eta: int, moves: list[str], crash: int) -> None:
    """Trap 20: simulate; whenever the process dies, nothing trained later is older than η, and training goes on."""
    gate, buffer = StalenessGate(batch, eta), list[int]()
    running = list[int]()

    def play(move: str) -> None:
        if move == "b" and gate.room:
            gate.begin()
            running.append(gate.version)
        elif move == "a" and running:
            gate.accept()
            buffer.append(running.pop(0))
        elif move == "x" and len(buffer) >= batch:
            used, buffer[:] = buffer[:batch], buffer[batch:]
            assert all(gate.version - born <= eta for born in used), "nothing older than η is trained"
            gate.advance()

    for index, move in enumerate([*moves, *("bax" * 40)]):
        if index == crash:
            version = gate.version
            gate, buffer, running = StalenessGate(batch, eta), [], []
            gate.recover(version)
            assert gate.room == (eta + 1) * batch, "room for exactly what the bound allows, no more and no less"
        play(move)
    before = gate.version
    for move in "ba" * batch * (eta + 2) + "x":
        play(move)
    assert gate.version == before + 1, "the gate never closes for good"


def _mass(rows: Rows) -> tuple[float, ...]:
    """Sum over each trajectory of |∂loss/∂logp|."""
    logp = torch.zeros(len(rows), requires_grad=True)
    old = torch.zeros(len(rows))
    loss, _ = policy_loss(logp, old, old, rows.advantage, rows.weight, rows.mask)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logp.grad is not None
    return tuple(torch.zeros(2).index_add_(0, rows.episode, logp.grad.abs()).tolist())
