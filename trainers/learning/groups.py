"""Groups: the episodes of one task that share a baseline, without those that were not played to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...errors import UnscoredEpisodeError, UsageError
from ...rollouts.episode import Episode, Outcome

ROUNDING = 1e-6
"""Share of the largest return of a group below which a difference is only the rounding of sums of 32-bit rewards."""


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts at one task that serve as one another's baseline.

    Credit assignment takes groups, and a group cannot be built with an unscored member. So an episode that the
    infrastructure lost never reaches a baseline, let alone an advantage.

    Args:
        group_id: the id that the members share.
        members: episodes played to an end, in the order of their requests.
        excluded: number of attempts that were canceled or failed for reasons outside the policy.
        failed: attempts that the policy did not finish (timeout, context full). They are not members, since their
            return has only the rewards up to that point; ``with_failures`` makes them members.

    Raises:
        UnscoredEpisodeError: a member has no return.
        UsageError: a member belongs to another group.
    """

    group_id: str
    members: tuple[Episode, ...]
    excluded: int = 0
    failed: tuple[Episode, ...] = ()

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
    def policy_failed(self) -> int:
        """Number of attempts that the policy did not finish."""
        return len(self.failed)

    @property
    def returns(self) -> tuple[float, ...]:
        """Undiscounted return of each member."""
        return tuple(episode.total_reward for episode in self.members)

    @property
    def comparable(self) -> bool:
        """Whether there are at least two members; a group of one has no baseline and no advantage."""
        return len(self.members) >= 2

    @property
    def differs(self) -> bool:
        """Whether the returns of members differ by more than rounding."""
        returns = self.returns
        return bool(returns) and max(returns) - min(returns) > ROUNDING * max(map(abs, returns))


def grouped(episodes: Iterable[Episode]) -> list[Group]:
    """Group episodes by ``group_id`` in order of first appearance; count those that were not played to an end."""
    members: dict[str, list[Episode]] = {}
    excluded: Counter[str] = Counter()
    failed: dict[str, list[Episode]] = {}
    for episode in episodes:
        mine = members.setdefault(episode.group_id, [])
        unfinished = failed.setdefault(episode.group_id, [])
        if episode.trainable:
            mine.append(episode)
        elif episode.scored:
            unfinished.append(episode)
        else:
            excluded[episode.group_id] += 1
    return [Group(id_, tuple(mine), excluded[id_], tuple(failed[id_])) for id_, mine in members.items()]


def with_failures(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups with the attempts that the policy did not finish as members, ended by a failure.

    Without an advantage, growing out of the context would cost nothing; with the rewards so far, failing early would be
    cheap where turns cost something. So such an attempt returns what the worst attempt of its group returned (of the
    batch, if no other was played to an end), or less if it has less already. The difference is part of its last
    reward. An attempt without actions of its own has nothing to learn from.
    """
    played = [value for group in groups for value in group.returns]
    return tuple(_with_failures(group, group.returns or played) for group in groups)


def _with_failures(group: Group, returns: Sequence[float]) -> Group:
    sides: dict[bool, list[Episode]] = {True: [], False: []}
    for episode in group.failed:
        sides[any(turn.action_ids for turn in episode.own_turns)].append(episode)
    if not sides[True]:
        return group
    lowest = min([*returns, *(episode.total_reward for episode in sides[True])])
    ended = tuple(_failure(episode, lowest) for episode in sides[True])
    return replace(group, members=(*group.members, *ended), failed=tuple(sides[False]))


def _failure(episode: Episode, returned: float) -> Episode:
    """Return an unfinished attempt as one whose last turn ended the task with this return."""
    *turns, last = episode.turns
    end = replace(last, reward=last.reward + returned - episode.total_reward, terminated=True, truncated=False)
    return replace(episode, turns=(*turns, end), outcome=Outcome.COMPLETED)


def members(groups: Sequence[Group]) -> list[Episode]:
    """Return all members in order: the order of advantages and of packed rows."""
    return [episode for group in groups for episode in group.members]
