from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from turnwise.errors import DivergedError, UsageError
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.encoder import EncoderConfig, NanoEncoder
from turnwise.trainers.critics.replay import unpacked
from turnwise.trainers.critics.transitions import Transition
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic
from turnwise.trainers.learning import rates
from turnwise.trainers.learning.learner import OptimizerConfig

from .turns import Bag, step

GAMMA = 0.8
STATES, ACTIONS = (0, 1, 2), (3, 4)
POLICY = {3: 0.7, 4: 0.3}
"""π of each action, in every state."""


def world(state: int, action: int) -> tuple[float, int | None]:
    """A corridor: 3 goes on, 4 goes back; from the last state 3 leaves it."""
    if action == 3:
        return (2.0, None) if state == 2 else (-1.0, state + 1)
    return -0.5, max(state - 1, 0)


def brute_force(
    value_of: dict[int, float] | None = None, expectile: float | None = None
) -> dict[tuple[int, int], float]:
    """Q of every pair by dynamic programming: under ``POLICY``, or under the expectile of its actions' Q."""
    q = dict.fromkeys(itertools.product(STATES, ACTIONS), 0.0)
    for _ in range(300):
        v = {s: value([(q[s, a], POLICY[a]) for a in ACTIONS], expectile) for s in STATES}
        for state, action in q:
            reward, after = world(state, action)
            q[state, action] = reward + (0.0 if after is None else GAMMA * v[after])
    return q


def value(weighted: list[tuple[float, float]], expectile: float | None) -> float:
    """The mean, or the expectile by bisection of its definition."""
    if expectile is None:
        return sum(q * p for q, p in weighted)
    low, high = min(q for q, _ in weighted), max(q for q, _ in weighted)
    for _ in range(60):
        middle = (low + high) / 2
        pull = sum(p * (expectile if q > middle else 1 - expectile) * (q - middle) for q, p in weighted)
        low, high = (middle, high) if pull > 0 else (low, middle)
    return low


def data() -> tuple[list[Transition], list[tuple[int, ...]]]:
    """Every state ten times, its actions, and as many fresh ones, in the exact proportions of the policy."""
    often = {action: round(10 * share) for action, share in POLICY.items()}
    batch: list[Transition] = []
    fresh: list[tuple[int, ...]] = []
    for state in STATES:
        for action in ACTIONS:
            reward, after = world(state, action)
            batch += [step((state,), (action,), reward, () if after is None else (after,))] * often[action]
        fresh += [(action,) for action in reversed(ACTIONS) for _ in range(often[action])]
    return batch, fresh


def small(**changes: object) -> UtteranceCritic:
    optimizer = OptimizerConfig(lr=3e-3, max_grad_norm=10.0)
    settings: dict[str, object] = {"head": 32, "tau": 0.2, "optimizer": optimizer}
    return UtteranceCritic(Bag(), CriticConfig.model_validate(settings | changes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "expectile"),
    [
        pytest.param(ArcherRule("td", GAMMA), None, id="td"),
        pytest.param(ArcherRule("iql", GAMMA, expectile=0.9), 0.9, id="iql", marks=pytest.mark.shift),
    ],
)
def test_the_fixed_point_is_that_of_dynamic_programming(rule: ArcherRule, expectile: float | None) -> None:
    critic, (batch, fresh) = small(), data()
    for _ in range(700):
        critic.update(batch, rule, fresh if rule.needs_fresh else None)
    exact = brute_force(expectile=expectile)
    pairs = list(exact)
    q_2B = critic.q([(s,) for s, _ in pairs], [(a,) for _, a in pairs])
    assert torch.allclose(q_2B, torch.tensor(list(exact.values())).expand(2, -1), atol=0.08)
    v = [value([(exact[s, a], POLICY[a]) for a in ACTIONS], expectile) for s in STATES]
    assert torch.allclose(critic.v([(s,) for s in STATES]), torch.tensor(v).expand(2, -1), atol=0.08)
    advantage = critic.advantage([(0,), (0,)], [(3,), (4,)])
    assert advantage[0] > advantage[1], "to go on is better"


@pytest.mark.slow
def test_the_monte_carlo_critic_is_the_mean_return_of_the_data() -> None:
    critic = small()
    batch = [step((0,), (3,), 0.0, (1,), returned=4.0), step((0,), (3,), 0.0, (1,), returned=2.0)]
    for _ in range(300):
        critic.update([*batch, step((0,), (4,), returned=-6.0)], ArcherRule("mc"))
    assert critic.q([(0,), (0,)], [(3,), (4,)])[0].tolist() == pytest.approx([3.0, -6.0], abs=0.05)
    assert critic.v([(0,)])[1].tolist() == pytest.approx([0.0], abs=0.05)


def test_the_advantage_is_the_smaller_q_less_the_smaller_v() -> None:
    critic, states, actions = small(), [(0,), (1, 2)], [(3,), (4, 3)]
    q_2B, v_2B = critic.q(states, actions), critic.v(states)
    assert q_2B.shape == v_2B.shape == (2, 2)
    assert not torch.equal(q_2B[0], q_2B[1]), "two heads begin apart"
    assert torch.allclose(critic.advantage(states, actions), q_2B.amin(0) - v_2B.amin(0))


def test_the_slow_copy_moves_by_tau() -> None:
    critic, (batch, fresh) = small(tau=0.25), data()
    before = [parameter.clone() for parameter in critic.slow.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, critic.online.parameters(), strict=True))
    critic.update(batch, ArcherRule("td", GAMMA), fresh)
    for old, slow, online in zip(before, critic.slow.parameters(), critic.online.parameters(), strict=True):
        assert torch.allclose(slow, 0.75 * old + 0.25 * online, atol=1e-7)
    assert not torch.equal(critic.q([(0,)], [(3,)]), critic.q([(0,)], [(3,)], slow=True))


def test_targets_come_from_the_slow_copy_and_end_where_the_task_ends() -> None:
    critic, (batch, fresh) = small(), data()
    critic.update(batch, ArcherRule("td", GAMMA), fresh)
    known = critic.known([step((0,), (3,), -1.0, (1,)), step((2,), (3,), 2.0, returned=2.0)], [(4,), (4,)])
    assert torch.allclose(known.next_v_2B[:, 0], critic.v([(1,)], slow=True)[:, 0])
    assert known.next_v_2B[:, 1].tolist() == [0.0, 0.0]
    assert known.fresh_q_2B is not None
    assert torch.allclose(known.fresh_q_2B, critic.q([(0,), (2,)], [(4,), (4,)], slow=True))
    assert torch.allclose(known.taken_q_2B, critic.q([(0,), (2,)], [(3,), (3,)], slow=True))
    assert (known.reward_B.tolist(), known.done_B.tolist(), known.return_B.tolist()) == (
        [-1.0, 2.0],
        [False, True],
        [0.0, 2.0],
    )


@pytest.mark.parametrize("tokens", [1, 3, 9])
def test_trap_8_micro_batches_change_nothing(tokens: int) -> None:
    def gradients(budget: int) -> tuple[dict[str, float], list[Tensor]]:
        critic = small(optimizer={"lr": 1e-12, "microbatch_tokens": budget, "max_grad_norm": 1e9, "betas": (0, 0.9)})
        metrics = critic.update(batch, ArcherRule("td", GAMMA), fresh)
        moments = critic.state_dict()["optimizer"]["state"]
        return metrics, [moments[name]["exp_avg"] for name in sorted(moments)]

    batch, fresh = data()
    batch += [step((0, 1, 2), (3, 4, 3), 1.0, (2, 2))]
    fresh += [(4, 4)]
    (whole, one), (parts, other) = gradients(10_000), gradients(tokens)
    assert parts == pytest.approx(whole, rel=1e-4)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True)), "averaged, not summed"


def test_repeats_in_a_batch_are_read_once() -> None:
    encoder = Bag()
    critic = UtteranceCritic(encoder, CriticConfig())
    encoder.read.clear()
    batch, fresh = data()
    critic.update(batch, ArcherRule("td", GAMMA), fresh)
    assert len(encoder.read) == len(STATES) + len(ACTIONS), f"{len(batch)} transitions, and each different text once"


def test_trap_24_a_restored_critic_goes_on_bitwise(tmp_path: Path) -> None:
    def fresh_critic() -> UtteranceCritic:
        return UtteranceCritic(NanoEncoder(EncoderConfig(hidden=8, heads=1), vocabulary=5, context=4), CriticConfig())

    batch, fresh = data()
    rule, straight, resumed = ArcherRule("td", GAMMA), fresh_critic(), fresh_critic()
    for _ in range(2):
        straight.update(batch, rule, fresh)
    torch.save(straight.state_dict(), tmp_path / "critic.pt")
    resumed.load_state_dict(torch.load(tmp_path / "critic.pt", weights_only=True))
    assert straight.update(batch, rule, fresh) == resumed.update(batch, rule, fresh)
    for one, other in ((straight.online, resumed.online), (straight.slow, resumed.slow)):
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert straight.updates == resumed.updates == 3


def test_a_loss_that_is_no_number_stops_with_the_batch_saved(tmp_path: Path) -> None:
    critic = UtteranceCritic(Bag(), CriticConfig(), dump=tmp_path / "new" / "diverged.pt")
    before = [parameter.clone() for parameter in critic.online.parameters()]
    batch = [step((0,), (3,), float("inf"), (1,)), step((1,), (3,))]
    with pytest.raises(DivergedError, match=r"after 0 updates the critic's loss is inf; the batch of 2 .*saved as"):
        critic.update(batch, ArcherRule("td"), [(3,), (4,)])
    assert all(torch.equal(a, b) for a, b in zip(before, critic.online.parameters(), strict=True))
    saved = torch.load(tmp_path / "new" / "diverged.pt", weights_only=True)
    assert unpacked(saved["transitions"]) == batch
    assert saved["fresh_actions"] == [(3,), (4,)]


def test_batches_that_do_not_match_are_refused() -> None:
    batch, fresh = data()
    with pytest.raises(UsageError, match="0 transitions with no fresh utterances"):
        small().update([], ArcherRule("mc"))
    with pytest.raises(UsageError, match="30 transitions with 29 fresh utterances"):
        small().update(batch, ArcherRule("td"), fresh[1:])


def test_heads_are_a_function_of_the_seed_and_nothing_else_moves() -> None:
    before = torch.get_rng_state()
    one, same = UtteranceCritic(Bag(), CriticConfig(), seed=1), UtteranceCritic(Bag(), CriticConfig(), seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.v([(1,)]), same.v([(1,)]))
    assert not torch.equal(one.v([(1,)]), UtteranceCritic(Bag(), CriticConfig(), seed=2).v([(1,)]))


def test_the_units_of_reward_do_not_matter() -> None:
    def learnt(scale: float, shift: float) -> Tensor:
        critic = UtteranceCritic(Bag(), CriticConfig())
        for _ in range(5):
            critic.update([step((s,), (3,), returned=scale * s + shift) for s in STATES], ArcherRule("mc"))
        return critic.q([(s,) for s in STATES], [(3,)] * 3)

    plain = learnt(1.0, 0.0)
    assert torch.allclose(learnt(10.0, -100.0), 10 * plain - 100, atol=1e-3), "what is learnt scales with the returns"
    assert not torch.allclose(plain[0], plain[0].mean().expand(3), atol=1e-3)


def rewarded(successes: int, count: int = 64) -> list[Transition]:
    return [step((s % 3,), (3,), returned=float(s < successes)) for s in range(count)]


def test_values_begin_at_the_mean_of_the_first_returns() -> None:
    critic = UtteranceCritic(Bag(), CriticConfig(optimizer=OptimizerConfig(lr=1e-9)))
    critic.update([step((s,), (3,), returned=20.0 * s - 100) for s in STATES], ArcherRule("mc"))
    assert critic.v([(0,)])[0].tolist() == pytest.approx([-80.0], abs=10)
    assert critic.online.get_buffer("units").tolist() == pytest.approx([-80.0, 20 * (2 / 3) ** 0.5])


@pytest.mark.slow
def test_units_follow_the_returns_and_no_value_changes() -> None:
    """One success among the first 64 transitions must not fix the spread at .12 for the whole run."""
    critic = UtteranceCritic(Bag(), CriticConfig(optimizer=OptimizerConfig(lr=1e-12)))
    critic.update(rewarded(0), ArcherRule("mc"))
    critic.update(rewarded(1), ArcherRule("mc"))
    units = critic.online.get_buffer("units")
    assert units.tolist() == pytest.approx([1 / 64, (63 / 64**2) ** 0.5]), "equal returns set no units"
    states, actions = [(s,) for s in STATES], [(3,)] * 3
    before = critic.q(states, actions), critic.v(states), critic.q(states, actions, slow=True)
    for _ in range(100):
        critic.update(rewarded(32), ArcherRule("mc"))
    assert units.tolist() == pytest.approx([0.5, 0.5], abs=0.01)
    assert torch.equal(units, critic.slow.get_buffer("units"))
    after = critic.q(states, actions), critic.v(states), critic.q(states, actions, slow=True)
    for old, new in zip(before, after, strict=True):
        assert torch.allclose(old, new, atol=1e-4), "the heads are rewritten"


def test_units_continue_where_a_checkpoint_left_them() -> None:
    critic, resumed, older = (UtteranceCritic(Bag(), CriticConfig()) for _ in range(3))
    critic.update(rewarded(8), ArcherRule("mc"))
    state = critic.state_dict()
    resumed.load_state_dict(state)
    older.load_state_dict({name: value for name, value in state.items() if name != "scale"})
    for each in (critic, resumed, older):
        each.update(rewarded(32), ArcherRule("mc"))
    units = [each.online.get_buffer("units").tolist() for each in (critic, resumed, older)]
    assert units[0] == units[1], "to the bit"
    mean = 0.95 * 8 / 64 + 0.05 / 2
    assert units[2] == pytest.approx([mean, (mean - mean**2) ** 0.5]), "one of fixed units follows, too"


@pytest.mark.parametrize("changes", [{"scaled": False}, {}], ids=["not wanted", "all returns alike"])
def test_units_of_reward_where_there_are_no_others(changes: dict[str, bool]) -> None:
    critic = UtteranceCritic(Bag(), CriticConfig.model_validate(changes))
    returns = (1.0, 5.0) if changes else (3.0, 3.0)
    critic.update([step((0,), (3,), returned=each) for each in returns], ArcherRule("mc"))
    assert critic.online.get_buffer("units").tolist() == [0.0, 1.0]


def test_a_rate_for_nano_models_on_a_large_encoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "LARGE", 10)
    with pytest.raises(UsageError, match=r"critic_model.optimizer.lr = 0.001 .*Set about 1e-5"):
        UtteranceCritic(Bag(), CriticConfig())
    assert UtteranceCritic(Bag(), CriticConfig(optimizer=OptimizerConfig(lr=1e-5)))
