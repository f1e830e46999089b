"""The accounts of an overlapped run: what was drawn, what is over, what is trained; nothing twice and nothing lost."""

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
        position: its place in the order of tasks.
        born: the policy version when it was drawn; no token of it is older.
        episodes: those of its group that are over.
    """

    position: int
    born: int
    episodes: list[Episode] = field(default_factory=list)


class StalenessScheduler:
    """Who may begin, who is over and who must be trained next.

    The gate lets at most (η + v + 1)·B groups begin by version v. One that began at version b is to be trained at step
    b + η at the latest: that is its deadline. ``take`` gives those that were over first, but never so that the groups
    left over could not all meet theirs: after step v, at most (d − v)·B of them have a deadline of d or before. Where
    that needs a group that is still being played, it is waited for. By induction the gate keeps this possible, so no
    token is ever more than η versions old when it is trained, every group that began is trained exactly once, and a
    slow episode is waited for and never cancelled (algorithms.md, traps 20 and 25). With η = 0 generation and training
    alternate.

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
        self.drawn: dict[str, PendingGroup] = {}
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
        self.drawn[group_id] = PendingGroup(position, self.gate.version)

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
        """Note that step ``version`` wants ``count`` groups.

        A step that asks again, because it sets some of the first aside (dynamic sampling), gives the places of those
        back: as many more may begin.
        """
        while self.gate.version < version:
            self.gate.advance()
        untaken = len(self.drawn) - len(self._taken)
        wanted = self.gate.max_staleness * self.gate.batch + count - untaken
        self.gate.widen(max(0, wanted - self.gate.room))

    def ready(self, count: int) -> bool:
        """Whether ``take`` has enough, those included that cannot wait any longer."""
        return self._chosen(count) is not None

    def take(self, count: int) -> list[tuple[Episode, ...]]:
        """``count`` groups for the present step, in the order in which they were over.

        They stay pending until ``trained`` is called, before all others: a step that is interrupted takes them again.

        Raises:
            UsageError: there are not so many, or one that cannot wait is still being played.
            ContractError: a token is older than the bound allows.
        """
        chosen = self._chosen(count)
        if chosen is None:
            raise UsageError(f"{count} groups were requested, and {len(self._over)} are finished; wait until ready()")
        taken = [tuple(sorted(self.drawn[group].episodes, key=_member)) for group in chosen]
        for episode in (episode for group in taken for episode in group):
            self._check(episode)
        self._over = [group for group in self._over if group not in chosen]
        self._taken += chosen
        first = {group: place for place, group in enumerate(self._taken)}
        self.pending.sort(key=lambda episode: first.get(episode.group_id, len(first)))
        return taken

    def trained(self) -> None:
        """The step has been learnt: what it took is done with."""
        done = set(self._taken)
        self.pending[:] = [episode for episode in self.pending if episode.group_id not in done]
        for group in self._taken:
            del self.drawn[group]
        self._taken = []

    def restore(self, version: int, drawn: Iterable[tuple[str, PendingGroup]], episodes: Sequence[Episode]) -> None:
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

    def _chosen(self, count: int) -> list[str] | None:
        """Which of those that are over to take: the first, but for those that the deadlines demand."""
        version, bound = self.gate.version, self.gate.max_staleness
        taken = set(self._taken)
        untaken = [one.born + bound for group, one in self.drawn.items() if group not in taken]
        chosen: set[str] = set()
        for last in range(version, version + bound + 1):
            late = sum(deadline <= last for deadline in untaken) - (last - version) * self.gate.batch
            able = [group for group in self._over if self.drawn[group].born + bound <= last]
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
