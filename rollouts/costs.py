"""Cost of episodes: each turn and token counts once, where it was played, even if other records repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Self

from .episode import Episode, Lookahead, Turn


@dataclass(frozen=True, slots=True)
class RolloutCost:
    """Cost of episodes and of their lookaheads.

    A branch repeats the turns of its parent: these are *shared*, and count for the parent. Turns of an attempt that an
    infrastructure failure ended are in no record, and so not in this cost.

    Args:
        steps: number of actions that environments received.
        tool_calls: number of tool calls in these actions.
        sampled: number of sampled tokens.
        prompted: number of tokens in the prompts that were read, one prompt per turn.
        reused: prompt tokens that an ideal prefix cache would serve: those that the same path, or another in the same
            state, had read before. The last token of a prompt is always read, and a sampled token that ended an action
            has not been read.
        shared_steps: number of actions that a branch's record repeats from its parent.
        shared_sampled: number of tokens sampled in these actions.
        branches: number of episodes that branched off another one.
        lookaheads: number of rollouts that estimated the value of a state; all of the above except the shared counts
            include them.
        lookaheads_lost: number of lookaheads that did not finish.
    """

    steps: int = 0
    tool_calls: int = 0
    sampled: int = 0
    prompted: int = 0
    reused: int = 0
    shared_steps: int = 0
    shared_sampled: int = 0
    branches: int = 0
    lookaheads: int = 0
    lookaheads_lost: int = 0

    @property
    def prefilled(self) -> int:
        """Prompt tokens that even an ideal prefix cache does not serve."""
        return self.prompted - self.reused

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> Self:
        """Return the total cost of these episodes."""
        return sum((cls._of(episode) for episode in episodes), cls())

    @classmethod
    def _of(cls, episode: Episode) -> Self:
        own, ahead = episode.own_turns, episode.lookaheads
        shared = episode.turns[: len(episode.turns) - len(own)]
        return cls(
            steps=sum(turn.sent for turn in own) + sum(len(each.rewards) for each in ahead),
            tool_calls=calls(own) + sum(each.tool_calls for each in ahead),
            sampled=sampled(own) + sum(each.sampled for each in ahead),
            prompted=sum(len(turn.prompt_ids) for turn in own) + sum(each.prompted for each in ahead),
            reused=reused(episode.turns, len(shared), {each.turn for each in ahead} | _left_at(episode))
            + sum(each.reused for each in ahead),
            shared_steps=sum(turn.sent for turn in shared),
            shared_sampled=sampled(shared),
            branches=int(episode.fork is not None),
            lookaheads=len(ahead),
            lookaheads_lost=sum(not each.outcome.trainable for each in ahead),
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def metrics(self) -> dict[str, float]:
        """Return the numbers for a curve: the basic ones always, the others if they are not 0."""
        always = ("steps", "sampled", "prefilled")
        names = [*always, *(each.name for each in fields(self) if each.name not in always and getattr(self, each.name))]
        return {f"cost/{name}": float(getattr(self, name)) for name in names}


def lookahead(episode: Episode, *, first: bool) -> Lookahead:
    """Return the record of a rollout that estimated the value of the state in which it left its episode.

    Args:
        episode: the rollout.
        first: whether no earlier rollout has read the prompt of that state.

    Raises:
        ValueError: the episode starts with a reset.
    """
    if episode.fork is None:
        raise ValueError(f"episode {episode.episode_id} starts with a reset, so it is not a lookahead")
    own = episode.own_turns
    return Lookahead(
        turn=episode.fork.turn,
        rewards=tuple(turn.reward for turn in own if turn.sent),
        outcome=episode.outcome,
        sampled=sampled(own),
        prompted=sum(len(turn.prompt_ids) for turn in own),
        reused=reused(episode.turns, episode.fork.turn, set() if first else _left_at(episode)),
        tool_calls=calls(own),
    )


def sampled(turns: Iterable[Turn]) -> int:
    """Return the number of tokens sampled in these turns."""
    return sum(len(turn.action_ids) for turn in turns)


def calls(turns: Iterable[Turn]) -> int:
    """Return the number of tools called in these turns."""
    return sum(len(turn.action.tool_calls) for turn in turns if turn.sent)


def reused(turns: Sequence[Turn], first: int, read: set[int]) -> int:
    """Return how many prompt tokens of the turns from ``first`` on extend an earlier prompt of the same path.

    Args:
        turns: turns of an episode.
        first: index of its first own turn.
        read: turns whose whole prompt another episode had read before.
    """
    total = 0
    for index in range(first, len(turns)):
        prompt = turns[index].prompt_ids
        if index in read:
            known = len(prompt)
        elif index:
            before = turns[index - 1]
            known = common(prompt, (*before.prompt_ids, *before.action_ids[:-1]))
        else:
            known = 0
        total += min(known, max(len(prompt) - 1, 0))
    return total


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:  # nearly always true, and avoids a loop over the whole context at each turn
        return shorter
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return shorter


def _left_at(episode: Episode) -> set[int]:
    """Return the turn at which an episode left its parent, which had read that turn's prompt."""
    return {episode.fork.turn} if episode.fork is not None else set()
