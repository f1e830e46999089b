"""Parser of files with the user's own questions, with error messages that name the line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..rng import unit_hash
from ..spec import Split
from .matching import normalised
from .task import Lookup

SHARES = ((Split.TRAIN, 0.8), (Split.DEV, 0.9), (Split.TEST_IID, 1.0))
"""Upper bounds of the splits for the hash of a question without a split."""
FORM = '{"question": …, "answers": […], "evidence": [[page, …], …]}'
ANSWERS = ("answers", "golden_answers", "answer")
KEYS = ("question", *ANSWERS, "evidence", "passages", "lookups", "split", "id", "metadata")
"""Keys that a line may have; published files contain the last two, which are ignored."""


@dataclass(frozen=True)
class Question:
    """A line of the file.

    Args:
        question: the question as the agent reads it.
        answers: every accepted spelling.
        evidence: for each fact, the ids of the pages that state it. If it is empty, a right answer is enough, even a
            guessed one.
        passages: pairs of a page id and its relevant words; reading those words counts as reading the page.
        lookups: the searches that find the evidence, for demonstrations; omitted, a search for the question.
        split: split that the line names, or one drawn by a hash of the question.
        line: line number in the file.
    """

    question: str
    answers: tuple[str, ...]
    evidence: tuple[tuple[str, ...], ...]
    passages: tuple[tuple[str, str], ...]
    lookups: tuple[Lookup, ...]
    split: Split
    line: int


def lines_of(path: Path, what: str, form: str) -> list[str]:
    """Return the lines of a file, with or without a byte order mark.

    Args:
        path: path of the file.
        what: kind of content, for error messages.
        form: expected form of a line, for error messages.

    Raises:
        UsageError: the file cannot be read, or is empty.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the {what} {path}: {error}; every line must be {form}") from None
    if not any(map(str.strip, lines)):
        raise UsageError(f"{path} is empty; write {form} in every line")
    return lines[:-1] if not lines[-1].strip() else lines


def parsed(text: str) -> Any:
    """Return the JSON value of a line.

    Raises:
        ValueError: it is not JSON, or contains a lone surrogate, which cannot be shown or stored.
        RecursionError: it is nested too deeply.
    """
    data = json.loads(text)
    if "\\u" in text:
        json.dumps(data, ensure_ascii=False).encode()
    return data


def read(path: Path) -> tuple[Question, ...]:
    """Read the questions of a file.

    Raises:
        UsageError: the file does not exist, or a line is invalid.
    """
    lines = lines_of(path, "questions", FORM)
    return tuple(_line(text, f"{path}:{n}", n) for n, text in enumerate(lines, 1) if text.strip())


def _line(text: str, where: str, number: int) -> Question:
    data = _object(text, where)
    answers = next((data[key] for key in ANSWERS if key in data), None)
    answers = [answers] if isinstance(answers, str) else answers
    if not isinstance(answers, list) or not answers or not all(map(_is_text, answers)):
        raise UsageError(f"{where} has no answers that are strings; write {FORM}")
    if not any(map(normalised, answers)):
        raise UsageError(f"{where}: nothing is left of the answers {answers!r:.80} without articles and punctuation")
    split = data.get("split")
    if split is not None and split not in list(Split):
        raise UsageError(f"{where} names the split {split!r}; choose from {', '.join(Split)}")
    evidence, passages = _evidence(data.get("evidence", []), where), _passages(data.get("passages", {}), where)
    for page, _ in passages:
        if all(page not in fact for fact in evidence):
            raise UsageError(f"{where} has a passage of page {page!r}, which is not in its evidence; add it")
    drawn = unit_hash("own questions", data["question"])
    return Question(
        data["question"],
        tuple(answers),
        evidence,
        passages,
        _lookups(data.get("lookups", []), where),
        Split(split) if split is not None else next(part for part, upto in SHARES if drawn < upto),
        number,
    )


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        data = parsed(text)
    except UnicodeEncodeError as error:
        raise UsageError(f"{where} has a lone surrogate ({error}); write the whole character, or remove it") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error}); write {FORM}") from None
    if not isinstance(data, dict) or not _is_text(data.get("question")):
        raise UsageError(f"{where} has no question; write {FORM}")
    for key in data:
        if key not in KEYS:
            near = get_close_matches(key, KEYS, n=1, cutoff=0.0)[0]
            raise UsageError(f"{where} has the unknown field {key!r:.80}; the nearest is {near!r}")
    return data


def _evidence(data: Any, where: str) -> tuple[tuple[str, ...], ...]:
    facts = [[one] if isinstance(one, str) else one for one in data] if isinstance(data, list) else None
    if facts is None or not all(isinstance(one, list) and one and all(map(_is_text, one)) for one in facts):
        raise UsageError(f"{where}: evidence must be a list, with a list of page ids for every fact; got {data!r:.80}")
    return tuple(tuple(one) for one in facts)


def _passages(data: Any, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(data, Mapping) or not all(map(_is_text, data.values())):
        raise UsageError(f"{where}: passages must be an object that maps page ids to texts; got {data!r:.80}")
    return tuple(data.items())


def _lookups(data: Any, where: str) -> tuple[Lookup, ...]:
    pairs: list[Any] = data if isinstance(data, list) else [None]
    if not all(isinstance(one, list) and len(one) == 2 and all(map(_is_text, one)) for one in pairs):
        raise UsageError(f"{where}: lookups must be a list of pairs of a query and a page id; got {data!r:.80}")
    return tuple(Lookup(query, page) for query, page in pairs)


def _is_text(one: object) -> bool:
    return isinstance(one, str) and bool(one.strip())
