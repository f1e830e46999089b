"""The accounts of an overlapped run: what was drawn, what is over, what is trained; nothing twice and nothing lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...errors import ContractError, UsageError
from ...rollouts.episode import Episode
from .staleness import StalenessGate


@dataclass(slots=True)
class Outstanding:
    """A task that was drawn and is not trained yet.

    Args:
        position: its place in the order of tasks.
        born: the policy version when it was drawn; no token of it is older.
        episodes: those of its group that are over.
    """

    position: int
    born: int
    episodes: list[Episode] = field(default_factory=list)


class Ledger:
    """Who may begin, who is over and who must be trained next.

    The gate lets at most (η + v + 1)·B groups begin by version v. So of those that began by version v − η, at most B
    are untrained when step v comes, and one batch has room for them all. ``take`` therefore waits for them, and fills
    up with whoever was over first. It follows that no token is ever more than η versions old when it is trained, that
    every group that began is trained exactly once, and that a slow episode is waited for and never cancelled
    (algorithms.md, traps 20 and 25). With η = 0 generation and training alternate.

    Args:
        batch: B, groups per step.
        group_size: K, episodes per group.
        max_staleness: η, in policy versions.
        steps: of the whole run; what would be trained after them does not begin.
        pending: finished episodes are kept here, in the order in which they were over, until they are trained.
    """

    def __init__(
        self, *, batch: int, group_size: int, max_staleness: int, steps: int, pending: list[Episode] | None = None
    ) -> None:
        self.gate = StalenessGate(batch, max_staleness)
        self.group_size = group_size
        self.steps = steps
        self.pending: list[Episode] = [] if pending is None else pending
        self.drawn: dict[str, Outstanding] = {}
        self._over: list[str] = []
        self._taken: list[str] = []

    @property
    def room(self) -> int:
        """How many groups may begin now."""
        gate = self.gate
        return max(0, min(gate.room, self.steps * gate.batch - gate.accepted - gate.running))

    @property
    def running(self) -> int:
        """How many groups are being played."""
        return self.gate.running

    @property
    def over(self) -> int:
        """How many groups are over and wait to be taken."""
        return len(self._over)

    def begin(self, position: int, group_id: str) -> None:
        """Note that a task was drawn.

        Raises:
            UsageError: there is no room for it.
        """
        self.gate.begin()
        self.drawn[group_id] = Outstanding(position, self.gate.version)

    def finish(self, episode: Episode) -> None:
        """Note that an episode is over, however it ended.

        Raises:
            ContractError: nobody drew its task, or its group was complete.
        """
        drawn = self.drawn.get(episode.group_id)
        if drawn is None or len(drawn.episodes) == self.group_size:
            raise ContractError(f"episode {episode.episode_id} belongs to no group that is being played")
        drawn.episodes.append(episode)
        self.pending.append(episode)
        if len(drawn.episodes) == self.group_size:
            self.gate.accept()
            self._over.append(episode.group_id)

    def expect(self, count: int, version: int) -> None:
        """Note that ``count`` groups are wanted in all for step ``version``.

        A step that asks for more than it took already, because it sets some aside (dynamic sampling), gives the places
        of those back: as many more may begin.
        """
        while self.gate.version < version:
            self.gate.advance()
        untaken, missing = len(self.drawn) - len(self._taken), count - len(self._taken)
        wanted = self.gate.max_staleness * self.gate.batch + missing - untaken
        self.gate.widen(max(0, wanted - self.gate.room))

    def ready(self, count: int) -> bool:
        """Whether ``take`` has enough, those included that cannot wait for the next version."""
        return len(self._taken) + len(self._over) >= count and self._due() <= set(self._over)

    def take(self, count: int) -> list[tuple[Episode, ...]]:
        """``count`` groups in all for the present step: those that are due, then in the order in which they were over.

        They stay pending until ``trained`` is called: a step that is interrupted, or asks again, takes them again.

        Raises:
            UsageError: there are not so many.
            ContractError: a token is older than the bound allows.
        """
        if not self.ready(count):
            have = len(self._taken) + len(self._over)
            raise UsageError(f"{count} groups were asked for and {have} are over; wait until ready()")
        due = self._due()
        chosen = sorted(self._over, key=lambda group: group not in due)[: max(0, count - len(self._taken))]
        self._over = [group for group in self._over if group not in chosen]
        self._taken += chosen
        taken = [tuple(sorted(self.drawn[group].episodes, key=_member)) for group in self._taken]
        for episode in (episode for group in taken for episode in group):
            self._check(episode)
        return taken

    def trained(self) -> None:
        """The step has been learnt: what it took is done with."""
        done = set(self._taken)
        self.pending[:] = [episode for episode in self.pending if episode.group_id not in done]
        for group in self._taken:
            del self.drawn[group]
        self._taken = []

    def restore(self, version: int, drawn: Iterable[tuple[str, Outstanding]], episodes: Sequence[Episode]) -> None:
        """Continue after a restart: exactly what is trained counts as that, and the rest of what was drawn is played.

        Args:
            version: steps that are trained.
            drawn: what was drawn and not trained, with its group id, without its episodes.
            episodes: those of it that are over, in the order in which they were.
        """
        groups = dict(drawn)
        self.gate.recover(version)
        self.gate.widen(max(0, len(groups) - self.gate.room))  # a step that asked for more had not been learnt
        for group_id, one in groups.items():
            self.begin(one.position, group_id)
            self.drawn[group_id].born = one.born
        self.pending.clear()
        for episode in episodes:
            self.finish(episode)

    def unfinished(self) -> list[int]:
        """Positions of tasks that were drawn and whose episodes are not all over."""
        return sorted(d.position for d in self.drawn.values() if len(d.episodes) < self.group_size)

    def _due(self) -> set[str]:
        oldest = self.gate.version - self.gate.max_staleness
        return {group for group, drawn in self.drawn.items() if drawn.born <= oldest} - set(self._taken)

    def _check(self, episode: Episode) -> None:
        version, bound = self.gate.version, self.gate.max_staleness
        sampled = [token for turn in episode.turns for token in turn.versions]
        if sampled and version - min(sampled) > bound:
            raise ContractError(
                f"episode {episode.episode_id} has tokens of version {min(sampled)}, which version {version} may not "
                f"train on (max_staleness {bound}): a step trained on fewer groups than {self.gate.batch}, or the "
                "policy was not given its weights"
            )


def _member(episode: Episode) -> int:
    return int(episode.episode_id.rpartition("-")[2])
