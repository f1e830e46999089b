"""How much a certification tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried.

    Args:
        samples: tasks per split and level.
        few: tasks on which the laws are tried that play many episodes each.
        turns: how far such episodes are played.
        random_episodes: how many episodes the random player gets.
        leak_episodes: how many episodes the leak law plays.
        processes: how many other processes repeat the episodes.
        every: the harness tries one in this many of the attempts to break the environment.
        takes_turns: each odd tool call is tried in one of the few tasks, in turn, instead of in all of them.
    """

    samples: int = 3
    few: int = 6
    turns: int = 40
    random_episodes: int = 60
    leak_episodes: int = 1000
    processes: int = 2
    every: int = 1
    takes_turns: bool = False


QUICK = Effort(
    samples=1, few=2, turns=10, random_episodes=20, leak_episodes=100, processes=1, every=20, takes_turns=True
)
"""Enough to notice what is plainly broken."""
