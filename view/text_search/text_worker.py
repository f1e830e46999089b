"""A process that decodes the texts of parts; ``background_index`` starts it and asks."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from .part_texts import read_texts


def main() -> None:
    """Answer each path on standard input with the texts of that part, until the input ends.

    An answer is a line of JSON, then the texts themselves. Its ``ends`` is ``null`` for a part that cannot be read.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the viewer, and its end is the end of the input
    with suppress(BrokenPipeError):
        _answer(sys.stdin.buffer, sys.stdout.buffer)


def _answer(asked: IO[bytes], answers: IO[bytes]) -> None:
    for line in asked:
        ends: list[int] | None = None
        data = b""
        with suppress(Exception):  # no part ends the work on others; the search names it and what is wrong with it
            texts = read_texts(Path(os.fsdecode(bytes.fromhex(line.decode()))))
            ends, data = list(texts.ends), texts.data
        answers.write(json.dumps({"ends": ends}, separators=(",", ":")).encode() + b"\n" + data)
        answers.flush()
