"""The bookkeeping of an overlapped run: drawn, finished and trained groups, each exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...errors import ContractError, UsageError
from ...rollouts.episode import Episode
from .staleness import StalenessGate


@dataclass(slots=True)
class PendingGroup:
    """A task that was drawn and is not trained yet.

    Args:
        position: index in the order of tasks.
        born: policy version when it was drawn; none of its tokens is older.
        episodes: finished episodes of its group.
    """

    position: int
    born: int
    episodes: list[Episode] = field(default_factory=list)


class StalenessScheduler:
    """Decides which groups may start, and which of the finished ones to train next.

    The gate lets at most (η + v + 1)·B groups start by version v. The deadline of a group that started at version b is
    step b + η. ``take`` returns the groups that finished first, as long as the remaining ones can all meet their
    deadlines: after step v, at most (d − v)·B of them have a deadline of d or before. If that needs a group that is
    still running, ``take`` waits for it. By induction the gate keeps this possible. So no token is ever more than η
    versions old when it is trained, and every group that started is trained exactly once. A slow episode delays a step
    and is never canceled (traps.md, traps 20 and 25). With η = 0 generation and training alternate.

    Args:
        batch: B, groups per step.
        group_size: K, episodes per group.
        max_staleness: η, in policy versions.
        steps: number of steps of the whole run; groups for later steps do not start.
        pending: list of finished episodes, in the order in which they finished, until they are trained.
    """

    def __init__(
        self, *, batch: int, group_size: int, max_staleness: int, steps: int, pending: list[Episode] | None = None
    ) -> None:
        self.gate = StalenessGate(batch, max_staleness)
        self.group_size = group_size
        self.steps = steps
        self.pending: list[Episode] = [] if pending is None else pending
        self.untrained: dict[str, PendingGroup] = {}
        self._over: list[str] = []
        self._taken: list[str] = []

    @property
    def room(self) -> int:
        """Number of groups that may start now."""
        gate = self.gate
        return max(0, min(gate.room, self.steps * gate.batch - gate.accepted - gate.running))

    @property
    def running(self) -> int:
        """Number of running groups."""
        return self.gate.running

    @property
    def over(self) -> int:
        """Number of finished groups that wait for ``take``."""
        return len(self._over)

    def begin(self, position: int, group_id: str) -> None:
        """Note that a task was drawn.

        Raises:
            UsageError: there is no room for it.
        """
        self.gate.begin()
        self.untrained[group_id] = PendingGroup(position, self.gate.version)

    def finish(self, episode: Episode) -> None:
        """Note that an episode finished, however it ended.

        Raises:
            ContractError: its task was not drawn, or its group was complete.
        """
        group = self.untrained.get(episode.group_id)
        if group is None or len(group.episodes) == self.group_size:
            raise ContractError(f"episode {episode.episode_id} belongs to no group that is being played")
        group.episodes.append(episode)
        self.pending.append(episode)
        if len(group.episodes) == self.group_size:
            self.gate.accept()
            self._over.append(episode.group_id)

    def expect(self, count: int, version: int) -> None:
        """Note that step ``version`` wants ``count`` groups.

        A step that calls it again, because it sets some of the first aside (dynamic sampling), returns their places:
        as many more may start.
        """
        while self.gate.version < version:
            self.gate.advance()
        untaken = len(self.untrained) - len(self._taken)
        wanted = self.gate.max_staleness * self.gate.batch + count - untaken
        self.gate.widen(max(0, wanted - self.gate.room))

    def ready(self, count: int) -> bool:
        """Whether ``take`` has enough groups, including those that cannot wait any longer."""
        return self._chosen(count) is not None

    def take(self, count: int) -> list[tuple[Episode, ...]]:
        """Return ``count`` groups for the present step, in the order in which they finished.

        They stay pending until ``trained`` is called, before all others: an interrupted step takes them again.

        Raises:
            UsageError: there are not enough, or one that cannot wait is still running.
            ContractError: a token is older than the bound allows.
        """
        chosen = self._chosen(count)
        if chosen is None:
            raise UsageError(f"{count} groups were requested, and {len(self._over)} are finished; wait until ready()")
        # Members are sorted, since the order in which they finished depends on the machine.
        taken = [tuple(sorted(self.untrained[group].episodes, key=_member)) for group in chosen]
        for episode in (episode for group in taken for episode in group):
            self._check(episode)
        self._over = [group for group in self._over if group not in chosen]
        self._taken += chosen
        first = {group: place for place, group in enumerate(self._taken)}
        self.pending.sort(key=lambda episode: first.get(episode.group_id, len(first)))
        return taken

    def trained(self) -> list[Episode]:
        """Note that the step has been learned, forget its groups, and return their episodes."""
        done = set(self._taken)
        learned = [episode for group in self._taken for episode in self.untrained[group].episodes]
        self.pending[:] = [episode for episode in self.pending if episode.group_id not in done]
        for group in self._taken:
            del self.untrained[group]
        self._taken = []
        return learned

    def restore(self, version: int, drawn: Iterable[tuple[str, PendingGroup]], episodes: Sequence[Episode]) -> None:
        """Continue after a restart: trained groups count as such, and the other drawn groups are played.

        Args:
            version: number of trained steps.
            drawn: drawn and untrained groups without their episodes, each with its group id.
            episodes: finished episodes of these groups, in the order in which they finished.
        """
        groups = dict(drawn)
        self.gate.recover(version)
        self.gate.widen(max(0, len(groups) - self.gate.room))  # a step that took more had not been learned
        for group_id, one in groups.items():
            self.begin(one.position, group_id)
            self.untrained[group_id].born = one.born  # keeps the deadline that it had before the restart (trap 20)
        self.pending.clear()
        for episode in episodes:
            self.finish(episode)

    def unfinished(self) -> list[int]:
        """Return positions of drawn tasks with unfinished episodes."""
        return sorted(d.position for d in self.untrained.values() if len(d.episodes) < self.group_size)

    def _chosen(self, count: int) -> list[str] | None:
        """Return the finished groups to take: the first ones, except where deadlines demand others."""
        version, bound = self.gate.version, self.gate.max_staleness
        taken = set(self._taken)
        untaken = [one.born + bound for group, one in self.untrained.items() if group not in taken]
        chosen: set[str] = set()
        for last in range(version, version + bound + 1):
            # The steps after this one, up to ``last``, train B groups each. What is due by then beyond that is due now.
            late = sum(deadline <= last for deadline in untaken) - (last - version) * self.gate.batch
            able = [group for group in self._over if self.untrained[group].born + bound <= last]
            missing = min(count, late) - sum(group in chosen for group in able)
            more = [group for group in able if group not in chosen][: max(0, missing)]
            if len(more) < missing:
                return None
            chosen.update(more)
        rest = [group for group in self._over if group not in chosen]
        chosen.update(rest[: count - len(chosen)])
        return [group for group in self._over if group in chosen] if len(chosen) == count else None

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
