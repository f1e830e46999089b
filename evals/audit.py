"""Audit an episode store: lost and duplicated episodes, zeros from failures, broken token sequences, selection bias."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..rollouts.episode import UNANSWERED, Episode, Outcome
from ..rollouts.stats import wilson_interval
from ..tasks.rng import stable_hash
from .failures import error_name

SLOWER = 2.0
"""Ratio of median seconds from which failed episodes count as slower than scored ones."""
FEWEST = 10
"""Number of episodes on each side below which a difference says nothing."""
SHOWN = 5
"""Maximum number of ids in one finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found.

    Args:
        name: short name, e.g. ``"duplicated"``.
        text: finding with its numbers and what to do.
        fault: whether results are wrong because of it; otherwise, a reader should know it.
    """

    name: str
    text: str
    fault: bool


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Args:
        outcomes: number of episodes by outcome; they add up to all records.
        findings: findings, faults first.
    """

    outcomes: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether there is no fault."""
        return not any(finding.fault for finding in self.findings)


@dataclass(slots=True)
class _Tally:
    """Everything that is counted in one pass over the episodes."""

    ids: Counter[str] = field(default_factory=Counter)
    contents: Counter[bytes] = field(default_factory=Counter)
    parents: dict[str, str] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    scored_failures: list[str] = field(default_factory=list)
    continued: int = 0
    rewritten: int = 0
    seconds: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    levels: dict[int, Counter[bool]] = field(default_factory=dict)
    turns: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})


def audit(episodes: Iterable[Episode], expected: int | None = None) -> Audit:
    """Audit episodes, in one pass.

    Args:
        episodes: all records of a store.
        expected: number of episodes that a summary counts, if there is one.
    """
    tally = _Tally()
    for episode in episodes:
        _count(tally, episode)
    found = [*_lost(tally, expected), *_duplicated(tally), *_zeros(tally), *_tokens(tally), *_bias(tally)]
    return Audit(dict(tally.outcomes), tuple(sorted(found, key=lambda finding: not finding.fault)))


def _count(tally: _Tally, episode: Episode) -> None:
    tally.ids[episode.episode_id] += 1
    tally.outcomes[str(episode.outcome)] += 1
    if episode.own_turns:
        # Two episodes may sample the same text, but not in the same nanoseconds.
        parts = (f"{turn.action.text} {turn.action_ids} {turn.seconds_policy!r}" for turn in episode.own_turns)
        tally.contents[stable_hash("audit", episode.task.digest, repr(episode.seconds), *parts)] += 1
    if episode.fork is not None:
        tally.parents[episode.episode_id] = episode.fork.parent
    if episode.outcome is Outcome.POLICY_FAILED:
        tally.errors[error_name(episode)] += 1
    if episode.trainable and any(UNANSWERED in turn.info for turn in episode.turns):
        tally.unanswered.append(episode.episode_id)
    if not episode.scored and episode.score is not None:
        tally.scored_failures.append(episode.episode_id)
    _count_tokens(tally, episode)
    failed = episode.outcome is Outcome.INFRA_FAILED
    if episode.scored or failed:
        tally.seconds[failed].append(episode.seconds)
        tally.levels.setdefault(episode.task.level, Counter())[failed] += 1
    if episode.scored:
        tally.turns[episode.success].append(len(episode.turns))


def _count_tokens(tally: _Tally, episode: Episode) -> None:
    before: tuple[int, ...] = ()
    for turn in episode.turns:
        if not turn.action_ids:
            continue
        if before:
            kept = turn.prompt_ids[: len(before)] == before
            tally.continued, tally.rewritten = tally.continued + kept, tally.rewritten + (not kept)
        before = turn.prompt_ids + turn.action_ids


def _lost(tally: _Tally, expected: int | None) -> Iterable[Finding]:
    if expected is not None and len(tally.ids) < expected:
        text = f"{expected - len(tally.ids)} of {expected} episodes that the summary counts are not in the store"
        yield Finding("lost", f"{text}; resume the run, or restore its files", True)
    orphans = [id for id, parent in tally.parents.items() if parent not in tally.ids]
    if orphans:
        yield Finding("lost", f"{len(orphans)} forked episodes have no parent in the store: {_some(orphans)}", True)


def _duplicated(tally: _Tally) -> Iterable[Finding]:
    if twice := [id for id, n in tally.ids.items() if n > 1]:
        yield Finding("duplicated", f"{len(twice)} episode ids occur more than once: {_some(twice)}", True)
    copies = sum(n - 1 for n in tally.contents.values()) - sum(n - 1 for n in tally.ids.values())
    if copies > 0:
        text = f"{copies} episodes are copies of others under another id: same task, actions and times"
        yield Finding("duplicated", text, True)


def _zeros(tally: _Tally) -> Iterable[Finding]:
    if tally.unanswered:
        text = f"{len(tally.unanswered)} episodes are scored although the infrastructure failed in one of their steps"
        yield Finding("zeros", f"{text}: {_some(tally.unanswered)}", True)
    if tally.scored_failures:
        text = f"{len(tally.scored_failures)} episodes have a score although their outcome has none"
        yield Finding("zeros", f"{text}: {_some(tally.scored_failures)}", True)
    if tally.errors:
        kinds = ", ".join(f"{n} {name}" for name, n in tally.errors.most_common())
        total = sum(tally.outcomes[str(each)] for each in Outcome if each.scored)
        text = f"{tally.errors.total()} of {total} scored episodes are failures of the policy ({kinds})"
        yield Finding("zeros", f"{text}; they count as unsolved. If a server was slow, raise turn_timeout", False)


def _tokens(tally: _Tally) -> Iterable[Finding]:
    if tally.rewritten:
        text = f"{tally.rewritten} of {tally.rewritten + tally.continued} turns do not continue the tokens before them"
        yield Finding("tokens", f"{text}: a context strategy rewrote the history, or text was tokenized again", False)


def _bias(tally: _Tally) -> Iterable[Finding]:
    failed, scored = tally.seconds[True], tally.seconds[False]
    if min(len(failed), len(scored)) >= FEWEST:
        slow, usual = statistics.median(failed), statistics.median(scored)
        if slow > SLOWER * usual:
            text = f"failed episodes took {slow:.3g} s (median), scored ones {usual:.3g} s"
            yield Finding("bias", f"{text}: results favor tasks that are fast. Raise the time limits", False)
    levels = {level: each for level, each in tally.levels.items() if each.total() >= FEWEST}
    if len(levels) > 1:
        ends = {level: wilson_interval(each[True], each.total()) for level, each in levels.items()}
        worst, best = max(ends, key=lambda level: ends[level][0]), min(ends, key=lambda level: ends[level][1])
        if ends[worst][0] > ends[best][1]:
            share = {level: f"{levels[level][True] / levels[level].total():.1%}" for level in (worst, best)}
            text = f"the infrastructure failed in {share[worst]} of level {worst} and {share[best]} of level {best}"
            yield Finding("bias", f"{text}: the scored episodes are not the tasks that were drawn", False)
    solved, unsolved = tally.turns[True], tally.turns[False]
    if min(len(solved), len(unsolved)) >= FEWEST:
        text = (
            f"solved episodes have {statistics.mean(solved):.1f} turns, unsolved ones {statistics.mean(unsolved):.1f}"
        )
        yield Finding("length", f"{text}; a token-mean loss weighs the longer ones more", False)


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(ids[:SHOWN]) + more
