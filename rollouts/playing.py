"""Play one episode to its end: attempts until one ends by itself, or too many have failed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..agents.agent import Agent
from ..errors import InfrastructureError
from .episode import Episode, Outcome
from .episode_request import EpisodeRequest, log_retry
from .episode_run import EpisodeRun
from .episode_state import HostProvider
from .options import RunOptions
from .stats import RunStats
from .turns import one_line

LONGEST_BACKOFF = 30.0
T = TypeVar("T")


async def play_request(
    request: EpisodeRequest, provider: HostProvider, agent: Agent, options: RunOptions, stats: RunStats
) -> Episode:
    """Play one episode, and retry after infrastructure failures as often as ``options.retries`` allows.

    Args:
        request: the episode.
        provider: source of environments.
        agent: agent that acts.
        options: options of the run.
        stats: statistics for retries and failures, and for a cancelled episode; the caller adds any other.

    Raises:
        ContractError: the agent broke its contract.
        UsageError: the task or a setting is wrong.
    """
    attempt = EpisodeRun(request, 1, agent, options)

    async def play(number: int) -> Episode:
        nonlocal attempt
        attempt = attempt if number == 1 else attempt.retry()
        return await attempt.play(provider)

    try:
        return await with_retries(play, request, options, stats)
    except InfrastructureError as error:
        return attempt.sealed(Outcome.INFRA_FAILED, error=one_line(error))
    except asyncio.CancelledError:
        # Counted, although nothing is yielded: a run that drops its slow episodes would otherwise look complete.
        stats.add(attempt.sealed(Outcome.CANCELLED, error="the run was stopped"))
        raise
    finally:
        await attempt.release()


async def with_retries(
    play: Callable[[int], Awaitable[T]], request: EpisodeRequest, options: RunOptions, stats: RunStats
) -> T:
    """Return the result of the first attempt without an infrastructure failure.

    Only failures that the agent did not cause are retried: a retry of its own failures would make them rarer in the
    data than they are.

    Args:
        play: plays one attempt, given its number from 1.
        request: the episode, for the log.
        options: options of the run: ``retries`` and ``backoff``.
        stats: statistics for retries and failures.

    Raises:
        InfrastructureError: the failure of the last attempt that ``options.retries`` allows.
    """
    for number in itertools.count(1):
        try:
            return await play(number)
        except InfrastructureError as error:
            stats.failures[type(error).__name__] += 1
            if number > options.retries:
                raise
            reason = one_line(error)
        wait = min(options.backoff * 2 ** (number - 1), LONGEST_BACKOFF)
        log_retry(request, number, reason, wait)
        await asyncio.sleep(wait)
        stats.retries += 1
    raise AssertionError("attempts are counted without end")
