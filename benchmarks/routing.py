"""Compare the busiest of many replicas with the mean, by rendezvous hashing alone and with bounded loads.

All sessions of a step start together, as in synchronous training. Prints, for each size, the median and the worst of
100 draws of session ids:

    python benchmarks/routing.py
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from turnwise.inference.serving.affinity import Affinity, preferred

SIZES = ((8, 64), (8, 512), (32, 512), (56, 1024))
"""Replicas and sessions."""
DRAWS = 100


@dataclass(eq=False)
class Counted:
    """A replica that only counts its requests."""

    address: str
    load: int = 0
    up: bool = True


def busiest(replicas: int, sessions: int, draw: int) -> tuple[float, float]:
    """Return the largest load relative to the mean, by hashing alone and with bounded loads."""
    members = [Counted(f"http://10.0.{i // 256}.{i % 256}:8000") for i in range(replicas)]
    affinity: Affinity[Counted] = Affinity()
    hashed: Counter[str] = Counter()
    for session in (f"{draw}-{i}" for i in range(sessions)):
        hashed[preferred(members, session)[0].address] += 1
        chosen = affinity.ordered(members, session)[0]
        affinity.remember(session, chosen)
        chosen.load += 1
    mean = sessions / replicas
    return max(hashed.values()) / mean, max(member.load for member in members) / mean


def main() -> None:
    """Print the table."""
    print(f"{'replicas/sessions':>18} {'hashing':>16} {'bounded':>16}")
    for replicas, sessions in SIZES:
        both = [busiest(replicas, sessions, draw) for draw in range(DRAWS)]
        cells = [f"{statistics.median(each):.2f} ({max(each):.2f})" for each in zip(*both, strict=True)]
        print(f"{f'{replicas}/{sessions}':>18} {cells[0]:>16} {cells[1]:>16}")


if __name__ == "__main__":
    main()
