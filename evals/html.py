"""Render the report as one self-contained HTML file: no scripts, fonts or external images."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from . import formatting, sample_episodes
from .collect_runs import Evaluation, Report, Training, is_rate
from .formatting import facts, interval, signed, whole_percent
from .plots import curve_plot, histogram, whisker
from .ranking import HEADINGS
from .sample_episodes import SampleEpisode, choose
from .statistics import Estimate
from .summary import Summary

TEMPLATES = Path(__file__).parent / "templates"
Share = tuple[str, float, str]
"""Name, share, and the number to show."""


@dataclass(frozen=True, slots=True)
class View:
    """One evaluation, prepared for the template."""

    name: str
    summary: Summary
    facts: list[tuple[str, str, str]]
    endings: list[Share]
    not_scored: str
    times: list[Share]
    spreads: list[tuple[str, Markup]]
    samples: list[SampleEpisode]
    made: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Learning:
    """One training, prepared for the template."""

    title: str
    note: str
    repeats: tuple[str, ...]
    made: tuple[str, ...]
    plots: list[tuple[str, Markup]]
    diagnostics: list[tuple[str, Markup]]


def render_html(report: Report) -> str:
    """Render the report as a self-contained page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    names = ("percent", "interval", "method", "plain", "seconds", "signed", "success_interval", "success_method")
    environment.globals.update({name: getattr(formatting, name) for name in names})
    environment.globals.update({name: getattr(sample_episodes, name) for name in ("pieces", "speaker", "shown")})
    environment.globals.update(whisker=whisker, signed_interval=_signed_interval, ranking_headings=HEADINGS)
    environment.globals["time_note"] = formatting.TIME_NOTE
    views = [_view(each) for each in report.evaluations]
    return environment.get_template("report.html.j2").render(
        report=report,
        evaluations=views,
        first_open=views[-1].name if views else "",
        subtitle=formatting.subtitle([each.summary for each in report.evaluations], report.title),
        css=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        trainings=[_learning(each, number) for number, each in enumerate(report.trainings, 1)],
        version=importlib.metadata.version("turnwise"),
    )


def _view(each: Evaluation) -> View:
    summary, judged = each.summary, [episode for episode in each.episodes if episode.scored]
    solved = [episode.success for episode in judged]
    endings = {"solved": sum(solved), **summary.failures}
    parts = zip(("policy", "environment", "turnwise itself"), summary.time.shares, strict=True)
    return View(
        name=each.name,
        summary=summary,
        facts=facts(summary),
        endings=[(name, count / summary.scored, str(count)) for name, count in endings.items()],
        not_scored=formatting.not_scored(summary),
        times=[(name, share, whole_percent(share)) for name, share in parts],
        spreads=[
            ("turns", histogram([float(len(e.turns)) for e in judged], solved, "turns", of=each.name)),
            ("return", histogram([e.total_reward for e in judged], solved, "return", of=each.name)),
        ],
        samples=choose(each.episodes),
        made=formatting.made(summary),
    )


def _learning(training: Training, number: int) -> Learning:
    """Prepare a training with its plots; ``number`` keeps their ids distinct from those of other trainings."""
    of = f"{training.title} {number}"
    return Learning(
        title=training.title,
        note=formatting.training_note(len(training.names)),
        repeats=training.repeats,
        made=training.made,
        plots=[(name, curve_plot(curves, name, rate=is_rate(name), of=of)) for name, curves in training.curves.items()],
        diagnostics=[(name, curve_plot([c], name, of=of, small=True)) for name, c in training.diagnostics.items()],
    )


def _signed_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return interval(estimate)
    return f"{signed(estimate.low, 1)} – {signed(estimate.high, 1)}"
