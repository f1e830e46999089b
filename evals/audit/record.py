"""The common record of an audit: everything that a format knows about an episode, and ``None`` for the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic


@dataclass(frozen=True, slots=True)
class Tokens:
    """How the turns of one episode continue one another's token ids.

    Args:
        continued: number of turns whose prompt starts with the prompt and completion of the turn before.
        rewritten: number of turns whose prompt does not.
        retokenized: number of rewritten turns with the same messages, so that their text was tokenized again.
    """

    continued: int = 0
    rewritten: int = 0
    retokenized: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that a log records about one episode.

    Args:
        id: name of the episode in its log.
        outcome: outcome in one word, in the format's terms.
        task: name of the task, equal for all attempts at it.
        value: reward or score; ``None`` if the episode has none.
        success: whether the task was solved, where that is more than a positive score.
        failure: kind of failure; ``None`` if the episode came to an end.
        by_policy: whether the policy caused the failure, so that a score of zero is right.
        unscorable: whether the format forbids a score of any value after this failure.
        seconds: wall time.
        turns: number of the agent's turns.
        level: level of the task.
        parent: id of the episode that this one left by a fork.
        episode: id of the episode of which this record is a part, e.g. one agent's trace.
        incomplete: what part of the record is missing, in words.
        content: digest of actions and times, which two different episodes never share.
        tokens: continuity of token ids; ``None`` if the log has no ids.
    """

    id: str
    outcome: str
    task: str | None = None
    value: float | None = None
    success: bool | None = None
    failure: str | None = None
    by_policy: bool = False
    unscorable: bool = False
    seconds: float | None = None
    turns: int | None = None
    level: int | None = None
    parent: str | None = None
    episode: str | None = None
    incomplete: str | None = None
    content: bytes | None = None
    tokens: Tokens | None = None

    @property
    def solved(self) -> bool:
        """Whether a scored episode succeeded."""
        return self.success if self.success is not None else (self.value or 0.0) > 0

    @property
    def left_out(self) -> bool:
        """Whether the episode says nothing about the policy: without a score, or failed for other reasons."""
        return self.value is None or (self.failure is not None and not self.by_policy)


@dataclass(slots=True)
class Log:
    """One log of a run.

    Args:
        path: file or folder of the log.
        format: name of its format.
        records: its episodes, read while they are iterated.
        unreadable: one line for each file or line that could not be read; complete after the iteration.
        expected: number of episodes that a summary counts.
        attempts: number of attempts that the run plans per task.
        tasks: names of all planned tasks; ``None`` if the log does not list them.
        selected: largest number of tasks that the run selects, where it does not list them.
        even: whether tasks normally have equally many attempts, so that a smaller number is worth a note.
        context: context strategy of the run, if it is known and rewrites the history, such as ``last:1``.
    """

    path: Path
    format: str
    records: Iterable[Record]
    unreadable: list[str] = field(default_factory=list)
    expected: int | None = None
    attempts: int | None = None
    tasks: Sequence[str] | None = None
    selected: int | None = None
    even: bool = True
    context: str = ""


def continuity(turns: Iterable[tuple[str, Sequence[int], Sequence[int]]]) -> Tokens | None:
    """Compare the prompt of each turn with the tokens of the turn before.

    Args:
        turns: seat, prompt ids and completion ids of each turn; those without completion ids are skipped. Each seat
            has a conversation of its own.

    Returns:
        ``None`` if no turn has ids.
    """
    before: dict[str, list[int]] = {}
    continued = rewritten = 0
    for seat, prompt, completion in turns:
        if not completion or not prompt:
            continue
        if seat in before:
            kept = list(prompt[: len(before[seat])]) == before[seat]
            continued, rewritten = continued + kept, rewritten + (not kept)
        before[seat] = [*prompt, *completion]
    return Tokens(continued, rewritten) if before else None


def read_json(text: str | bytes, parse: Callable[[Any], Record | list[Record]]) -> list[Record] | str:
    """Parse one JSON value into records, or return in one line why that is impossible.

    Args:
        text: JSON in UTF-8.
        parse: turns the value into a record, or several.
    """
    try:
        found = parse(json.loads(text, parse_constant=float))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the value"
        return f"not of the format: {where}: {first['msg']}"
    except UnicodeDecodeError:
        return "not UTF-8"
    except json.JSONDecodeError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "nested too deeply"
    except (ValueError, OverflowError) as error:  # a number or a time that is too large, half of a character
        return f"not of the format: {error}"
    return found if isinstance(found, list) else [found]
