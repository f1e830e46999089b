"""What episodes cost: each turn and token counted where it was played, never again where it is only repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Self

from .episode import Episode, Lookahead, Turn


@dataclass(frozen=True, slots=True)
class Account:
    """Counts over episodes and what was looked ahead from them.

    A branch repeats the turns of the episode that it left: these are *shared*, and were paid for there. What was played
    in an attempt that the machinery lost is in no record, and so in no account.

    Args:
        steps: actions that an environment was told of.
        tool_calls: tools called by them.
        sampled: tokens sampled.
        prompted: tokens of the prompts that were read, one prompt per turn.
        reused: those of them with which something began that had been read before on the same way: by the turn before,
            or by who was at the same place already. It is what a perfect prefix cache serves; the last token of a
            prompt is always read, and the last one that was sampled never was.
        shared_steps: actions that stand in a branch's record and were taken in the episode that it left.
        shared_sampled: their tokens.
        branches: episodes that left another one.
        lookaheads: rollouts that were played to learn the value of a state; all of the above but the shared includes
            them.
        lookaheads_lost: those of them that were not played to an end.
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
        """Prompt tokens that even a perfect prefix cache leaves to be read."""
        return self.prompted - self.reused

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> Self:
        """What these episodes cost together."""
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
        """Numbers worth a curve: what there is always, and of the others those that are not 0."""
        always = ("steps", "sampled", "prefilled")
        names = [*always, *(each.name for each in fields(self) if each.name not in always and getattr(self, each.name))]
        return {f"cost/{name}": float(getattr(self, name)) for name in names}


def lookahead(episode: Episode, *, first: bool) -> Lookahead:
    """What is kept of an episode that was played to learn the value of the state in which it left another.

    Args:
        episode: the rollout.
        first: whether nobody had read the prompt of that state before.

    Raises:
        ValueError: it left none.
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
    """Tokens sampled in these turns."""
    return sum(len(turn.action_ids) for turn in turns)


def calls(turns: Iterable[Turn]) -> int:
    """Tools called in these turns."""
    return sum(len(turn.action.tool_calls) for turn in turns if turn.sent)


def reused(turns: Sequence[Turn], first: int, read: set[int]) -> int:
    """How many prompt tokens of the turns from ``first`` on begin what was read before.

    Args:
        turns: of an episode.
        first: its first own one.
        read: turns whose whole prompt somebody else had read when this episode came to it.
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
    """With how many equal tokens two sequences begin."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:  # nearly always, and it spares a loop over a whole context at each turn
        return shorter
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return shorter


def _left_at(episode: Episode) -> set[int]:
    """The turn at which an episode left another one, whose prompt that one had read."""
    return {episode.fork.turn} if episode.fork is not None else set()
