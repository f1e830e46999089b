"""Archives are canonical, and one that others have made cannot lead out."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import SandboxError, ToolError
from turnwise.sandboxes.runner.archives import Entry, archived, entries_of_answer, puts, unpacked
from turnwise.sandboxes.runner.frames import PIECE
from turnwise.sandboxes.runner.turnwise_runner.wire import packed
from turnwise.sandboxes.snapshot import Snapshot

NAMES = st.binary(min_size=1, max_size=300).filter(lambda name: name not in (b".", b"..") and not {0, 47} & set(name))
ENTRIES = st.dictionaries(NAMES, st.tuples(st.integers(0, 0o777), st.binary(max_size=50)), max_size=6)


@given(ENTRIES)
def test_what_is_archived_comes_back(files: dict[bytes, tuple[int, bytes]]) -> None:
    entries: list[Entry] = [(b"f", path, *files[path]) for path in sorted(files)]
    assert unpacked(archived(entries)) == entries


@given(ENTRIES)
def test_the_order_in_which_the_runner_sends_does_not_matter(files: dict[bytes, tuple[int, bytes]]) -> None:
    def sent(paths: list[bytes]) -> bytes:
        return packed([field for path in paths for field in (path, b"f", b"%d" % files[path][0], files[path][1])])

    forwards, backwards = sent(list(files)), sent(list(files)[::-1])
    assert archived(entries_of_answer(forwards)).digest == archived(entries_of_answer(backwards)).digest


@pytest.mark.parametrize("path", [b"/a", b"../a", b"a/../b", b"a//b", b"", b".", b"a\0b"])
def test_no_entry_of_the_runner_leads_out(path: bytes) -> None:
    with pytest.raises(SandboxError, match="an entry with the invalid name"):
        entries_of_answer(packed([path, b"f", b"420", b""]))


@pytest.mark.parametrize(
    "fields",
    [[b"a"], [b"a", b"x", b"420", b""], [b"a", b"f", b"rw", b""], [b"a", b"f", b"1", b"", b"a", b"f", b"1", b""]],
    ids=["torn", "of no kind", "of no mode", "twice"],
)
def test_entries_that_are_none_are_refused(fields: list[bytes]) -> None:
    with pytest.raises(SandboxError):
        entries_of_answer(packed(fields))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../out", tarfile.REGTYPE),
        ("/etc/out", tarfile.REGTYPE),
        ("hard", tarfile.LNKTYPE),
        ("device", tarfile.CHRTYPE),
        ("pipe", tarfile.FIFOTYPE),
    ],
)
def test_an_archive_that_leads_out_is_refused(name: str, kind: bytes) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "target"
        archive.addfile(info)
    with pytest.raises(ToolError):
        unpacked(Snapshot(held.getvalue()))


def test_large_files_are_put_piece_by_piece_and_directories_get_their_modes_last() -> None:
    content = bytes(2 * PIECE + 5)
    requests = list(puts([(b"d", b"d", 0o500, b""), (b"f", b"d/f", 0o400, content)]))
    assert all(sum(map(len, request)) < 2 * PIECE for request in requests)
    put = [request[at : at + 4] for request in requests for at in range(1, len(request), 4)]
    assert b"".join(entry[3] for entry in put) == content
    assert [(kind, int(mode)) for kind, _, mode, _ in put] == [
        (b"d", 0o700),
        (b"f", 0o700),
        (b"a", 0o700),
        (b"a", 0o400),
        (b"m", 0o500),
    ]
