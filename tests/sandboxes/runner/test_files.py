"""Files of a sandbox: whatever their names, depths and modes; no path leads where it should not."""

from __future__ import annotations

import pytest

from turnwise.errors import ToolError
from turnwise.sandboxes.result import FileInfo
from turnwise.sandboxes.sandbox import Sandbox
from turnwise.sandboxes.snapshot import Snapshot
from turnwise.sandboxes.spec import Limit, SandboxSpec
from turnwise.sandboxes.unconfined import UnconfinedBackend

ODD = "new\nline \udcff ' \"é"


async def test_files_come_back(trusted: Sandbox) -> None:
    files = {"a/b/c.txt": b"deep", "empty": b"", ODD: bytes(range(256)), "large": bytes(700_000)}
    await trusted.write_files(files)
    assert {path: await trusted.read_file(path) for path in files} == files
    await trusted.write_files({"large": b"now small"})
    assert await trusted.read_file("large") == b"now small"
    listed = {info.path: info for info in await trusted.list_files()}
    assert listed[ODD] == FileInfo(ODD, "file", 256, 0o644)
    assert [info.path for info in await trusted.list_files("a")] == ["b", "b/c.txt"]


async def test_an_executable_file_can_be_executed(trusted: Sandbox) -> None:
    await trusted.write_files({"run": b"#!/bin/sh\necho ran"}, executable=True)
    assert (await trusted.exec(["./run"])).stdout.text == "ran\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["../out", "a/../../out", "/etc/out", "/", "a\0b", "link/out", "dangling", "fifo", "", "."]
)
async def test_nothing_is_written_where_a_path_leads_astray(trusted: Sandbox, path: str) -> None:
    assert (await trusted.exec("ln -s /tmp link; ln -s /tmp/turnwise-no-such dangling; mkfifo fifo")).ok
    with pytest.raises(ToolError):
        await trusted.write_files({path: b"bad"})


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("missing", "there is no missing"),
        ("link", "symbolic link"),
        ("folder/passwd", "symbolic link"),
        ("fifo", "no regular file"),
        ("inside", "is a directory"),
        ("../x", "leads out"),
        ("sparse", "larger than"),
        ("/proc/self/environ/x", "no directory"),
        ("/dev/zero", "no regular file"),
    ],
)
async def test_only_regular_files_of_bounded_size_are_read(trusted: Sandbox, path: str, why: str) -> None:
    made = "ln -s /etc/passwd link; ln -s /etc folder; mkfifo fifo; mkdir inside; truncate -s 1T sparse"
    assert (await trusted.exec(made)).ok
    with pytest.raises(ToolError, match=why):
        await trusted.read_file(path)


async def test_a_file_may_be_just_as_large_as_the_limit(trusted: Sandbox) -> None:
    await trusted.write_files({"ten": b"0123456789"})
    assert await trusted.read_file("ten", limit=10) == b"0123456789"
    with pytest.raises(ToolError, match="larger than 9 bytes"):
        await trusted.read_file("ten", limit=9)
    with pytest.raises(ToolError, match="larger than 100 bytes"):
        await trusted.read_file("/proc/cpuinfo", limit=100)  # which says that it is empty


async def test_a_listing_does_not_follow_links_and_has_an_end(trusted: Sandbox) -> None:
    await trusted.exec("mkdir d; ln -s / d/root; mkfifo d/pipe; touch d/1 d/2; chmod 640 d/1")
    assert await trusted.list_files("d") == (
        FileInfo("1", "file", 0, 0o640),
        FileInfo("2", "file", 0, 0o644),
        FileInfo("pipe", "other", 0, 0o644),
        FileInfo("root", "link", 0, 0o777),
    )
    with pytest.raises(ToolError, match="more than 3 entries"):
        await trusted.list_files("d", limit=3)
    with pytest.raises(ToolError, match="symbolic link"):
        await trusted.list_files("d/root")


async def test_removing_does_not_follow_links_nor_leave_the_working_directory(trusted: Sandbox) -> None:
    await trusted.exec("mkdir kept; touch kept/f; ln -s kept link")
    await trusted.remove(["link"])
    assert await trusted.read_file("kept/f") == b""
    for path in ("../x", "/etc/passwd"):
        with pytest.raises(ToolError, match="leads out"):
            await trusted.remove([path])
    await trusted.remove(["."])
    assert await trusted.list_files() == ()


async def test_a_snapshot_holds_files_directories_and_links(trusted: Sandbox) -> None:
    await trusted.exec(
        "mkdir -p d/e; echo x > d/f; chmod 700 d/f; ln -s ../f d/l; mkfifo p; mkdir z; touch z/f; chmod 0 z/f z"
    )
    snapshot = await trusted.snapshot()
    before = await trusted.list_files()
    (forked,) = await trusted.fork(1)
    assert await forked.list_files() == tuple(info for info in before if info.path != "p"), (
        "a pipe holds nothing to keep"
    )
    assert await forked.snapshot() == snapshot, "equal directories have equal archives"
    await forked.write_files({"d/f": b"changed"})
    assert await trusted.read_file("d/f") == b"x\n"


async def test_a_snapshot_fills_a_new_sandbox_before_its_files_do() -> None:
    backend, spec = UnconfinedBackend(), SandboxSpec(relaxed=frozenset(Limit))
    async with await backend.create(spec, files={"a": b"1", "b": bytes(600_000)}) as first:
        snapshot = await first.snapshot()
    async with await backend.create(spec, start=snapshot, files={"a": b"2"}) as second:
        assert await second.read_file("a") == b"2"
        assert await second.read_file("b") == bytes(600_000)
    await backend.close()


async def test_a_snapshot_has_no_more_than_the_disk_may_hold(trusted: Sandbox) -> None:
    await trusted.exec("truncate -s 1T sparse")
    with pytest.raises(ToolError, match="more than a snapshot may"):
        await trusted.snapshot()


async def test_paths_that_are_too_long_for_an_answer_are_refused_in_words(trusted: Sandbox) -> None:
    deep = "import os\nfor _ in range(40):\n    os.mkdir('d' * 250); os.chdir('d' * 250)"
    assert (await trusted.exec(["python3", "-c", deep])).ok
    with pytest.raises(ToolError, match="too long to list"):
        await trusted.list_files(limit=40)
    assert len(await trusted.list_files()) == 40


async def test_an_archive_that_is_none_is_refused_and_leaves_no_sandbox() -> None:
    backend = UnconfinedBackend()
    with pytest.raises(ToolError, match="cannot be read"):
        await backend.create(SandboxSpec(relaxed=frozenset(Limit)), start=Snapshot(b"no tar" * 200))
    await backend.close()
