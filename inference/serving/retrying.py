"""Retries after faulty answers of a policy server: how many, and after which pauses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ...errors import PolicyServerError
from ...logs import event
from ..policy import Sampling
from .server import Sampler, ServerResponse

LOG = logging.getLogger(__name__)
TRIES = 6
"""Maximum number of faulty answers to one request before it fails."""
FIRST_PAUSE = 0.02
"""Seconds before the second try; doubles with each further one."""


def pause_after(faults: int) -> float:
    """Return the seconds to wait after this many faulty answers, counted from 1."""
    return FIRST_PAUSE * 2.0 ** (faults - 1)


def log_retry(error: Exception, faults: int, server: str) -> None:
    """Log that the same server gets a question again after this many faulty answers."""
    text = f"asking again: {error}"
    known = {"server": server, "error": type(error).__name__, "attempt": faults, "pause_seconds": pause_after(faults)}
    event(LOG, "retry", text, known)


async def generate_with_retries(
    server: Sampler, prompt: Sequence[int], sampling: Sampling, *, session: str, adapter: str | None
) -> ServerResponse:
    """Return one answer of this server, and retry if an answer is faulty.

    Raises:
        InfrastructureError: all answers are faulty, or the server cannot be reached.
    """
    for tried in range(1, TRIES):
        try:
            return await server.generate(prompt, sampling, session=session, adapter=adapter)
        except PolicyServerError as error:
            log_retry(error, tried, server.address)
            await asyncio.sleep(pause_after(tried))
    return await server.generate(prompt, sampling, session=session, adapter=adapter)
