"""Options of a run of episodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from ..config import Config
from ..errors import UsageError

Isolation = Literal["auto", "inline", "thread", "process"]
ENV_TIMEOUT = 120.0
"""Default time in seconds that an environment has for one call."""


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
    isolation: Isolation = "auto"
    """Place of the environments: ``inline`` in the event loop, ``thread``, ``process``; ``auto``: the class decides."""
    seed: Annotated[int, pydantic.Field(ge=0)] = 0
    """Seed of the run, which determines episode ids and the agents' random numbers."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environment, and ``turn_limit``: a limit that the run sets, which truncates."""


def run_options(**fields: Any) -> RunOptions:
    """Create ``RunOptions`` from keyword arguments.

    Raises:
        UsageError: there is no such option, or it cannot have this value.
    """
    try:
        return RunOptions(**fields)
    except pydantic.ValidationError as error:
        problems = error.errors(include_url=False)
        told = (f"run option {'.'.join(map(str, p['loc']))}: {p['msg']}; got {p['input']!r}" for p in problems)
        raise UsageError("; ".join(told)) from None
