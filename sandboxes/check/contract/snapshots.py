"""The contract of snapshots and forks."""

from __future__ import annotations

import time

from ....verdicts import expect
from ...sandbox import Sandbox
from ..case import Case
from ..harness import Harness, works

MAKE = (
    "mkdir -p d/empty; printf 12345 > d/file; chmod 755 d/file; ln -s d/file link; ln -s /nowhere broken; printf '' > e"
)
LOOK = "find . | LC_ALL=C sort; cat link; test -x d/file && echo runs; readlink broken"


async def look(sandbox: Sandbox) -> str:
    """Return what ``MAKE`` made, as found in the sandbox."""
    return (await sandbox.exec(LOOK)).stdout.text


async def snapshots_fill_other_sandboxes(harness: Harness) -> str:
    """A snapshot gives another sandbox the same files, modes, links and empty directories."""
    async with harness.sandbox() as first:
        await first.exec(MAKE)
        snapshot, wanted = await first.snapshot(), await look(first)
        await first.exec("echo later > e")
        async with harness.sandbox(start=snapshot, files={"added": b"1", "e": b"replaced"}) as second:
            expect(await second.read_file("e") == b"replaced", "files do not come after those of the snapshot")
            await second.remove(["added"])
            got = await look(second)
            expect(got == wanted, f"the other sandbox has {got!r}, not {wanted!r}")
            await second.exec("echo changed > d/file")
        expect(await first.read_file("d/file") == b"12345", "what the other sandbox does is seen in the first")
    return f"a file, its mode, two links and an empty directory in {len(snapshot.archive)} bytes"


async def equal_directories_have_equal_digests(harness: Harness) -> str:
    """Equal directories have equal digests, however, when and in which order they were made; others have others."""
    async with harness.sandbox() as one, harness.sandbox() as other:
        await one.exec(MAKE)
        await other.exec(f"touch -d 2001-01-01 e x; {MAKE}; rm x; touch -d 2002-02-02 d/file d")
        first, second = await one.snapshot(), await other.snapshot()
        expect(first.archive == second.archive, "equal directories have other archives")
        expect(first.digest == second.digest, "equal archives have other digests")
        digests = {first.digest}
        for change in ("printf 12346 > d/file", "chmod 644 d/file", "ln -sf e link", "mkdir new", "mv e f"):
            await one.exec(change)
            digests.add((await one.snapshot()).digest)
        expect(len(digests) == 6, f"6 different directories have {len(digests)} digests")
    return "the same in two sandboxes in another order and at other times; five changes, five other digests"


async def forks_have_the_same_files(harness: Harness) -> str:
    """A fork has the spec and the files of its parent, an own name, and works on when the parent is destroyed."""
    async with harness.sandbox(env={"SPECIAL": "kept"}) as parent:
        await parent.exec(MAKE)
        wanted = await look(parent)
        began = time.perf_counter()
        forks = await harness.fork(parent, 3)
        seconds = time.perf_counter() - began
        expect(len({fork.id for fork in (*forks, parent)}) == 4, "forks have the name of another sandbox")
    for fork in forks:
        expect(fork.spec == parent.spec, "a fork has another spec")
        expect(await look(fork) == wanted, f"a fork has other files: {await look(fork)!r}")
        expect((await fork.exec("echo $SPECIAL")).stdout.text == "kept\n", "a fork lacks the spec's environment")
    await forks[0].destroy()
    await works(forks[1])
    return f"three in {1000 * seconds:.0f} ms, which outlived their parent and each other"


SNAPSHOT_CASES = (
    Case(151, snapshots_fill_other_sandboxes),
    Case(152, equal_directories_have_equal_digests),
    Case(153, forks_have_the_same_files),
)
"""Cases about snapshots and forks."""
