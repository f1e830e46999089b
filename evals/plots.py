"""Plots for the report: inline SVG that follows the page's colors and fonts."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .curves import Curve
from .statistics import Estimate

# Colors that matplotlib writes and the page replaces with its own, so that one plot serves light and dark mode.
INK, QUIET, LINE = "#010101", "#020202", "#030303"
STRONG, WEAK = "#040404", "#050505"
VARIABLES = {INK: "--ink", QUIET: "--quiet", LINE: "--line", STRONG: "--accent", WEAK: "--second"}


def curve_plot(curves: Sequence[Curve], name: str, *, rate: bool = False, of: str = "", small: bool = False) -> Markup:
    """Plot curves of one quantity against episodes trained on: held-out strong, training weak, with interval bands.

    Args:
        curves: curves of the same quantity.
        name: the quantity, for readers who do not see the image.
        rate: whether the quantity is a share of one, so that the axis is in percent from 0 to 100.
        of: name of the run, if a page shows several.
        small: whether the plot is one of many.
    """
    figure = Figure(figsize=(4.2, 2.0) if small else (6.4, 3.1), layout="constrained")
    by_episodes = all(curve.by_episodes for curve in curves)
    axes = _axes(figure)
    scale = 100 if rate else 1
    for curve in sorted(curves, key=lambda c: c.held_out):
        color = STRONG if curve.held_out or len(curves) == 1 else WEAK
        x = [point.episodes if by_episodes else float(point.step) for point in curve.points]
        values = [point.estimate.value * scale for point in curve.points]
        dots = "o" if len(x) <= 40 and curve.held_out else ""
        axes.plot(x, values, color=color, linewidth=1.8 if color == STRONG else 1.2, marker=dots, markersize=3.5)
        ends = [(p.estimate.low, p.estimate.high) for p in curve.points]
        low = [v if a is None else a * scale for (a, _), v in zip(ends, values, strict=True)]
        high = [v if b is None else b * scale for (_, b), v in zip(ends, values, strict=True)]
        axes.fill_between(x, low, high, color=color, alpha=0.16, linewidth=0)
        axes.plot([], [], color=color, linewidth=2, label=curve.where)
    if rate:
        axes.set_ylim(-2, 102)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} %"))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("episodes trained on" if by_episodes else "training steps", color=QUIET)
    if len(curves) > 1:
        axes.legend(frameon=False, loc="best", labelcolor=INK, fontsize=9)
    return _svg(figure, f"{name} over training {of}".strip())


def histogram(values: Sequence[float], solved: Sequence[bool], name: str, *, of: str = "") -> Markup:
    """Plot the distribution of a number over episodes, successes and failures apart.

    Args:
        values: one per episode.
        solved: whether each succeeded.
        name: name of the number.
        of: name of the run, if a page shows several.
    """
    figure = Figure(figsize=(4.2, 2.1), layout="constrained")
    axes = _axes(figure)
    groups = [[v for v, s in zip(values, solved, strict=True) if s is wanted] for wanted in (True, False)]
    low, high = min(values), max(values)
    whole = all(float(v).is_integer() for v in values) and high - low <= 30
    edges = [low - 0.5 + i for i in range(int(high - low) + 2)] if whole else 20
    axes.hist(groups, bins=edges, stacked=True, color=[STRONG, WEAK], rwidth=0.92, label=["solved", "failed"])
    if low == high:  # a single bar would fill the plot
        axes.set_xlim(low - 5, high + 5)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=whole))
    axes.set_xlabel(name, color=QUIET)
    return _svg(figure, f"{name} over episodes {of}".strip())


def whisker(estimate: Estimate, low: float = 0.0, high: float = 1.0) -> Markup:
    """Draw a dot with its interval on a scale from ``low`` to ``high``; empty without an interval."""
    if estimate.low is None or estimate.high is None or not high > low:
        return Markup("")

    def place(x: float) -> float:
        return 100 * min(1.0, max(0.0, (x - low) / (high - low)))

    zero = '<line class="zero" x1="{z:.2f}%" x2="{z:.2f}%" y1="0" y2="100%"/>' if low < 0 < high else ""
    return Markup(
        '<svg class="whisker" role="img" aria-label="interval">'
        '<line class="scale" x1="0" x2="100%" y1="50%" y2="50%"/>'
        + zero
        + '<line class="reach" x1="{a:.2f}%" x2="{b:.2f}%" y1="50%" y2="50%"/>'
        '<circle cx="{dot:.2f}%" cy="50%" r="3.5"/></svg>'
    ).format(a=place(estimate.low), b=place(estimate.high), dot=place(estimate.value), z=place(0.0))


def _axes(figure: Figure) -> Axes:
    axes = figure.subplots()
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, length=3, labelsize=9)
    return axes


def _svg(figure: Figure, label: str) -> Markup:
    """Return the figure as inline SVG: no metadata, the page's colors and font, and unique ids."""
    out = io.StringIO()
    figure.patch.set_visible(False)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]+", "font-family: inherit", text)
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    prefix = re.sub(r"\W+", "-", label)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", text)
    head = Markup('<svg class="plot" role="img" aria-label="{}"').format(label)
    size = r'width="[\d.]+pt" height="[\d.]+pt" '
    return Markup(head + Markup(re.sub(size, "", text.removeprefix("<svg"), count=1)))
