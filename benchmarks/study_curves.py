"""The images of studies: learning curves with their range over seeds, and profiles of scores over tasks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from study_statistics import Trace


def draw(title: str, curves: Mapping[str, Sequence[Trace]], path: Path) -> bool:
    """Draw mean curves with their range over seeds, and return whether any learner has played episodes to draw.

    Args:
        title: title of the image.
        curves: non-empty traces of each learner, by seed; learners without any are left out.
        path: file of the image.
    """
    drawn = {name: traces for name, traces in curves.items() if traces}
    if not any(trace[-1][0] for traces in drawn.values() for trace in traces):
        return False
    figure, axes = _empty(title, "environment episodes", "return")
    for name, traces in drawn.items():
        color = f"C{len(axes.lines)}"
        if not any(trace[-1][0] for trace in traces):  # learned from data alone: a level, not a curve
            level = statistics.fmean(trace[-1][1] for trace in traces)
            axes.axhline(level, linewidth=1, linestyle=":", color=color, label=f"{name} (offline)")
            continue
        shortest = min(len(trace) for trace in traces)
        values = np.array([[value for _, value in trace[:shortest]] for trace in traces])
        episodes = np.mean([[x for x, _ in trace[:shortest]] for trace in traces], axis=0)
        axes.plot(episodes, values.mean(0), label=f"{name} ({len(traces)} seeds)", color=color)
        axes.fill_between(episodes, values.min(0), values.max(0), alpha=0.15, color=color, linewidth=0)
    axes.set_xscale("symlog", linthresh=50)
    _save(figure, axes, path)
    return True


def draw_profiles(title: str, scores: Mapping[str, Sequence[Sequence[float]]], path: Path) -> None:
    """Draw which share of a learner's runs ends at a score or above, for all scores from 50 to 100.

    The performance profiles of Agarwal et al. (arXiv 2108.13264, section 4.2): a share is the mean over tasks of the
    share of a task's seeds.

    Args:
        title: title of the image.
        scores: normalized scores of each learner, by task.
        path: file of the image.
    """
    figure, axes = _empty(title, "normalized score", "share of runs at the score or above")
    marks = np.linspace(50, 100, 201)
    for n, (name, tasks) in enumerate(scores.items()):
        shares = np.mean([[np.mean(np.asarray(task) >= mark) for mark in marks] for task in tasks], axis=0)
        axes.plot(marks, shares, label=name, color=f"C{n % 10}", linestyle=("-", "--", ":")[n // 10])
    _save(figure, axes, path)


def _empty(title: str, across: str, up: str) -> tuple[Figure, Axes]:
    """Return an image with its title and the names of both axes."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained", dpi=130)
    axes = figure.subplots()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    return figure, axes


def _save(figure: Figure, axes: Axes, path: Path) -> None:
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": None})
