"""The engine's frames are taken apart whole, however they were cut on the way."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import SandboxError
from turnwise.sandboxes.docker.frames import STDERR, STDOUT, Demultiplexer

FRAMES = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40)), max_size=12)


def framed(stream: int, content: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


def streams(pieces: list[tuple[int, bytes]]) -> dict[int, bytes]:
    return {name: b"".join(piece for stream, piece in pieces if stream == name) for name in (STDOUT, STDERR)}


@given(frames=FRAMES, cuts=st.lists(st.integers(0, 600), max_size=20))
def test_streams_are_whole_however_they_were_cut(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    sent = b"".join(framed(stream, content) for stream, content in frames)
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    taken = Demultiplexer()
    pieces = [piece for start, end in pairwise(places) for piece in taken.feed(sent[start:end])]
    assert streams(pieces) == streams(frames)
    assert all(content for _, content in pieces), "nothing is passed on as a piece"


@given(before=FRAMES, header=st.binary(min_size=8, max_size=8).filter(lambda h: h[0] not in (1, 2, 3) or any(h[1:4])))
def test_what_is_no_frame_is_refused(before: list[tuple[int, bytes]], header: bytes) -> None:
    taken = Demultiplexer()
    list(taken.feed(b"".join(framed(stream, content) for stream, content in before)))
    with pytest.raises(SandboxError, match="an invalid frame"):
        list(taken.feed(header))


def test_a_huge_length_costs_nothing_and_contents_pass_before_the_frame_is_complete() -> None:
    taken = Demultiplexer()
    assert list(taken.feed(bytes([STDOUT, 0, 0, 0]) + b"\xff\xff\xff\xff" + b"some")) == [(STDOUT, b"some")]
    assert list(taken.feed(b"more")) == [(STDOUT, b"more")]
