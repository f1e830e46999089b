"""Settings that a resumed run may change."""

from __future__ import annotations

from collections.abc import Collection

MAY_CHANGE = (
    "out",
    "resume",
    "steps",
    "eval",
    "checkpoint_every",
    "keep_checkpoints",
    "keep_episodes",
    "progress",
    "tracking",
    "episodes.concurrency",
    "episodes.turn_timeout",
    "episodes.env_timeout",
    "episodes.hedge_resets",
    "episodes.episode_timeout",
    "episodes.retries",
    "checkpoint_in_background",
    "rollouts",
    "threads",
    "profile_steps",
    "device",
    "hardware",
    "agent.max_batch",
    "agent.threaded",
    "server",
    "optimizer.microbatch_tokens",
    "optimizer.layout",
    "optimizer.compiled",
    "optimizer.recompute",
    "parallel.replicas",
    "parallel.reshard",
    "parallel.offload",
    "parallel.timeout",
    "is_mode",
    "loss.is_mode",
)
"""They affect results only in the last digits (but a linear schedule ends at
``steps``, and ``is_mode`` follows ``server``)."""
JUDGED = ("eval.every", "eval.patience", "eval.stop_at", "eval.keep_best")
"""Settings of ``eval`` that may change where evaluations are compared with earlier ones."""


def changeable(names: Collection[str], *, judged: bool) -> tuple[str, ...]:
    """Return the settings that a run may change on resume.

    Args:
        names: settings that runs of its script may change.
        judged: whether it compares its evaluations (``eval.patience``, ``eval.keep_best``). With other tasks or another
            temperature, the best of before could stand for good, or none be as good again.
    """
    return tuple(name for name in names if not judged or name != "eval") + (JUDGED if judged else ())
