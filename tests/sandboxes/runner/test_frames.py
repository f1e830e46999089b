"""Every output of a sandbox is either a message or refused; nothing else happens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import SandboxError
from turnwise.sandboxes.runner.frames import PIECE, Frames, Kind, fields_of, message, number_in, seconds_in
from turnwise.sandboxes.runner.turnwise_runner.wire import Incoming, packed, unpacked

NUMBERS = st.integers(0, 2**32 - 1)
FIELDS = st.lists(st.binary(max_size=200), max_size=8)


@given(NUMBERS, FIELDS, st.integers(1, 50))
def test_the_runner_reads_what_the_host_sends_however_it_is_cut(number: int, fields: list[bytes], step: int) -> None:
    sent, incoming, read = message(number, fields), Incoming(), list[tuple[int, list[bytes]]]()
    for at in range(0, len(sent), step):
        read += incoming.feed(sent[at : at + step])
    assert read == [(number, fields)]


def test_a_message_larger_than_a_frame_arrives_whole() -> None:
    fields = [b"verb", bytes(range(256)) * 4 * (PIECE // 512)]
    assert Incoming().feed(message(7, fields)) == [(7, fields)]


def test_pieces_of_two_messages_may_alternate() -> None:
    size = PIECE + 9
    first, second = message(1, [b"a" * size]), message(2, [b"b" * size])
    woven = first[:size] + second[:size] + first[size:] + second[size:]
    assert Incoming().feed(woven) == [(1, [b"a" * size]), (2, [b"b" * size])]


@given(st.lists(st.tuples(NUMBERS, st.binary(max_size=100)), max_size=5), st.integers(1, 30))
def test_the_host_reads_frames_however_they_are_cut(frames: list[tuple[int, bytes]], step: int) -> None:
    sent = b"".join(len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + b"\0" + body for number, body in frames)
    reader, read = Frames(), list[tuple[int, bytes]]()
    for at in range(0, len(sent), step):
        read += [(frame.number, frame.body) for frame in reader.feed(sent[at : at + step])]
    assert read == frames
    assert not reader.torn


@given(st.binary(max_size=200), st.integers(1, 40))
def test_arbitrary_bytes_are_frames_or_refused(noise: bytes, step: int) -> None:
    reader = Frames()
    try:
        for at in range(0, len(noise), step):
            for frame in reader.feed(noise[at : at + step]):
                assert len(frame.body) <= PIECE
                assert frame.kind in Kind
    except SandboxError:
        return
    assert len(noise) < 9 or noise[8] <= 2, "a frame of no known kind must be refused"


@pytest.mark.parametrize("size", [PIECE + 1, 2**32 - 1])
def test_no_length_makes_the_host_wait_for_more_than_a_piece(size: int) -> None:
    with pytest.raises(SandboxError, match="not a message of the runner"):
        list(Frames().feed(size.to_bytes(4, "big") + b"\0\0\0\1\0"))


@given(FIELDS)
def test_fields_come_back(fields: list[bytes]) -> None:
    assert fields_of(packed(fields)) == fields == unpacked(packed(fields))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_fields_or_refused(noise: bytes) -> None:
    try:
        fields = fields_of(noise)
    except SandboxError:
        return
    assert packed(fields) == noise, "fields that are accepted must be all that was sent"


def test_an_answer_with_other_fields_than_it_must_have_is_refused() -> None:
    with pytest.raises(SandboxError, match="3 fields instead of 2"):
        fields_of(packed([b"a", b"b", b"c"]), 2)


@pytest.mark.parametrize("text", [b"", b"-1", b"1e9", b" 1", b"\xc2\xb2", b"9" * 20, b"nan"])
def test_only_natural_numbers_are_numbers(text: bytes) -> None:
    with pytest.raises(SandboxError, match="in place of a number"):
        number_in(text)


@given(st.floats(0, 1e6))
def test_times_come_back(seconds: float) -> None:
    assert seconds_in(b"%.6f" % seconds) == pytest.approx(seconds, abs=1e-6)
