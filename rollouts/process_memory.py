"""Memory that processes occupy, each with the processes below it."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def occupied(pids: Iterable[int]) -> dict[int, int]:
    """Return the resident bytes of processes, each with all processes below it; those that have ended are left out.

    Memory that several processes share counts in each of them.
    """
    resident: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid", "memory_info"]):
        if process.info["memory_info"] is not None:  # of another user
            resident[process.pid] = process.info["memory_info"].rss
            below.setdefault(process.info["ppid"], []).append(process.pid)

    def total(pid: int) -> int:
        left, seen = [pid], set[int]()  # a number that is used again may make a circle
        while left:
            seen.add(each := left.pop())
            left += [one for one in below.get(each, ()) if one not in seen]
        return sum(resident[each] for each in seen)

    return {pid: total(pid) for pid in set(pids) if pid in resident}
