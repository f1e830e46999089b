"""Cost of a step to learning processes that follow another: memory and seconds of a broadcast.

    python benchmarks/broadcast_memory.py --episodes 64 --turns 20 --tokens 8192

Two processes meet over gloo. Process 0 has played episodes with a growing context. ``episodes`` sends them as pickled
records, as runs did until November 2026; ``rows`` sends the packed rows as the learner's calls do now. Each line has
the memory of process 1 (resident, above that before the broadcast): what it keeps, and the most that it had.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import time
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from turnwise import Action, Episode, Outcome, Score, TaskSpec, Turn
from turnwise.envs.messages import Observation
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.parallel import process_group
from turnwise.trainers.learning.rows import pack

MIB = 1 << 20
VOCABULARY = 150_000
Way = Literal["episodes", "rows"]
WAYS: tuple[Way, ...] = ("episodes", "rows")


def played(episodes: int, turns: int, tokens: int) -> list[Episode]:
    """Episodes of ``tokens`` tokens each, half of them sampled, in turns that read all that came before."""
    each = tokens // (2 * turns)
    generator = torch.Generator().manual_seed(0)
    found = []
    for number in range(episodes):
        ids = torch.randint(1000, VOCABULARY, (2 * turns * each,), generator=generator).tolist()
        said = [
            Turn(
                Observation.of("o"),
                Action("a"),
                0.0,
                prompt_ids=tuple(ids[: (2 * turn + 1) * each]),
                action_ids=tuple(ids[(2 * turn + 1) * each : (2 * turn + 2) * each]),
                logprobs=tuple((-torch.rand(each, generator=generator, dtype=torch.float64)).tolist()),
                versions=(number,) * each,
            )
            for turn in range(turns)
        ]
        found.append(
            Episode(
                episode_id=f"e-{number}",
                env_id="test/Fake-v0",
                task=TaskSpec("fake"),
                group_id=f"g{number // 4}",
                turns=tuple(said),
                outcome=Outcome.COMPLETED,
                score=Score(True),
            )
        )
    return found


def resident(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Return the memory of this process now, or the most since the peak was reset, in MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in status if line.startswith(field)).split()[1]) / 1024


def measure(rank: int, size: int, port: int, way: Way, shape: tuple[int, int, int], out: str) -> None:
    """Run one process: send in process 0, measure in process 1."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ["WORLD_SIZE"] = str(size)
    torch.set_num_threads(1)
    with process_group() as world:
        sent: Any = None
        if world.is_main:
            episodes = played(*shape)
            sent = grouped(episodes) if way == "episodes" else pack(episodes)
        world.broadcast(torch.ones(1 << 15))  # buffers of the transport
        dist.barrier()
        gc.collect()
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        began = time.perf_counter()
        if way == "episodes":
            heard = [sent]
            dist.broadcast_object_list(heard, src=0)
        else:
            heard = [world.broadcast(sent)]
        seconds = time.perf_counter() - began
        gc.collect()
        if rank == 1:
            found = {
                "way": way,
                "kept_mib": round(resident("VmRSS") - before, 1),
                "peak_mib": round(resident("VmHWM") - before, 1),
                "seconds": round(seconds, 2),
            }
            if way == "rows":
                found["rows_mib"] = round(sum(column.nbytes for column in heard[0].columns().values()) / MIB, 1)
            Path(out).write_text(json.dumps(found))


def main() -> None:
    """Measure both ways, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=8192)
    given = parser.parse_args()
    for way in WAYS:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        out = Path(f"/tmp/broadcast-{os.getpid()}.json")
        shape = (given.episodes, given.turns, given.tokens)
        start_processes(measure, (2, port, way, shape, str(out)), nprocs=2, start_method="spawn")  # type: ignore[no-untyped-call]
        print(out.read_text(), flush=True)
        out.unlink()


if __name__ == "__main__":
    main()
