"""``Deaths``: whether a worker's death is its node's fault, or that of an episode that it was playing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Case(Generic[W]):
    """A death whose cause is open.

    Args:
        worker: worker that died.
        waiting: names of its episodes that have not ended yet.
    """

    worker: W
    waiting: set[str]


class Deaths(Generic[W]):
    """Deaths of workers, judged by what became of the episodes that they were playing.

    An action of an agent may kill its worker, and must not close a healthy node. So a death counts against its node
    only when all episodes that the worker was playing have ended since without such a loss on another node. An episode
    that loses workers on two nodes, or ends since it lost too many, is the suspect, and the deaths in which it took
    part count against no node. A worker that dies without episodes counts against its node at once.
    """

    def __init__(self) -> None:
        self._cases: list[Case[W]] = []
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)

    def note(self, worker: W, node: str, episodes: Collection[str]) -> bool:
        """Note a death; return whether it counts against the node at once.

        Args:
            worker: worker that died.
            node: its node.
            episodes: names of the episodes that it was playing.
        """
        for name in episodes:
            self._nodes[name].add(node)
        suspects = {name for name in episodes if len(self._nodes[name]) > 1}
        if suspects:
            self._drop(suspects)
        elif episodes:
            self._cases.append(Case(worker, set(episodes)))
        return not episodes

    def end(self, episode: str, *, suspect: bool = False) -> list[W]:
        """Note the end of an episode; return the dead workers that now count against their nodes.

        Args:
            episode: name of the episode.
            suspect: whether it may have killed its workers, or nothing is known since it was cancelled.
        """
        if self._nodes.pop(episode, None) is None:
            return []
        if suspect:
            self._drop({episode})
        for case in self._cases:
            case.waiting.discard(episode)
        judged = [case.worker for case in self._cases if not case.waiting]
        self._cases = [case for case in self._cases if case.waiting]
        return judged

    def _drop(self, suspects: set[str]) -> None:
        self._cases = [case for case in self._cases if not case.waiting & suspects]
