"""How often a policy server is asked again whose answer is at fault, and after which pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...errors import PolicyServerError
from ..policy import Sampling
from .server import Sampler, ServerResponse

TRIES = 6
"""The most faulty answers to one question before it fails."""
FIRST_PAUSE = 0.02
"""Seconds before the second try; doubled for each later one."""


def pause_after(faults: int) -> float:
    """Return the seconds to wait after this many faulty answers, counted from 1."""
    return FIRST_PAUSE * 2.0 ** (faults - 1)


async def patiently(
    server: Sampler, prompt: Sequence[int], sampling: Sampling, *, session: str, adapter: str | None
) -> ServerResponse:
    """Return one answer of this very server, asked again where it is at fault.

    Raises:
        InfrastructureError: it is at fault each time, or gone.
    """
    for tried in range(1, TRIES):
        try:
            return await server.generate(prompt, sampling, session=session, adapter=adapter)
        except PolicyServerError:
            await asyncio.sleep(pause_after(tried))
    return await server.generate(prompt, sampling, session=session, adapter=adapter)
