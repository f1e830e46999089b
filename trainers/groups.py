"""Groups: the scored episodes of one task that share a baseline, apart from those that failed for other reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import UnscoredEpisodeError, UsageError
from ..rollouts.episode import Episode


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts at one task that serve as one another's baseline.

    Everything that gives credit takes groups, and a group cannot be built with an unscored member: an episode that
    the machinery lost never reaches a baseline, let alone an advantage.

    Args:
        group_id: the id that the members share.
        members: scored episodes, in the order in which they were asked for.
        excluded: how many attempts failed for reasons that are not the policy's, or were cancelled.

    Raises:
        UnscoredEpisodeError: a member has no return.
        UsageError: a member belongs to another group.
    """

    group_id: str
    members: tuple[Episode, ...]
    excluded: int = 0

    def __post_init__(self) -> None:
        for episode in self.members:
            if not episode.scored:
                raise UnscoredEpisodeError(
                    f"episode {episode.episode_id} is {episode.outcome}: it cannot be a member of group "
                    f"{self.group_id}; build groups with grouped(), which sets such episodes apart"
                )
            if episode.group_id != self.group_id:
                raise UsageError(f"episode {episode.episode_id} is of group {episode.group_id}, not {self.group_id}")

    @property
    def returns(self) -> tuple[float, ...]:
        """The undiscounted return of each member."""
        return tuple(episode.total_reward for episode in self.members)

    @property
    def comparable(self) -> bool:
        """Whether there are two members at least; a group of one has no baseline and no advantage."""
        return len(self.members) >= 2


def grouped(episodes: Iterable[Episode]) -> list[Group]:
    """Groups by ``group_id`` in order of first appearance; unscored episodes are counted and set apart."""
    members: dict[str, list[Episode]] = {}
    excluded: dict[str, int] = {}
    for episode in episodes:
        mine = members.setdefault(episode.group_id, [])
        if episode.scored:
            mine.append(episode)
        else:
            excluded[episode.group_id] = excluded.get(episode.group_id, 0) + 1
    return [Group(group_id, tuple(mine), excluded.get(group_id, 0)) for group_id, mine in members.items()]


def members(groups: Sequence[Group]) -> list[Episode]:
    """All members in order: the order in which advantages are given and rows are packed."""
    return [episode for group in groups for episode in group.members]
