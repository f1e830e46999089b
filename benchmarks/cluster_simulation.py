"""Simulate rollouts on up to 10,000 workers: the account after failures, the idle share, and the first bottleneck.

    python benchmarks/cluster_simulation.py                                   # heavy-tailed durations (lognormal)
    python benchmarks/cluster_simulation.py --store runs/a/training_episodes  # durations with a stored run's spread

One driver handles all ends one after another, at the cost per episode that ``benchmarks/scale.py`` measured. Nodes fail
at random; their episodes are leased again, under the next attempt. ``async`` refills a free seat at once; ``sync``
waits for all episodes of a step.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import time
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from turnwise.rollouts.store import load_episodes

PER_NODE = 10


@dataclass
class Result:
    """Result of a simulated run."""

    drawn: int = 0
    lost: int = 0
    failures: int = 0
    ended: Counter[int] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    open: int = 0
    played: float = 0.0
    driver: float = 0.0


class Simulation:
    """A run of some minutes.

    Args:
        workers: number of workers, ten on a node.
        args: settings of the command line.
        durations: durations to draw from, in seconds.
        sync: whether a step waits for all its episodes.
    """

    def __init__(self, workers: int, args: argparse.Namespace, durations: np.ndarray, sync: bool) -> None:
        self.rng = np.random.default_rng(args.seed)
        self.nodes = max(1, workers // PER_NODE)
        self.seats = workers * args.seats
        self.args, self.sync, self.result = args, sync, Result()
        self._drawn = iter(())
        self._durations, self._next = durations, itertools.count()
        self._again: deque[tuple[int, int]] = deque()
        self._playing: list[dict[int, tuple[int, int, float]]] = [{} for _ in range(self.nodes)]
        self._down = np.zeros(self.nodes)
        self._events: list[tuple[float, int, str, int, int]] = []
        self._order = itertools.count()
        self._waiting: list[int] = []
        self._free_at = 0.0

    def run(self) -> Result:
        """Simulate, and return what happened."""
        end, result = 60.0 * self.args.minutes, self.result
        for seat in range(self.seats):
            self._lease(0.0, seat)
        rate = self.nodes * self.args.failures / 3600.0
        self._push(self.rng.exponential(1 / rate), "fail", -1, 0)
        while self._events:
            now, _, kind, seat, episode = heapq.heappop(self._events)
            if now > end:
                break
            if kind == "fail":
                self._fail(now, int(self.rng.integers(self.nodes)))
                self._push(now + self.rng.exponential(1 / rate), "fail", -1, 0)
            elif kind == "lease":
                self._lease(now, seat)
            else:
                self._end(now, seat, episode)
        result.open = len(self._again)
        for node in self._playing:
            result.open += len(node)
            result.played += sum(end - began for _, _, began in node.values())
        return result

    def _node(self, seat: int) -> int:
        return seat * self.nodes // self.seats

    def _push(self, when: float, kind: str, seat: int, episode: int) -> None:
        heapq.heappush(self._events, (when, next(self._order), kind, seat, episode))

    def _lease(self, now: float, seat: int) -> None:
        node = self._node(seat)
        if now < self._down[node]:
            self._push(float(self._down[node]), "lease", seat, 0)
            return
        if self._again:
            episode, attempt = self._again.popleft()
        elif self.sync and self.result.drawn - self.result.ended.total() >= self.seats:
            self._waiting.append(seat)
            return
        else:
            episode, attempt = next(self._next), 1
            self.result.drawn += 1
        self._playing[node][seat] = episode, attempt, now
        self._push(now + self._duration(), "end", seat, episode)

    def _duration(self) -> float:
        value = next(self._drawn, None)
        if value is None:
            self._drawn = iter(self.rng.choice(self._durations, 100_000).tolist())
            value = next(self._drawn)
        return float(value)

    def _end(self, now: float, seat: int, episode: int) -> None:
        held = self._playing[self._node(seat)].get(seat)
        if held is None or held[0] != episode:
            return  # its node failed, and the lease is another's now
        del self._playing[self._node(seat)][seat]
        self._free_at = max(now, self._free_at) + self.args.cost / 1e3  # the driver handles one end after another
        self.result.driver += self.args.cost / 1e3
        self.result.ended[episode] += 1
        self.result.attempts[held[1]] += 1
        self.result.played += now - held[2]
        if self.sync:
            self._waiting.append(seat)
            if len(self._waiting) >= self.seats or self.result.drawn == self.result.ended.total():
                waiting, self._waiting = self._waiting, []
                for each in waiting:
                    self._push(self._free_at, "lease", each, 0)
        else:
            self._push(self._free_at, "lease", seat, 0)

    def _fail(self, now: float, node: int) -> None:
        self.result.failures += 1
        self._down[node] = now + self.args.restart
        lost, self._playing[node] = self._playing[node], {}
        for seat, (episode, attempt, began) in lost.items():
            self.result.lost += 1
            self.result.played += now - began
            self._again.append((episode, attempt + 1))
            self._push(float(self._down[node]), "lease", seat, 0)


def checked(result: Result) -> None:
    """Check the account of a run."""
    assert result.drawn == len(result.ended) + result.open, "drawn must be ended and open"
    assert not result.ended or max(result.ended.values()) == 1, "an episode was counted twice"


def durations_of(args: argparse.Namespace) -> np.ndarray:
    """Return durations in seconds with the wanted mean."""
    if args.store:
        found = np.array([episode.seconds for episode in load_episodes(args.store) if episode.scored])
    else:
        found = np.random.default_rng(0).lognormal(0.0, args.sigma, 200_000)
    return np.asarray(found * args.mean / found.mean())


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="10,100,1000,10000")
    parser.add_argument("--seats", type=int, default=16, help="episodes of a worker at a time")
    parser.add_argument("--mean", type=float, default=300.0, help="mean seconds of an episode")
    parser.add_argument("--sigma", type=float, default=1.0, help="spread of the logarithm of a duration")
    parser.add_argument("--store", default="", help="store whose durations give the spread instead")
    parser.add_argument("--cost", type=float, default=1.7, help="the driver's milliseconds for an episode")
    parser.add_argument("--failures", type=float, default=0.01, help="failures of a node in an hour")
    parser.add_argument("--restart", type=float, default=60.0, help="seconds until a failed node plays again")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    durations = durations_of(args)
    p50, p99 = np.quantile(durations, [0.5, 0.99])
    print(f"episodes: median {p50:.0f} s, mean {args.mean:.0f} s, p99 {p99:.0f} s; driver {args.cost} ms an episode")
    for workers in map(int, args.workers.split(",")):
        for sync in (False, True):
            began = time.perf_counter()
            simulation = Simulation(workers, args, durations, sync)
            result = simulation.run()
            checked(result)
            whole = simulation.seats * 60.0 * args.minutes
            busy = result.driver / (60.0 * args.minutes)
            first = "the driver" if busy > 0.9 else "the slowest episode of a step" if sync else "the number of seats"
            mode, seconds = "sync " if sync else "async", time.perf_counter() - began
            account = f"{result.drawn} drawn = {len(result.ended)} ended + {result.open} open"
            faults = f"{result.failures} failures, {result.lost} leases lost, at most {max(result.attempts)} attempts"
            share = f"idle {1 - result.played / whole:.1%}, driver busy {min(1.0, busy):.1%}"
            print(f"{workers:6} workers, {mode}: {account}; {faults}; {share}; bound by {first} ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
