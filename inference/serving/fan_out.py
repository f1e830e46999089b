"""One call to many servers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from ...errors import InfrastructureError


class Addressed(Protocol):
    """An object with an address for messages."""

    @property
    def address(self) -> str:
        """URL, or ``in process``."""
        ...


S = TypeVar("S", bound=Addressed)
T = TypeVar("T")


class Gathered(NamedTuple, Generic[S, T]):
    """Answers and failures of one call to many servers.

    Args:
        answers: servers that answered, each with its answer, in the order of the call.
        failures: servers that could not be reached or did not answer in time.
    """

    answers: list[tuple[S, T]]
    failures: list[tuple[S, InfrastructureError]]


async def fan_out(
    servers: Iterable[S], call: Callable[[S], Awaitable[T]], *, what: str = "answer", seconds: float | None = None
) -> Gathered[S, T]:
    """Call all servers at once and wait for all of them, also when one fails.

    Args:
        servers: servers to call.
        call: coroutine function of one server.
        what: the call as a verb for messages: ``"did not …"``.
        seconds: time limit of each call; ``None`` for no limit.

    Raises:
        Exception: the first error that is not an ``InfrastructureError``: a refusal, which the others would repeat.
    """
    called = list(servers)

    async def timed(server: S) -> T:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await call(server)
        except TimeoutError:
            if not limit.expired():
                raise
            raise InfrastructureError(
                f"{server.address} did not {what} within {seconds:g} s; see its log, or raise server.timeout"
            ) from None

    answers: list[tuple[S, T]] = []
    failures: list[tuple[S, InfrastructureError]] = []
    results = await asyncio.gather(*map(timed, called), return_exceptions=True)
    for server, result in zip(called, results, strict=True):
        if isinstance(result, InfrastructureError):
            failures.append((server, result))
        elif isinstance(result, BaseException):
            raise result
        else:
            answers.append((server, result))
    return Gathered(answers, failures)
