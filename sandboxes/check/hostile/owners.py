"""The process that owns sandboxes: killed, canceled, without its threads; and one that asks for too much."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import sys
import threading
from collections import Counter
from typing import Any

from ....errors import SandboxError, SandboxUnavailableError
from ....verdicts import Failed, expect
from ...backend import Reaped
from ...sandbox import Sandbox
from ...spec import Limit
from ..address import address_of
from ..case import Case, hostile
from ..harness import Harness, held_as, reap_all, soon, works


async def owner_killed_at_the_start(harness: Harness) -> str:
    """An owner that is killed while a sandbox starts leaves nothing that reaping does not remove."""
    return await _killed(harness, "start", most=0.06)


async def owner_killed_at_work(harness: Harness) -> str:
    """An owner that is killed while it uses sandboxes leaves nothing that reaping does not remove."""
    return await _killed(harness, "work", most=1.5)


async def _killed(harness: Harness, does: str, most: float) -> str:
    address, removed = address_of(harness.backend), Counter[str]()
    for _ in range(harness.kills):
        mark = f"mark-{secrets.token_hex(12)}"
        spec = harness.spec(mark=mark, env={}).model_dump(mode="json")
        names = await _owner({"backend": address, "spec": spec, "does": does}, random.uniform(0, most))
        reaped: Reaped = (await soon(harness.backend.reap(), "reaping", 60.0))[0]
        removed.update(sandboxes=reaped.sandboxes, processes=reaped.processes, directories=reaped.directories)
        left = harness.host.remains([mark, *names])
        expect(not left, f"after reaping there is left: {'; '.join(left[:5])}")
    again = await reap_all(harness.backend)
    expect(not any((again.sandboxes, again.directories)), f"reaping again still finds something: {again}")
    kinds = ", ".join(f"{number} {what}" for what, number in removed.items())
    return f"{harness.kills} kills at random moments; reaped {kinds}; nothing left"


async def _owner(request: dict[str, Any], seconds: float) -> list[str]:
    """Start an owner, kill it some time after it began to make its first sandbox, and return the names it gave."""
    paths = os.pathsep.join(filter(None, sys.path))
    module = __name__.removesuffix("hostile.owners") + "controller"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, json.dumps(request),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths}, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60.0):
            first = await process.stdout.readline()
        if first != b"making\n":
            raise Failed(f"an owner in another process failed: {(await process.stderr.read()).decode()[-300:]}")
        await asyncio.sleep(seconds)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
    async with asyncio.timeout(30.0):
        said, errors = await process.communicate()
    if process.returncode != -signal.SIGKILL:
        raise Failed(f"an owner in another process failed: {errors.decode()[-300:]}")
    return [word for word in said.decode().split() if word != "making"]


async def thread_that_made_it_ends(harness: Harness) -> str:
    """A sandbox goes on when the thread that made it ends."""
    made = list[Sandbox]()

    def thread() -> None:
        made.append(asyncio.run(harness.create()))

    maker = threading.Thread(target=thread)
    maker.start()
    await asyncio.to_thread(maker.join)
    expect(made, "no sandbox could be made in a thread")
    await asyncio.sleep(0.5)
    await works(made[0])
    return "half a second after its thread had ended it ran a command"


async def cancelled_clients(harness: Harness) -> str:
    """A caller that is canceled while a sandbox is made, forked or destroyed leaves nothing behind."""
    came = 0
    mark = f"mark-{secrets.token_hex(12)}"
    for _ in range(12):
        task = asyncio.create_task(harness.create(harness.spec(mark=mark)))
        await asyncio.sleep(random.uniform(0, 0.03))
        came += not await _cancelled(task)
    await harness.clear()
    parent = await harness.create(harness.spec(mark=mark))
    fork = asyncio.create_task(harness.fork(parent, 3))
    await asyncio.sleep(0.01)
    await _cancelled(fork)
    end = asyncio.create_task(parent.destroy())
    await asyncio.sleep(0)
    await _cancelled(end)
    await harness.clear()
    left = harness.host.remains([mark])
    expect(not left, f"what nobody waits for any more is still there: {'; '.join(left[:5])}")
    return f"12 creations cancelled within 30 ms ({came} were faster), a fork and a destruction: nothing left"


async def _cancelled(task: asyncio.Task[Any]) -> bool:
    """Cancel a task; return whether it was still running."""
    task.cancel()
    try:
        async with asyncio.timeout(30.0):
            await task
        return False
    except asyncio.CancelledError:
        return True
    except SandboxError:
        return True
    except TimeoutError:
        raise Failed("a cancelled call continues for more than 30 s") from None


async def limits_that_do_not_hold(harness: Harness) -> str:
    """Every limit is declared, and a sandbox is refused, with what to do, if one that does not hold is demanded."""
    silent = [str(limit) for limit in Limit if limit not in harness.found.limits]
    expect(not silent, f"the backend does not say how well these hold: {', '.join(silent)}")
    for limit in harness.absent:
        spec = harness.spec().model_copy(update={"relaxed": frozenset(harness.absent) - {limit}})
        try:
            sandbox = await harness.create(spec)
        except SandboxUnavailableError as error:
            expect(limit in str(error), f"it refuses without naming {limit}: {error}")
            continue
        raise Failed(
            f"{limit} is declared absent ({harness.absent[limit]}), but a sandbox with it was created: {sandbox.id}"
        )
    limits = ", ".join(f"{limit} {held_as(harness.found, limit)}" for limit in Limit)
    return f"{limits}; {len(harness.absent)} refusals"


OWNER_CASES = (
    hostile(38, owner_killed_at_the_start, seconds=1200),
    Case(39, thread_that_made_it_ends),
    Case(40, cancelled_clients, seconds=120),
    Case(41, owner_killed_at_work, seconds=1200),
    Case(46, limits_that_do_not_hold),
)
"""Cases about owners."""
