"""The report in Markdown: the same words and numbers, for a terminal, an issue, or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..envs.messages import Message
from .collect_runs import Evaluation, Report, Training, is_rate
from .compare import Comparison
from .formatting import (
    TIME_NOTE,
    facts,
    failures,
    interval,
    made,
    not_scored,
    percent,
    plain,
    seconds,
    signed,
    subtitle,
    success,
    success_interval,
    success_method,
    time_split,
    training_note,
)
from .ranking import HEADINGS, Ranking
from .sample_episodes import SampleEpisode, choose, pieces, shown, speaker
from .summary import Stratum, Summary


def render_markdown(report: Report) -> str:
    """Render the report as one Markdown text."""
    blocks = [
        f"# {_inline(report.title)}",
        _inline(subtitle([each.summary for each in report.evaluations], report.title)),
    ]
    if report.comparison:
        blocks += _comparison(report.comparison)
    for environment, ranking in report.rankings.items():
        blocks += _ranking(environment, ranking)
    blocks += [f"> {_inline(note)}" for note in report.notes]
    for training in report.trainings:
        blocks += _training(training)
    for each in report.evaluations:
        blocks += _evaluation(each, heading=len(report.evaluations) > 1 or bool(report.trainings))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _evaluation(each: Evaluation, *, heading: bool) -> list[str]:
    s = each.summary
    blocks = [f"## {_inline(each.name)}"] if heading else []
    blocks.append(f"**Success {success(s)}** ({success_interval(s)}, {success_method(s)})")
    blocks.append(_table(("", "", ""), facts(s)))
    blocks += [f"> {_inline(note)}" for note in s.notes]
    blocks.append(f"Failures: {_inline(failures(s))}")
    blocks.append(_inline(not_scored(s)))
    if s.time.total > 0:
        blocks.append(f"Time: {time_split(s)}. {TIME_NOTE}")
    for name, strata in (("level", s.levels), ("split", s.splits), ("template", s.templates)):
        blocks.append(_strata(name, strata))
    blocks.append(_pass_k(s))
    if s.checks:
        rows = [(name, percent(c.value), interval(c, rate=True)) for name, c in s.checks.items()]
        blocks.append(_table(("check", "held", "interval"), rows))
    if how := made(s):
        blocks += ["### How this was made", _table(("", ""), how)]
    blocks.append("### Episodes to read")
    return blocks + [_sample(sample) for sample in choose(each.episodes)]


def _strata(name: str, strata: Sequence[Stratum]) -> str:
    rows = [
        (
            part.name,
            str(part.episodes),
            percent(part.success.value),
            interval(part.success, rate=True),
            plain(part.mean_return.value),
            plain(part.turns),
        )
        for part in strata
    ]
    return _table((name, "episodes", "success", "interval", "return", "turns"), rows) if rows else ""


def _pass_k(summary: Summary) -> str:
    rows = [
        (str(p.k), percent(p.at.value), interval(p.at, rate=True), percent(p.hat.value), interval(p.hat, rate=True))
        for p in summary.pass_k
    ]
    return _table(("k", "pass@k", "interval", "pass^k", "interval"), rows) if rows else ""


def _comparison(c: Comparison) -> list[str]:
    compared = () if c.inconclusive else (c.success, *c.levels)
    rows = [(d.name, percent(d.a.value), percent(d.b.value), c.verdict_on(d, points=True)) for d in compared]
    return [
        f"## {_inline(c.a)} against {_inline(c.b)}",
        f"**{_inline(c.verdict)}**",
        f"Return: {_inline(c.verdict_on(c.mean_return))}",
        _table(("", c.a, c.b, "verdict"), rows) if rows else "",
        *(f"> {_inline(note)}" for note in c.notes),
    ]


def _ranking(environment: str, r: Ranking) -> list[str]:
    return [
        f"## Ranking on {_inline(environment)}",
        _table(HEADINGS, r.rows),
        _table(
            ("pair", "difference in success", "return"),
            [(f"{p.b} against {p.a}", p.verdict, p.verdict_on(p.mean_return)) for p in r.pairs],
        ),
        *(f"> {_inline(note)}" for note in r.notes),
    ]


def _training(training: Training) -> list[str]:
    """Render curves as tables of at most a dozen rows."""
    blocks = [f"## Learning: {_inline(training.title)}", training_note(len(training.names))]
    blocks += [f"> {_inline(repeat)}" for repeat in training.repeats]
    for name, curves in training.curves.items():
        curve = curves[0]
        show = percent if is_rate(name) else plain
        step = max(1, -(-len(curve.points) // 12))
        points = [*curve.points[:-1:step], curve.points[-1]]
        rows = [
            (str(p.step), f"{p.episodes:,.0f}", show(p.estimate.value), interval(p.estimate, rate=is_rate(name)))
            for p in points
        ]
        blocks.append(f"### {name} on {curve.where}")
        blocks.append(_table(("step", "episodes trained on", name, "interval"), rows))
    return blocks + [f"Made: {_inline(made)}" for made in training.made]


def _sample(sample: SampleEpisode) -> str:
    e = sample.episode
    task = f"{e.task.family}, level {e.task.level}, {e.task.split}, {e.task.template}, seed {e.task.seed}"
    numbers = f"{len(e.turns)} turn{'' if len(e.turns) == 1 else 's'}" + (
        f", return {plain(e.total_reward)}" if e.scored else ""
    )
    lines: list[str] = []
    for number, turn in enumerate(e.turns, 1):
        lines.append(f"--- turn {number}" + (f", reward {signed(turn.reward, 2)}" if turn.reward else ""))
        lines += _said(turn.observation.messages)
        lines += [f"(thoughts: {shown(turn.thoughts)})"] if turn.thoughts else []
        lines += _said([turn.action.message], agent=True)
        lines += [f"(unreadable: {turn.action.problem})"] if turn.action.problem else []
    lines.append(f"--- {e.outcome}" + (f": {e.error}" if e.error else ""))
    lines += _said(e.final_observation.messages) if e.final_observation else []
    return "\n\n".join(
        [
            f"#### {_inline(sample.verdict)}: {_inline(task)}",
            f"{numbers}, {seconds(e.seconds)}",
            _fenced("\n".join(lines)),
        ]
    )


def _said(messages: Iterable[Message], *, agent: bool = False) -> list[str]:
    lines = []
    for message in messages:
        said = [content if kind != "image" else "[picture]" for kind, content in pieces(message)] or ["(nothing)"]
        lines.append(f"{'agent' if agent else speaker(message)}: " + "\n".join(said))
    return lines


def _fenced(text: str) -> str:
    """Return a code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top, *body = ("| " + " | ".join(_inline(cell) for cell in line) + " |" for line in (header, *rows))
    delimiter = "| " + " | ".join(["---", *["---:"] * (len(header) - 1)]) + " |"  # escaping it would break the table
    return "\n".join([top, delimiter, *body])


def _inline(text: str) -> str:
    """Escape text for Markdown: one line, without anything that starts a tag, a cell, a link or emphasis."""
    escaped = re.sub(r"([\\`*_<>|\[\]])", r"\\\1", " ".join(text.split()))
    return re.sub(r"^(\d+)\.(?=\s)", r"\1\.", re.sub(r"^([#+-])", r"\\\1", escaped))
