"""The image of a study: mean learning curves with their range over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
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
    figure = Figure(figsize=(7.2, 4.2), layout="constrained", dpi=130)
    axes = figure.subplots()
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
    axes.set_xlabel("environment episodes")
    axes.set_ylabel("return")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": None})
    return True
