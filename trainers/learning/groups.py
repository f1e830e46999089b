"""Groups: the episodes of one task that share a baseline, without those that were not played to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...errors import UnscoredEpisodeError, UsageError
from ...rollouts.episode import Episode


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts at one task that serve as one another's baseline.

    Credit assignment takes groups, and a group cannot be built with an unscored member. So an episode that the
    infrastructure lost never reaches a baseline, let alone an advantage.

    Args:
        group_id: the id that the members share.
        members: episodes played to an end, in the order of their requests.
        excluded: number of attempts that were canceled or failed for reasons outside the policy.
        policy_failed: number of attempts that the policy did not finish (timeout, context full). They count as
            failures and have no advantage, since their return has only the rewards up to that point.

    Raises:
        UnscoredEpisodeError: a member has no return.
        UsageError: a member belongs to another group.
    """

    group_id: str
    members: tuple[Episode, ...]
    excluded: int = 0
    policy_failed: int = 0

    def __post_init__(self) -> None:
        for episode in self.members:
            if not episode.trainable:
                raise UnscoredEpisodeError(
                    f"episode {episode.episode_id} is {episode.outcome}: it cannot be a member of group "
                    f"{self.group_id}; build groups with grouped(), which sets such episodes apart"
                )
            if episode.group_id != self.group_id:
                raise UsageError(f"episode {episode.episode_id} is of group {episode.group_id}, not {self.group_id}")

    @property
    def returns(self) -> tuple[float, ...]:
        """Undiscounted return of each member."""
        return tuple(episode.total_reward for episode in self.members)

    @property
    def comparable(self) -> bool:
        """Whether there are at least two members; a group of one has no baseline and no advantage."""
        return len(self.members) >= 2


def grouped(episodes: Iterable[Episode]) -> list[Group]:
    """Group episodes by ``group_id`` in order of first appearance; count those that were not played to an end."""
    members: dict[str, list[Episode]] = {}
    excluded: Counter[str] = Counter()
    policy_failed: Counter[str] = Counter()
    for episode in episodes:
        mine = members.setdefault(episode.group_id, [])
        if episode.trainable:
            mine.append(episode)
        elif episode.scored:
            policy_failed[episode.group_id] += 1
        else:
            excluded[episode.group_id] += 1
    return [Group(id_, tuple(mine), excluded[id_], policy_failed[id_]) for id_, mine in members.items()]


def members(groups: Sequence[Group]) -> list[Episode]:
    """Return all members in order: the order of advantages and of packed rows."""
    return [episode for group in groups for episode in group.members]
