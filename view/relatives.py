"""Episodes that belong together: the tree of forks, and the attempts of a group with their first divergence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import compute

from ..rollouts.columns import text_in
from ..rollouts.episode import Episode
from .episode import load_all, place_of, said
from .episode_index import Snapshot

MEMBERS = 16
"""Most members of a group that are compared side by side."""
SHORT = 400
"""Most characters of an action in the comparison."""
LARGEST_TREE = 500
"""Most episodes of a tree that are returned."""


def tree(snapshot: Snapshot, episode_id: str) -> list[dict[str, Any]]:
    """Return the forks around an episode, each with its parent and the turn at which it left it.

    Parents come before their forks. The list is empty if the episode neither is a fork nor has forks.

    Args:
        snapshot: the store's episodes.
        episode_id: id of an episode.
    """
    table = snapshot.table
    forked = table.filter(compute.is_valid(table["parent"]))
    columns = {name: forked[name].to_pylist() for name in ("episode_id", "parent", "fork_turn")}
    parents = {text_in(id): (text_in(up), turn) for id, up, turn in zip(*columns.values(), strict=True)}
    children: dict[str, list[str]] = {}
    for id, (up, _) in parents.items():
        children.setdefault(up, []).append(id)
    root, seen = episode_id, {episode_id}
    while root in parents and parents[root][0] not in seen:  # a damaged store may have a cycle
        root = parents[root][0]
        seen.add(root)
    if root not in children:
        return []
    ordered, queue = list[str](), [root]
    while queue and len(ordered) < LARGEST_TREE:
        id = queue.pop(0)
        if id not in ordered:
            ordered.append(id)
            queue += children.get(id, [])
    about = _about(snapshot, ordered)
    return [
        {"id": id, "parent": parents[id][0] if id in parents else None, "turn": parents[id][1] if id in parents else 0}
        | about.get(id, {"missing": True})
        for id in ordered
    ]


def _about(snapshot: Snapshot, ids: list[str]) -> dict[str, dict[str, Any]]:
    columns = ["episode_id", "outcome", "success", "total_reward", "turns"]
    wanted = compute.is_in(snapshot.table["episode_id"], value_set=pa.array(ids, pa.string()))
    return {row.pop("episode_id"): row for row in snapshot.table.select(columns).filter(wanted).to_pylist()}


def group(snapshot: Snapshot, group_id: str, first: str = "") -> dict[str, Any]:
    """Return the members of a group turn by turn, and the first turn in which not all did the same.

    Args:
        snapshot: the store's episodes.
        group_id: id of the group.
        first: id of the member to show first; empty for the order of writing.
    """
    table = snapshot.table
    ids = [text_in(id) for id in table["episode_id"].filter(compute.equal(table["group_id"], group_id)).to_pylist()]
    ids.sort(key=lambda id: id != first)
    places = [place for id in ids[:MEMBERS] if (place := place_of(snapshot, id)) is not None]
    members = load_all(places)
    return {
        "group_id": group_id,
        "count": len(ids),
        "divergence": divergence(members),
        "members": [_member(member) for member in members],
    }


def divergence(members: list[Episode]) -> int | None:
    """Return the first turn in which scored members act differently, or one has ended; ``None`` if none differs."""
    members = [member for member in members if member.scored]
    if len(members) < 2:
        return None
    for turn in range(max(len(member.turns) for member in members)):
        if len({said(member.turns[turn].action) if turn < len(member.turns) else None for member in members}) > 1:
            return turn
    return None


def _member(episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.episode_id,
        "outcome": episode.outcome,
        "success": episode.success if episode.scored else None,
        "total_reward": episode.total_reward if episode.scored else None,
        "turns": [{"text": said(turn.action)[:SHORT], "reward": turn.reward} for turn in episode.turns],
    }
