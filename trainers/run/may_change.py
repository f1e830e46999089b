"""Settings that a resumed run may change."""

from __future__ import annotations

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
