"""The contract of ``Output``: everything, or its beginning, its end and the number of missing bytes."""

from __future__ import annotations

from ....verdicts import expect
from ...result import Output
from ..case import Case
from ..harness import SMALL, Harness, ended, python

COUNTING = "import sys\nfor i in range(int(sys.argv[1])): print(f'{i:09d}', file=sys.stdout)"
"""Prints lines of ten bytes, each its number."""


async def long_output_keeps_both_ends(harness: Harness) -> str:
    """Of output beyond the limit the beginning and the end are kept, and what is missing is counted to the byte."""
    async with harness.sandbox() as sandbox:
        limit, written = int(SMALL["output"]), 300_000
        whole = await python(sandbox, COUNTING, limit // 10)
        expect(whole.stdout.dropped == 0 and whole.stdout.size == limit // 10 * 10, "output within the limit was cut")
        result = await python(sandbox, COUNTING, written // 10)
        expect(result.ok, f"the program ended with {ended(result)}")
        consistent(result.stdout, written, limit)
        expect(result.stderr == Output(), f"the other stream is {result.stderr}")
    return f"of {written} bytes, {len(result.stdout.head)} and {len(result.stdout.tail)} kept, the rest counted"


async def a_command_may_keep_less(harness: Harness) -> str:
    """A command's own output limit holds for each stream, and none is larger than the sandbox's."""
    async with harness.sandbox() as sandbox:
        both = f"{COUNTING}\nfor i in range(int(sys.argv[1])): print(f'{{i:09d}}', file=sys.stderr)"
        result = await python(sandbox, both, 5_000, output=1_000)
        consistent(result.stdout, 50_000, 1_000)
        consistent(result.stderr, 50_000, 1_000)
        more = await python(sandbox, COUNTING, 20_000, output=10 * int(SMALL["output"]))
        consistent(more.stdout, 200_000, int(SMALL["output"]))
        small = await sandbox.exec("printf abc", output=1_000)
        expect(small.stdout == Output(b"abc"), f"three bytes are {small.stdout}")
    return "1,000 of 50,000 bytes of each stream; asking for more than the sandbox's limit gives that"


async def what_was_dropped_is_said_in_text(harness: Harness) -> str:
    """Output as text says how many bytes are missing where they are missing."""
    async with harness.sandbox() as sandbox:
        result = await python(sandbox, COUNTING, 2_000, output=500)
        text, missing = result.stdout.text, result.stdout.dropped
        expect(missing > 0 and str(missing) in text, f"{missing} dropped bytes are not mentioned in {text[:100]!r}…")
        expect(text.startswith("000000000\n") and text.endswith("000001999\n"), "the ends are not those of the output")
    return f"the text says that {missing} bytes were dropped"


def consistent(output: Output, written: int, limit: int) -> None:
    """See that an output is both ends of what ``COUNTING`` wrote, and no more than the limit.

    Raises:
        Failed: it is not.
    """
    whole = b"".join(b"%09d\n" % i for i in range(written // 10))
    kept = len(output.head) + len(output.tail)
    expect(kept <= limit, f"{kept} bytes were kept, though the limit is {limit}")
    expect(kept >= limit // 2, f"only {kept} bytes were kept of a limit of {limit}")
    expect(
        output.size == written, f"{written} bytes were written; {kept} kept and {output.dropped} dropped do not add up"
    )
    expect(whole.startswith(output.head) and whole.endswith(output.tail), "what was kept is not both ends")
    expect(abs(len(output.head) - len(output.tail)) <= limit // 8, "the ends are not of about the same length")


OUTPUT_CASES = (
    Case(121, long_output_keeps_both_ends),
    Case(122, a_command_may_keep_less),
    Case(123, what_was_dropped_is_said_in_text),
)
"""Cases about output."""
