"""Choice of the place that plays episodes: this process, or workers on a Ray cluster."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..logs import tell
from .options import Isolation, RolloutsConfig
from .pool import EnvPool, EnvSource

LOG = logging.getLogger(__name__)


def pool_of(
    rollouts: RolloutsConfig,
    env: EnvSource,
    *,
    isolation: Isolation = "auto",
    env_kwargs: Mapping[str, Any] | None = None,
) -> EnvPool:
    """Return the pool in which a run plays its episodes; close it at the end.

    Args:
        rollouts: settings that choose the place.
        env: a registered id, a class or a factory.
        isolation: place of environments, in this process or in each worker.
        env_kwargs: arguments of the environment.

    Raises:
        UsageError: Ray is missing, there is no such cluster, or it has no node for a worker.
    """
    pool = EnvPool.of(env, isolation=isolation, env_kwargs=env_kwargs)
    if rollouts.engine == "local":
        _warn_of_unused(rollouts)
        return pool
    require_ray("rollouts.engine = 'ray'")
    from .cluster.pool import ClusterPool  # Ray, which nothing else needs

    return ClusterPool(pool, portable_pool(env, env_kwargs=env_kwargs).build, rollouts)


def portable_pool(env: EnvSource, *, env_kwargs: Mapping[str, Any] | None = None) -> EnvPool:
    """Return a pool whose ``build`` works in any process."""
    return EnvPool.of(env, isolation="process", env_kwargs=env_kwargs)


def require_ray(what: str) -> None:
    """Refuse to go on without Ray.

    Args:
        what: setting or command that needs it.

    Raises:
        UsageError: Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"{what} needs Ray: pip install 'turnwise[ray]'")


def _warn_of_unused(rollouts: RolloutsConfig) -> None:
    """Say which settings are for Ray alone. No error: one word turns a configuration for a cluster into a local run."""
    unused = rollouts.written - {"engine"}
    if unused:
        listed = ", ".join(f"rollouts.{name}" for name in RolloutsConfig.model_fields if name in unused)
        tell(LOG, "remark", f"warning: without rollouts.engine = 'ray', these settings have no effect: {listed}")
