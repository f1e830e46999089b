"""Retries after faulty answers of a policy server: how many, and after which pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...errors import PolicyServerError
from ..policy import Sampling
from .server import Sampler, ServerResponse

TRIES = 6
"""Maximum number of faulty answers to one request before it fails."""
FIRST_PAUSE = 0.02
"""Seconds before the second try; doubles with each further one."""


def pause_after(faults: int) -> float:
    """Return the seconds to wait after this many faulty answers, counted from 1."""
    return FIRST_PAUSE * 2.0 ** (faults - 1)


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
        except PolicyServerError:
            await asyncio.sleep(pause_after(tried))
    return await server.generate(prompt, sampling, session=session, adapter=adapter)
