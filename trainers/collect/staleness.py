"""Bound how far generation may run ahead of training."""

from __future__ import annotations

from ...errors import UsageError


class StalenessGate:
    """Admits episodes so that none is trained more than ``max_staleness`` policy versions after it began.

    The rule is AReaL's (arXiv 2505.24298): with batch size B, present version v and bound η, at most
    ``(η + v + 1)·B`` episodes may ever have been admitted, counting those that are running and those accepted for
    training. With η = 0 generation and training alternate.

    Args:
        batch: B, episodes per policy version.
        max_staleness: η, in policy versions.
    """

    def __init__(self, batch: int, max_staleness: int = 0) -> None:
        if batch < 1 or max_staleness < 0:
            raise UsageError(f"a staleness gate needs batch ≥ 1 and max_staleness ≥ 0; got {batch} and {max_staleness}")
        self.batch = batch
        self.max_staleness = max_staleness
        self.version = 0
        self.accepted = 0
        self.running = 0

    @property
    def room(self) -> int:
        """Number of episodes that may start now."""
        return max(0, (self.max_staleness + self.version + 1) * self.batch - self.accepted - self.running)

    def begin(self, count: int = 1) -> None:
        """Note that episodes start.

        Raises:
            UsageError: there is no room for them.
        """
        if count > self.room:
            raise UsageError(f"{count} episodes may not begin: there is room for {self.room} at version {self.version}")
        self.running += count

    def accept(self, count: int = 1) -> None:
        """Note that episodes finished and will be trained on.

        Raises:
            UsageError: fewer are running.
        """
        if count > self.running:
            raise UsageError(f"{count} episodes cannot end: only {self.running} are running")
        self.running -= count
        self.accepted += count

    def widen(self, count: int) -> None:
        """Note that so many accepted episodes are set aside after all, and as many more may start."""
        self.accepted -= count

    def advance(self) -> None:
        """Note a new policy version."""
        self.version += 1

    def recover(self, version: int) -> None:
        """Continue after a restart: nothing runs, and exactly what was trained counts as accepted.

        Episodes that were accepted and not trained are lost with the process. Counting them would shrink the room for
        good, and counting none of the trained ones would leave it unbounded (traps.md, trap 20).
        """
        self.version, self.accepted, self.running = version, version * self.batch, 0
