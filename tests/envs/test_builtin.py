"""Every id that comes with Turnwise: Gymnasium takes it without a warning, and it certifies."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Collection
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import turnwise as tw
from turnwise.envs.builtin import IDS
from turnwise.envs.certify.certify import LAWS, Target, certify
from turnwise.envs.certify.harness import Harness
from turnwise.envs.registry import find
from turnwise.envs.web.chromium.launch import KNOWN

from ..shifts import sampled

ELSEWHERE = "turnwise/MiniWoB-"
"""128 ids of one class, each a page of a real browser: ``tests/envs/miniwob`` tries all; here two stand for them."""
SAMPLE = frozenset({f"{ELSEWHERE}ClickTest2-v1", f"{ELSEWHERE}UseSlider-v1"})
BROWSED = (ELSEWHERE, "turnwise/Web-")
CORE = frozenset(
    f"turnwise/{name}"
    for name in (
        "Maze-v0",
        "Wordle-v1",
        "MiniWoB-ClickTest2-v1",
    )
)
"""The ids that stand for their families in the core; shifts certify all others."""
HEAVY = tuple(
    f"turnwise/{name}"
    for name in (
        "Apps-v2",
        "BFCLMultiTurnBase-v0",
        "CarDealer-v2",
        "ChessEndgames-v1",
        "CodeShell-v2",
        "GuessMyCityLevels-v1",
        "Search-v1",
        "TextNav-v0",
        "TwentyQuestionsLevels-v1",
        "WebHTML-v1",
    )
)
"""Families of which the core tries only ``GIST``, on a sample."""
GIST = ("begins", "episodes_play", "same_seed_same_episode", "null_at_floor", "near_misses_fail", "fork_is_independent")
STOCKFISH, CHROMIUM, REPAIR = "turnwise/ChessStockfish-v1", "turnwise/Web-v1", "turnwise/CodeRepair-v3"
IMPATIENT: dict[str, Any] = {"seconds": 3.0, "trial_seconds": 3.0, "grading_seconds": 3.0}
"""Time limits with which submissions that never end are tried; with their own limits, each takes 45 s of waiting."""
IN_CORE = sampled(HEAVY, 4, key="gist of a certificate")
GISTS = {id: [] if id in IN_CORE else [pytest.mark.shift] for id in HEAVY}
PARTS = 4
"""Certification of these three ids takes minutes, so it is divided by laws."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls take longer than ``max_seconds``: on a busy machine, starting Chromium does. Pytest ends what hangs."""
    monkeypatch.setattr(Harness, "waited", 0.0)
    monkeypatch.setattr(Harness, "limit", math.inf)


def ids() -> list[str]:
    """Return the ids to try, without most of MiniWoB's."""
    return [id for id, *_ in IDS if not id.startswith(ELSEWHERE) or id in SAMPLE]


def cases() -> list[object]:
    """Return every id; the core tries those of ``CORE`` and a sample, shifts the others."""
    tried = CORE | {*sampled(ids(), 8, key="made by Gymnasium")}
    return [pytest.param(id, marks=[*marks(id), *([] if id in tried else [pytest.mark.shift])]) for id in ids()]


def marks(id: str) -> list[pytest.MarkDecorator]:
    lacks = find(id).lacks
    places = f"{os.environ['PATH']}:/usr/games"
    windowless = id.startswith(BROWSED) and not any(map(shutil.which, KNOWN))
    engine = "Stockfish" in id and shutil.which("stockfish", path=places) is None
    return [
        pytest.mark.skipif(lacks is not None, reason=f"NOT TESTED: {lacks}"),
        pytest.mark.skipif(windowless, reason="NOT TESTED: apt-get install chromium-headless-shell"),
        pytest.mark.skipif(engine, reason="NOT TESTED: apt-get install stockfish, and have it on the path"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("id", cases())
def test_gymnasium_makes_checks_and_vectorises_it_without_a_warning(id: str) -> None:
    env = gymnasium.make(id)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    check_env(env.unwrapped)
    env.close()
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id)] * 2)
    observations, _ = vector.reset(seed=[0, 1])
    assert all(isinstance(observation, tw.Observation) for observation in observations)
    for _ in range(3):
        observations, rewards, _, _, _ = vector.step(vector.action_space.sample())
        assert len(observations) == len(rewards) == 2
    vector.close()


def test_every_id_is_listed_with_its_source() -> None:
    found = {id: find(id) for id, *_ in IDS}
    assert {id for id, entry in found.items() if entry.source != "turnwise"} == set()
    assert {id for id in ids() if found[id].lacks is None and tw.make(id).spec is None} == set()


@pytest.mark.slow
@pytest.mark.timeout(900)  # chess against an engine takes minutes on a busy machine
@pytest.mark.parametrize(
    "id",
    [
        pytest.param(id, marks=[*marks(id), *([] if id in CORE else [pytest.mark.shift])])
        for id in ids()
        if id not in (STOCKFISH, CHROMIUM, REPAIR)
    ],
)
def test_it_certifies(id: str) -> None:
    keeps(id, {law.name for law in LAWS})


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("id", [pytest.param(id, marks=[*marks(id), *GISTS[id]]) for id in HEAVY])
def test_the_gist_of_a_certificate_holds(id: str) -> None:
    certificate = certify(id, quick=True, laws=GIST)
    assert certificate.passed, str(certificate)


def keeps(target: Target, laws: Collection[str]) -> None:
    """Try some laws; how hostile programs end, with short time limits where the limits are arguments."""
    hurried = {"no_way_out"} & {*laws} if isinstance(target, str) and target.startswith("turnwise/Code") else set()
    certificate = certify(target, quick=True, laws={*laws} - hurried)
    assert certificate.passed, str(certificate)
    if hurried:
        certificate = certify(lambda: tw.make(str(target), **IMPATIENT), quick=True, laws=hurried)
        assert certificate.passed, str(certificate)


def one_template() -> tw.TurnEnv:
    """Make the web environment in Chromium with a single template; all of them take a quarter of an hour."""
    return tw.make(CHROMIUM, templates=["shop_order"])


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(STOCKFISH, id="stockfish", marks=marks(STOCKFISH)),
        pytest.param(one_template, id="chromium", marks=marks(CHROMIUM)),
        pytest.param(REPAIR, id="repair", marks=marks(REPAIR)),
    ],
)
def test_it_certifies_in_parts(target: Target, part: int) -> None:
    """Try some of the laws, and that an episode begins: without it no other can be tried."""
    keeps(target, {"begins", *(law.name for law in LAWS[part::PARTS])})
