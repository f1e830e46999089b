"""The checks of an audit, written once over the records into which each format is parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...rollouts.episode import Episode
from ..formatting import by_number
from .bias import biases
from .findings import Finding, Unknown
from .record import Log, Record
from .store import record_of


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Args:
        outcomes: number of episodes by outcome; they add up to all records.
        findings: findings, faults first.
        unknown: checks that were not made, each with the reason.
        unreadable: one line for each file or line that could not be read.
    """

    outcomes: Mapping[str, int]
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no fault."""
        return not any(finding.fault for finding in self.findings)


@dataclass(slots=True)
class _Tally:
    """Everything that is counted in one pass over the records."""

    records: list[Record] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)
    first_of: dict[bytes, str] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)
    attempts: dict[str, set[str]] = field(default_factory=dict)


def audit(episodes: Iterable[Episode], expected: int | None = None, context: str = "") -> Audit:
    """Audit episodes of Turnwise, in one pass.

    Args:
        episodes: all records of a store.
        expected: number of episodes that a summary counts, if there is one.
        context: context strategy that rewrites the history: see ``context_of``.
    """
    records = (record_of(episode) for episode in episodes)
    return audit_log(Log(Path(), "turnwise", records, expected=expected, even=False, context=context))


def audit_log(log: Log) -> Audit:
    """Audit a log of any format, in one pass; only small records are kept in memory.

    Args:
        log: a log, whose records have not been read yet.
    """
    tally = _Tally()
    for record in log.records:
        _count(tally, record)
    checks = (_unreadable(log), _lost(tally, log), _duplicated(tally), _zeros(tally), _tokens(tally, log.context))
    found = [each for check in checks for each in check] + list(biases(tally.records))
    return Audit(
        dict(Counter(record.outcome for record in tally.records)),
        tuple(sorted((each for each in found if isinstance(each, Finding)), key=lambda finding: not finding.fault)),
        tuple(each for each in found if isinstance(each, Unknown)),
        tuple(log.unreadable),
    )


def _count(tally: _Tally, record: Record) -> None:
    known = record.id in tally.ids
    tally.ids[record.id] += 1
    tally.records.append(record)
    if record.task is not None:
        tally.attempts.setdefault(record.task, set()).add(record.episode or record.id)
    if record.content is not None and not known:
        first = tally.first_of.setdefault(record.content, record.id)
        if first != record.id:
            tally.copies.append(f"{record.id} = {first}")


def _unreadable(log: Log) -> Iterator[Finding]:
    if log.unreadable:
        count = len(log.unreadable)
        what, verb = by_number(count, "file or line", "files or lines"), by_number(count, "is", "are")
        text = f"{count} {what} could not be read, and {verb} not counted below"
        yield Finding.of("unreadable", text, (), True, "Every number that follows is of the rest.", count)


def _lost(tally: _Tally, log: Log) -> Iterator[Finding | Unknown]:
    present = len({record.episode or record.id for record in tally.records})
    if log.expected is not None and present < log.expected:
        lost = log.expected - present
        verb = by_number(lost, "is", "are")
        text = f"{lost} of {log.expected} episodes that the summary counts {verb} not in the store"
        meaning = "Resume the run, or restore its files: results are of the episodes that are left."
        yield Finding.of("lost", text, (), True, meaning, lost)
    if log.attempts is not None:
        yield from _short(tally, log.tasks, log.attempts)
    if log.selected is not None and len(tally.attempts) < log.selected:
        missing = log.selected - len(tally.attempts)
        verb = by_number(missing, "has", "have")
        text = f"the run selects up to {log.selected} tasks, and {missing} of them {verb} no episode"
        yield Finding.of("lost", text, (), False, "They are lost, unless there are no more tasks.", missing)
    if log.even and log.attempts is None and log.expected is None:
        yield from _uneven(tally)
    if orphans := [each.id for each in tally.records if each.parent is not None and each.parent not in tally.ids]:
        text = f"{len(orphans)} forked {by_number(len(orphans), 'episode has', 'episodes have')} no parent in the store"
        yield Finding.of("lost", text, orphans, True, "Their first turns belong to an episode that is gone.")
    if cut := [f"{each.id} ({each.incomplete})" for each in tally.records if each.incomplete]:
        text = f"{len(cut)} {by_number(len(cut), 'episode is', 'episodes are')} not complete"
        yield Finding.of("lost", text, cut, True, "What is missing cannot be counted, trained on or replayed.")


def _short(tally: _Tally, tasks: Sequence[str] | None, attempts: int) -> Iterator[Finding]:
    """Find tasks with fewer attempts than planned."""
    counts = {task: len(tally.attempts.get(task, ())) for task in (tally.attempts if tasks is None else tasks)}
    short = {task: attempts - n for task, n in counts.items() if n < attempts}
    if short:
        lost = sum(short.values())
        text = f"{lost} of {attempts * len(counts)} planned episodes {by_number(lost, 'is', 'are')} not in the log"
        names = [f"{n} of task {task}" for task, n in short.items()]
        yield Finding.of("lost", text, names, True, "Results are of the episodes that are left.", lost)


def _uneven(tally: _Tally) -> Iterator[Finding | Unknown]:
    """Note tasks with fewer attempts than most, where no plan says how many there should be."""
    yield Unknown("lost", "this log does not say how many episodes there should be")
    sizes = Counter(len(each) for each in tally.attempts.values())
    usual, tasks = sizes.most_common(1)[0] if sizes else (0, 0)
    fewer = [f"{task} ({len(each)})" for task, each in tally.attempts.items() if len(each) < usual]
    if fewer and 2 * tasks > len(tally.attempts):
        text = f"{len(fewer)} {by_number(len(fewer), 'task has', 'tasks have')} fewer attempts than the usual {usual}"
        yield Finding.of("lost", text, fewer, False, "Their other attempts may be lost.")


def _duplicated(tally: _Tally) -> Iterator[Finding | Unknown]:
    if twice := [id for id, n in tally.ids.items() if n > 1]:
        text = f"{len(twice)} episode {by_number(len(twice), 'id occurs', 'ids occur')} more than once"
        yield Finding.of("duplicated", text, twice, True, "Means count them several times.")
    if tally.copies:
        what = by_number(len(tally.copies), "episode copies another", "episodes copy others")
        text = f"{len(tally.copies)} {what} under a different id: same task, actions and times"
        yield Finding.of("duplicated", text, tally.copies, True, "Means count them several times.")
    if tally.records and not tally.first_of and any(record.turns for record in tally.records):
        yield Unknown("duplicated", "copies under other ids cannot be distinguished from equal answers without times")


def _zeros(tally: _Tally) -> Iterator[Finding | Unknown]:
    failed = [record for record in tally.records if record.failure is not None]
    scored = [record for record in tally.records if record.value is not None]
    if tally.records and not scored:
        yield Unknown("zeros", "no episode has a reward or score in this log")
    broken = [record for record in failed if record.value is not None and not record.by_policy]
    wrong = [record for record in broken if record.unscorable or _zero(record)]
    kept = [record for record in broken if not record.unscorable and not _zero(record)]
    if wrong:
        zeros = sum(map(_zero, wrong))
        what = by_number(len(wrong), "episode is scored although it", "episodes are scored although they")
        text = f"{len(wrong)} {what} failed ({_kinds(wrong)}); {zeros} {by_number(zeros, 'counts', 'count')} as zero"
        meaning = "A failure says nothing about the policy. Leave them out, or run them again."
        yield Finding.of("zeros", text, [record.id for record in wrong], True, meaning)
    if kept:
        what = by_number(len(kept), "episode has", "episodes have")
        text = f"{len(kept)} {what} a positive score after a failure ({_kinds(kept)})"
        yield Finding.of("zeros", text, [record.id for record in kept], False, "Check that the score is of the end.")
    if own := [record for record in failed if record.by_policy and record.value is not None]:
        what = by_number(len(own), "is a failure", "are failures")
        text = f"{len(own)} of {len(scored)} scored episodes {what} of the policy ({_kinds(own)})"
        meaning = "They count as unsolved. If a server was slow, allow more time."
        yield Finding.of("zeros", text, [record.id for record in own], False, meaning)


def _zero(record: Record) -> bool:
    return not (record.value or 0.0) > 0


def _kinds(records: Iterable[Record]) -> str:
    return ", ".join(f"{n} {name}" for name, n in Counter(str(record.failure) for record in records).most_common())


def _tokens(tally: _Tally, context: str) -> Iterator[Finding | Unknown]:
    having = [record for record in tally.records if record.tokens is not None]
    if tally.records and len(having) < len(tally.records):
        some = f"in {len(tally.records) - len(having)} of {len(tally.records)} episodes" if having else "in this log"
        yield Unknown("tokens", f"no token ids {some}")
    found = [(record, record.tokens) for record in having if record.tokens is not None and record.tokens.rewritten]
    if found:
        rewritten = sum(tokens.rewritten for _, tokens in found)
        again = sum(tokens.retokenized for _, tokens in found)
        total = rewritten + sum(record.tokens.continued for record in having if record.tokens is not None)
        text = f"{rewritten} of {total} turns {by_number(rewritten, 'does', 'do')} not continue the tokens before them"
        same = f"; {again} of them {by_number(again, 'has', 'have')} the same messages, so text was tokenized again"
        text += same if again else ""
        if context and not again:
            text, by_design = f"{text}: agent.context is {context}", "This context strategy rewrites the history."
            yield Finding.of("tokens", text, (), False, by_design, rewritten)
            return
        meaning = (
            "The model read other tokens than it had sampled: ratios of training are of another policy there."
            if again
            else "A context strategy rewrote the history, or text was tokenized again."
        )
        yield Finding.of("tokens", text, [record.id for record, _ in found], False, meaning, rewritten)
