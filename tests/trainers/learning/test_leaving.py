"""Processes that have ended well leave together, and do not wait for one that was killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from turnwise.trainers.learning.parallel import FAREWELL, process_group

from ..small import FORKS, meeting_port


def leave(rank: int, number: int, folder: str, how: str) -> None:
    """Meet the other process and leave; process 1 is late, or never leaves."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(number), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    with process_group() as processes:
        processes.broadcast("hello")
        if rank == 1:
            time.sleep(1.5)
            Path(folder, "late").touch()
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "failed":
                raise SystemExit(3)
    Path(folder, f"{rank} left {'after' if Path(folder, 'late').exists() else 'before'}").touch()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "codes"), [("late", [0, 0]), ("failed", [0, 3]), ("killed", [0, -signal.SIGKILL])])
def test_a_process_waits_for_the_others_if_they_come(
    tmp_path: Path, how: str, codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))  # where the processes find this module
    number = meeting_port()
    pair = [FORKS.Process(target=leave, args=(rank, number, str(tmp_path), how)) for rank in range(2)]
    for each in pair:
        each.start()
    try:
        for each in pair:
            each.join(timeout=120)
        assert [each.exitcode for each in pair] == codes
        left, late = (tmp_path / "0 left after").stat(), (tmp_path / "late").stat()
        assert left.st_mtime - late.st_mtime < FAREWELL.total_seconds() / 2, "it waited for a process that had ended"
    finally:
        for each in pair:
            each.kill()
            each.join()
