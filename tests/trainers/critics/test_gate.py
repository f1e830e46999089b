from __future__ import annotations

import math
import random

import pytest

from turnwise.trainers.critics.gate import CriticGate, CriticGateConfig
from turnwise.trainers.critics.ranking import Ranking, ranking

GOOD = Ranking(0.6, 0.1, 16, 0)
BAD = Ranking(0.1, 0.1, 16, 0)
SILENT = Ranking(math.nan, math.nan, 0, 16)


def test_it_is_measured_after_the_first_steps_every_n_and_at_the_limit() -> None:
    gate = CriticGate(CriticGateConfig(every=4, limit=13), first=3)
    assert [step for step in range(20) if gate.due(step)] == [3, 7, 11, 13]
    gate.open = True
    assert not any(gate.due(step) for step in range(20))
    watching = CriticGate(CriticGateConfig(every=4, limit=13, watch=True), first=3)
    watching.open = True
    assert [step for step in range(20) if watching.due(step)] == [3, 7, 11, 15, 19]


def test_a_perfect_critic_opens_it_and_noise_does_not() -> None:
    luck, gate = random.Random(0), CriticGate(CriticGateConfig())
    opened = {"perfect": 0, "noise": 0}
    for _ in range(200):
        truth = [[luck.gauss(0, 1) for _ in range(4)] for _ in range(16)]
        measured = [[value + luck.gauss(0, 0.5) for value in each] for each in truth]
        noise = [[luck.gauss(0, 1) for _ in range(4)] for _ in range(16)]
        opened["perfect"] += gate.passes(ranking(truth, measured))
        opened["noise"] += gate.passes(ranking(noise, measured))
    assert opened["perfect"] == 200
    assert opened["noise"] <= 6, "2.4 standard errors above chance"


def test_few_states_do_not_open_it_by_luck() -> None:
    gate = CriticGate(CriticGateConfig(rank=0.0, min_states=2))
    assert not gate.passes(ranking([[1, 2]], [[1, 2]])), "one state proves nothing"
    assert not gate.passes(Ranking(0.4, 0.25, 3, 13)), "nor does what is within two standard errors of chance"
    assert gate.passes(Ranking(0.4, 0.15, 3, 13))
    assert not gate.passes(SILENT)


def test_it_opens_once_and_stays_open() -> None:
    gate = CriticGate(CriticGateConfig(limit=10))
    gate.see(5, BAD)
    assert (gate.open, gate.failed, gate.last) == (False, False, 0.1)
    gate.see(6, None)
    assert gate.metrics() == {"critic/gate": 0.0}
    gate.see(7, GOOD)
    assert gate.metrics() == {"critic/gate": 1.0}
    gate.see(10, BAD)
    assert gate.state_dict() == {"open": True, "seen": 10, "last": 0.1}


@pytest.mark.parametrize(("otherwise", "open_", "failed"), [("stop", False, True), ("start", True, False)])
def test_what_happens_at_the_limit_is_configured(otherwise: str, open_: bool, failed: bool) -> None:
    gate = CriticGate(CriticGateConfig.model_validate({"limit": 10, "otherwise": otherwise}))
    gate.see(9, SILENT)
    assert (gate.open, gate.failed) == (False, False)
    assert "no state could tell" in gate.reason()
    gate.see(10, BAD)
    assert (gate.open, gate.failed) == (open_, failed)
    assert gate.reason() == (
        "the critic does not rank utterances: critic/rank is not above 0.3 within 10 steps (critic_gate.limit); it was "
        "last 0.10. Train with more critic_steps, or resume with a higher critic_gate.limit, or with "
        "critic_gate.otherwise = start"
    )


def test_its_state_survives_a_checkpoint() -> None:
    gate, other = CriticGate(CriticGateConfig(limit=1)), CriticGate(CriticGateConfig(limit=1))
    gate.see(1, BAD)
    other.load_state_dict(gate.state_dict())
    assert (other.open, other.failed, other.last) == (False, True, 0.1)


def test_a_failed_gate_continues_with_a_higher_limit_or_starts() -> None:
    gate = CriticGate(CriticGateConfig(limit=1))
    gate.see(1, BAD)
    longer = CriticGate(CriticGateConfig(limit=3))
    longer.load_state_dict(gate.state_dict())
    assert not longer.failed
    longer.see(3, GOOD)
    assert longer.open
    started = CriticGate(CriticGateConfig(limit=1, otherwise="start"))
    started.load_state_dict(gate.state_dict())
    assert not started.failed
    started.see(2, None)
    assert started.open


@pytest.mark.slow
@pytest.mark.parametrize("utterances", [2, 3, 4])
@pytest.mark.parametrize("states", [2, 3, 5, 10])
@pytest.mark.parametrize("least", [2, 10])
def test_random_judgements_rarely_open_it(states: int, utterances: int, least: int) -> None:
    luck, gate = random.Random(0), CriticGate(CriticGateConfig(min_states=least))
    opened = 0
    for _ in range(1000):
        measured, noise = ([[luck.random() for _ in range(utterances)] for _ in range(states)] for _ in range(2))
        opened += gate.passes(ranking(noise, measured))
    assert opened < 50
    if states == 10:
        assert gate.passes(ranking(measured, measured)), "a perfect critic"


def test_more_states_than_there_are_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match=r"min_states = 10 is more than critic_gate.states = 4"):
        CriticGateConfig(states=4)
