"""A process that owns sandboxes and is killed while it makes and uses them; started by the cases about owners.

Argument: JSON with the address of the backend, the spec of its sandboxes, and what it does: ``start`` only makes one
after the other; ``work`` uses several. It prints ``making`` before each, and its name afterwards.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from ..backend import Backend
from ..spec import SandboxSpec
from .address import backend_at

WORK = "echo x > file; (setsid sleep 600 &); i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done"


async def start(backend: Backend, spec: SandboxSpec) -> None:
    """Make sandboxes one after the other."""
    while True:
        say("making")
        say((await backend.create(spec)).id)


async def work(backend: Backend, spec: SandboxSpec) -> None:
    """Make and use some, over and over."""

    async def life() -> None:
        while True:
            say("making")
            async with await backend.create(spec, files={"given": b"1"}) as sandbox:
                say(sandbox.id)
                session = await sandbox.session()
                await session.run("sleep 600 & true")
                await sandbox.exec(WORK, timeout=0.4)
                await sandbox.fork(1)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(life())


def say(word: str) -> None:
    """Tell the process that will kill this one."""
    print(word, flush=True)


def main() -> None:
    """Do what the argument says."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    spec = SandboxSpec.model_validate(request["spec"])
    does = {"start": start, "work": work}[request["does"]]
    asyncio.run(does(backend_at(request["backend"]), spec))


if __name__ == "__main__":
    main()
