"""The behavior that users of ``run_length`` rely on."""

from __future__ import annotations

from .run_length import (
    CodingError,
    bits_to_lengths,
    decode,
    encode,
    lengths_to_bits,
    longest,
    pack_row,
    runs,
    saved,
    unpack_row,
)


def refused(code: str) -> str:
    """Return the decoded text, or the message of the error."""
    try:
        return "decoded: " + decode(code)
    except CodingError as error:
        return str(error)


def runs_of_equal_characters() -> object:
    return runs("aaabbca"), runs(""), runs("x")


def long_runs_are_encoded() -> object:
    return encode("aaaaab"), encode("bbbbbbbbbbbb"), encode("xyyyyz")


def short_runs_are_not_encoded() -> object:
    return encode("aaabb"), encode("abc"), encode("aaaa"), encode("")


def the_escape_is_always_encoded() -> object:
    return encode("a\\b"), encode("\\\\\\"), decode(encode("a\\b\\\\c"))


def codes_are_decoded() -> object:
    return decode("\\5;ab"), decode("x\\12;-y"), decode("plain"), decode("")


def semicolons_can_be_repeated() -> object:
    return decode("\\4;;"), encode(";;;;;"), decode(encode("a;;;;;;b;"))


def encoded_texts_are_decoded_to_the_same_texts() -> object:
    texts = ["aaaaaaaaaa", "abababab", "mississippi", "    indented", "111122223", "\\4;x"]
    return [decode(encode(text)) == text for text in texts], [len(encode(text)) for text in texts]


def incomplete_runs_are_refused() -> object:
    return refused("ab\\5"), refused("\\5;"), refused("\\")


def invalid_counts_are_refused() -> object:
    return refused("\\x;a"), refused("\\0;a"), refused("\\;a"), refused("\\-1;a"), refused("\\1;a")


def encoding_saves_characters() -> object:
    return saved("a" * 10), saved("abc"), saved("\\"), saved("aaaa")


def bits_become_lengths() -> object:
    return bits_to_lengths("0001101"), bits_to_lengths("110"), bits_to_lengths("0"), bits_to_lengths("")


def lengths_become_the_same_bits() -> object:
    return [lengths_to_bits(bits_to_lengths(text)) for text in ("0001101", "1", "111000", "01")], lengths_to_bits([])


def other_characters_than_bits_are_refused() -> object:
    try:
        return bits_to_lengths("0120")
    except CodingError as error:
        return str(error)


def the_longest_run() -> object:
    return longest("aabbbcbbb"), longest("abc"), longest(""), longest("xyyyy")


def rows_of_pixels_are_packed() -> object:
    return pack_row([7, 7, 7, 1, 2, 3, 3]), pack_row([5]), pack_row([])


def rows_of_single_pixels_are_packed() -> object:
    return pack_row([1, 2, 3]), pack_row([9, 9])


def counts_have_a_limit() -> object:
    return pack_row([4] * 7, limit=3), pack_row([1, 2, 3, 4, 5], limit=2)


def packed_rows_are_unpacked_to_the_same_rows() -> object:
    rows = [[7, 7, 7, 1, 2, 3, 3], [1, 2, 3], [5, 5], [0] * 20 + [1] + [0] * 3, []]
    return [unpack_row(pack_row(row, limit=6)) == row for row in rows]


def packed_rows_are_unpacked() -> object:
    return unpack_row([3, 7, -2, 1, 2, 2, 9]), unpack_row([-1, 4]), unpack_row([])
