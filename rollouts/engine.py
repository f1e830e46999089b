"""Choice of the place that plays episodes: this process, or workers on a Ray cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, Literal

import pydantic

from ..config import Config
from ..errors import UsageError
from .options import Isolation
from .pool import EnvPool, EnvSource


class RolloutsConfig(Config):
    """Place of episodes. With ``engine = "ray"``, whole episodes run on workers, on any number of machines."""

    engine: Literal["local", "ray"] = "local"
    """``local`` plays in this process; ``ray`` on workers of a Ray cluster (``pip install 'turnwise[ray]'``)."""
    address: str = "local"
    """Address of the cluster: ``local`` starts one on this machine and stops it at the end, ``auto`` finds the one that
    ``ray start`` started here, ``host:port`` is the head of another."""
    workers: int = pydantic.Field(default=2, ge=1)
    """Number of workers; each is one process."""
    episodes_per_worker: int = pydantic.Field(default=32, ge=1)
    """Number of episodes that a worker plays at a time; with ``workers``, it replaces ``concurrency``."""
    resources: dict[str, float] = pydantic.Field(default_factory=lambda: {"CPU": 1.0})
    """Resources that a worker occupies: ``CPU``, ``GPU``, ``memory`` (bytes), or names that your cluster declares."""
    runtime_env: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Ray's ``runtime_env`` of the workers, such as ``working_dir``, ``py_modules`` or ``env_vars``."""
    object_store: int = pydantic.Field(default=200_000_000, ge=80_000_000)
    """Bytes of the object store of a ``local`` cluster."""
    start_timeout: float = pydantic.Field(default=300.0, gt=0)
    """Seconds without any worker after which the run stops."""
    worker_timeout: float = pydantic.Field(default=120.0, gt=0)
    """Seconds without a sign of life after which a worker is killed, and its episodes are played by others."""

    @pydantic.field_validator("resources")
    @classmethod
    def _positive(cls, resources: dict[str, float]) -> dict[str, float]:
        wrong = [name for name, amount in resources.items() if amount < 0]
        if wrong:
            raise ValueError(f"{wrong[0]} is below 0")
        return resources


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
        return pool
    if importlib.util.find_spec("ray") is None:
        raise UsageError("rollouts.engine = 'ray' needs Ray: pip install 'turnwise[ray]'")
    from .cluster.pool import ClusterPool  # Ray, which nothing else needs

    portable = EnvPool.of(env, isolation="process", env_kwargs=env_kwargs)  # its ``build`` works in any process
    return ClusterPool(pool, portable.build, rollouts)
