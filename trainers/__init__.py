"""Trainers: settings of every algorithm, and the parts of which an algorithm is made.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .algorithms.algorithm import Algorithm, Credit
    from .archer_settings import ArcherConfig
    from .behavior_cloning import CloningConfig
    from .learning.advantages import leave_one_out
    from .learning.batch import Batch
    from .learning.groups import Group, grouped
    from .learning.loss import loop_bounds
    from .learning.rows import Rows, merge
    from .loop import LoopConfig
    from .on_policy import OnPolicyConfig
    from .registry import ALGORITHMS
    from .run.conclusion import RunResult
    from .run.run import Run
    from .run.settings import TrainConfig
    from .run.training import Trainer, train_with
    from .self_play import SelfPlayConfig
    from .soft_bellman import SoftBellmanConfig
    from .value_based import ValueBasedConfig

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "ArcherConfig",
    "Batch",
    "CloningConfig",
    "Credit",
    "Group",
    "LoopConfig",
    "OnPolicyConfig",
    "Rows",
    "Run",
    "RunResult",
    "SelfPlayConfig",
    "SoftBellmanConfig",
    "TrainConfig",
    "Trainer",
    "ValueBasedConfig",
    "grouped",
    "leave_one_out",
    "loop_bounds",
    "merge",
    "train_with",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
