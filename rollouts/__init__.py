"""Rollouts: episodes, the runner that plays them, and the store that keeps them.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .costs import RolloutCost
    from .episode import Episode, Fork, Outcome, Turn, scored
    from .for_skyrl import skyrl_env
    from .for_trl import TrlRollout, trl_reward, trl_rollout
    from .for_verifiers import verifiers_taskset
    from .for_verl import verl_agent_loop
    from .options import RunOptions
    from .recording import record_episodes
    from .runner import run, run_episodes
    from .store import EpisodeStore, load_episodes, read_episodes

__all__ = [
    "Episode",
    "EpisodeStore",
    "Fork",
    "Outcome",
    "RolloutCost",
    "RunOptions",
    "TrlRollout",
    "Turn",
    "load_episodes",
    "read_episodes",
    "record_episodes",
    "run",
    "run_episodes",
    "scored",
    "skyrl_env",
    "trl_reward",
    "trl_rollout",
    "verifiers_taskset",
    "verl_agent_loop",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
