"""Sessions keep their replica, and no replica gets more than its share of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from turnwise.inference.serving.affinity import Affinity, largest_load, preferred


@dataclass(eq=False)
class Box:
    """A replica with a set of requests."""

    address: str
    requests: list[str] = field(default_factory=list)
    up: bool = True

    @property
    def load(self) -> int:
        return len(self.requests)


def boxes(number: int) -> list[Box]:
    return [Box(f"http://10.0.0.{i}:8000") for i in range(number)]


def assign(affinity: Affinity[Box], replicas: list[Box], session: str) -> Box:
    found = affinity.ordered(replicas, session)[0]
    affinity.remember(session, found)
    found.requests.append(session)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("number", "sessions"), [(8, 64), (32, 512), pytest.param(56, 1024, marks=pytest.mark.shift)])
def test_the_busiest_replica_has_little_more_than_the_mean(number: int, sessions: int) -> None:
    for seed in range(5):
        affinity, replicas = Affinity[Box](), boxes(number)
        for i in range(sessions):
            assign(affinity, replicas, f"{seed}-{i}")
        assert max(box.load for box in replicas) <= 1.2 * sessions / number
        by_hash = [preferred(replicas, f"{seed}-{i}")[0].address for i in range(sessions)]
        assert max(map(by_hash.count, set(by_hash))) > 1.2 * sessions / number, "without the bound it has more"


@pytest.mark.parametrize("seed", range(3))
def test_sessions_that_come_and_go_stay_where_they_are_and_spread(seed: int) -> None:
    rng, affinity, replicas = random.Random(seed), Affinity[Box](), boxes(8)
    homes: dict[str, Box] = {}
    for i in range(2000):
        if len(homes) >= 64:
            gone = rng.choice(sorted(homes))
            homes.pop(gone).requests.remove(gone)
        homes[f"s{i}"] = assign(affinity, replicas, f"s{i}")
        other = rng.choice(sorted(homes))
        assert affinity.ordered(replicas, other)[0] is homes[other]
    assert max(box.load for box in replicas) <= largest_load(replicas) + 1


def test_below_the_bound_every_process_prefers_the_same_replica() -> None:
    replicas = boxes(5)
    for i in range(50):
        first, second = Affinity[Box](), Affinity[Box]()
        assert (
            first.ordered(replicas, f"s{i}") == second.ordered(replicas[::-1], f"s{i}") == preferred(replicas, f"s{i}")
        )


def test_a_replica_to_avoid_comes_last_even_for_its_own_sessions() -> None:
    affinity, replicas = Affinity[Box](), boxes(3)
    own = assign(affinity, replicas, "s")
    assert affinity.ordered(replicas, "s", [own])[-1] is own
    assert affinity.ordered(replicas, "", [own])[-1] is own


def test_a_replica_that_is_down_does_not_count_in_the_mean() -> None:
    replicas = boxes(3)
    down, more, less = preferred(replicas, "s")
    down.up, more.requests, less.requests = False, ["x"] * 11, ["x"] * 10
    assert Affinity[Box]().ordered(replicas, "s") == [down, more, less], "both are below the bound of 12"


def test_only_so_many_sessions_are_remembered() -> None:
    affinity, replicas = Affinity[Box](remembered=2), boxes(4)
    full = preferred(replicas, "old")[0]
    full.requests = ["x"] * 9
    old = assign(affinity, replicas, "old")
    assert old is not full, "the bound moved it"
    full.requests.clear()
    assert affinity.ordered(replicas, "old")[0] is old
    for session in ("a", "b"):
        assign(affinity, replicas, session).requests.clear()
    assert affinity.ordered(replicas, "old")[0] is full, "forgotten, it is assigned again"
