"""Options of a run of episodes, and of the place that plays them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import pydantic

from ..config import Config
from ..errors import UsageError

Isolation = Literal["auto", "inline", "thread", "process"]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**43)]
"""Seed of a run. Seeds of tasks are a million times larger, and generators and stores hold 64 bits."""
ENV_TIMEOUT = 120.0
"""Default time in seconds that an environment has for one call."""


def _no_debts(resources: dict[str, float]) -> dict[str, float]:
    if wrong := [name for name, amount in resources.items() if amount < 0]:
        raise ValueError(f"{wrong[0]} is below 0")
    return resources


Resources = Annotated[dict[str, float], pydantic.AfterValidator(_no_debts)]
"""Resources of Ray by name."""


class RunOptions(Config):
    """Options of a run of episodes; every default suits a laptop."""

    concurrency: Annotated[int, pydantic.Field(ge=1)] = 64
    """Number of episodes at a time."""
    group_size: Annotated[int, pydantic.Field(ge=1)] = 1
    """Number of episodes per task; they share a ``group_id``."""
    turn_timeout: Annotated[float | None, pydantic.Field(gt=0)] = 300.0
    """Seconds that the agent has for one turn; beyond them the episode is ``policy_failed``. For a policy on servers,
    this sets the limits in ``docs/serving.md``, which apply instead; ``None`` then means 600 s per request."""
    env_timeout: Annotated[float | None, pydantic.Field(gt=0)] = ENV_TIMEOUT
    """Seconds that the environment has for one call; beyond them the episode is retried on a fresh one."""
    episode_timeout: Annotated[float | None, pydantic.Field(gt=0)] = None
    """Seconds for one attempt at an episode; beyond them it is ``cancelled``: unscored, not retried, counted."""
    retries: Annotated[int, pydantic.Field(ge=0)] = 2
    """Number of retries after an infrastructure failure before an episode is ``infra_failed``."""
    backoff: Annotated[float, pydantic.Field(ge=0)] = 0.5
    """Seconds before the first retry; doubles each time, up to 30."""
    hedge_resets: bool = False
    """Give a reset that takes longer than 99 of 100 before a rival on another environment, and use the one that ends
    first; at most one in fifty, and never a step. For environments whose resets now and then hang, such as sandboxes
    and servers, in processes or threads of their own."""
    isolation: Isolation = "auto"
    """Place of the environments: ``inline`` in the event loop, ``thread``, ``process``; ``auto``: the class decides."""
    seed: Seed = 0
    """Seed of the run, which determines episode ids and the agents' random numbers."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environment, and ``turn_limit``: a limit that the run sets, which truncates."""


class RolloutsConfig(Config):
    """Place of episodes. With ``engine = "ray"``, whole episodes run on workers, on any number of machines."""

    engine: Literal["local", "ray"] = "local"
    """``local`` plays in this process; ``ray`` on workers of a Ray cluster (``pip install 'turnwise[ray]'``)."""
    address: str = "local"
    """Address of the cluster: ``local`` starts one on this machine and stops it at the end, ``auto`` finds the one that
    ``ray start`` started here, ``host:port`` is the head of another."""
    workers: int = pydantic.Field(default=2, ge=1)
    """Number of workers; each is one process. With ``workers_per_node`` it does not count, and may not be written."""
    episodes_per_worker: int = pydantic.Field(default=32, ge=1)
    """Number of episodes that a worker plays at a time; with ``workers``, it replaces ``concurrency``."""
    workers_per_node: int | None = pydantic.Field(default=None, ge=1)
    """Number of workers on each node that has room for them, in place of ``workers``. The run follows nodes that join,
    drain or leave."""
    worker_memory: float | None = pydantic.Field(default=None, gt=0)
    """Bytes of memory that a worker and the processes below it may use (default: no limit). One that uses more plays
    its episodes to their end, and another takes its place."""
    resources: Resources = pydantic.Field(default_factory=lambda: {"CPU": 1.0})
    """Resources that a worker occupies: ``CPU``, ``GPU``, ``memory`` (bytes), or names that your cluster declares."""
    runtime_env: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Ray's ``runtime_env`` of the workers, such as ``working_dir``, ``py_modules`` or ``env_vars``."""
    object_store: int = pydantic.Field(default=200_000_000, ge=80_000_000)
    """Bytes of the object store of a ``local`` cluster."""
    start_timeout: float = pydantic.Field(default=300.0, gt=0)
    """Seconds without any worker after which the run stops."""
    worker_timeout: float = pydantic.Field(default=120.0, gt=0)
    """Seconds without a sign of life after which a worker is killed, and its episodes are played by others."""

    @pydantic.model_validator(mode="after")
    def _one_number(self) -> Self:
        if self.workers_per_node is not None and "workers" in self.written:
            raise ValueError(
                f"workers = {self.workers} in all and workers_per_node = {self.workers_per_node} are two numbers of "
                "workers; leave one out"
            )
        return self

    @property
    def written(self) -> frozenset[str]:
        """Names of the settings that a user wrote, also with their default value.

        A whole configuration, such as the ``config.json`` of a run, names every setting. In one, only other values than
        the defaults count.
        """
        fields = type(self).model_fields
        changed = {
            name
            for name, field in fields.items()
            if getattr(self, name) != field.get_default(call_default_factory=True)
        }
        complete = {name for name, field in fields.items() if field.default is not None}  # TOML has no null
        written = self.model_fields_set
        return frozenset(changed if written >= complete else changed | written)


def run_options(**fields: Any) -> RunOptions:
    """Create ``RunOptions`` from keyword arguments.

    Raises:
        UsageError: there is no such option, or it cannot have this value.
    """
    try:
        return RunOptions(**fields)
    except pydantic.ValidationError as error:
        problems = error.errors(include_url=False)
        messages = (f"run option {'.'.join(map(str, p['loc']))}: {p['msg']}; got {p['input']!r}" for p in problems)
        raise UsageError("; ".join(messages)) from None
