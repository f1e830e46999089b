"""Evaluations: settings, summaries, comparisons, intervals and reports. Start one with ``turnwise.evaluate``.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .compare import Comparison, Difference
    from .evaluate import EvalSettings
    from .evaluation import run_evaluation, run_evaluation_async
    from .report import report as write_report
    from .settings import EvalConfig
    from .statistics import Estimate, pass_at_k, pass_hat_k, wilson
    from .summary import Summary

__all__ = [
    "Comparison",
    "Difference",
    "Estimate",
    "EvalConfig",
    "EvalSettings",
    "Summary",
    "pass_at_k",
    "pass_hat_k",
    "run_evaluation",
    "run_evaluation_async",
    "wilson",
    "write_report",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
