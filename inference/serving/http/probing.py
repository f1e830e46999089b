"""Find the capabilities of a server when a run starts, and refuse a server that cannot work with an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ....errors import InfrastructureError, PolicyServerError, UsageError
from ...policy import Sampling
from ..answers import Answer
from ..retrying import FIRST_PAUSE, TRIES, pause_after
from ..server import Capabilities
from . import reading, routes
from .wire import Wire

T = TypeVar("T")
PROMPTS = ((1, 2, 3), (3, 2, 1), (2, 2), (0,))
"""Prompts to try until one of them distinguishes temperatures."""
ALIKE = 1e-3
"""Difference of log-probabilities below which they show nothing about the temperature."""
VERSION_SECONDS, SAMPLE_SECONDS = 30.0, 120.0
"""Maximum seconds for an answer about the server, and for one with sampled tokens. A server that does not report its
version in this time is down, or is not vLLM."""
PAUSED_SECONDS, PAUSED_CHECKS = 10.0, 20
"""Seconds to wait for a paused server, and number of checks. A weight update of another process is shorter."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of probing a server.

    Args:
        capabilities: capabilities of the server.
        native: whether it has the route that takes and returns ids alone.
        root: folder or hub name from which it loaded its model.
    """

    capabilities: Capabilities
    native: bool
    root: str


class Probing:
    """Probe one server, with one request after another.

    Args:
        wire: connection to the server.
        model: name of the model that it must serve; by default any.
    """

    def __init__(self, wire: Wire, model: str | None = None) -> None:
        self._wire = wire
        self._model = model

    async def probe(self) -> ProbeResult:
        """Send all requests and return what they show.

        Raises:
            UsageError: the server cannot be used; the message says how to start it.
            InfrastructureError: the server cannot be reached.
        """
        version = await self._read_version()
        card = await self._read_card()
        control = await self._wait_until_unpaused()  # before sampling, which a paused server would not answer
        native, spans = await self._find_route(card.name)
        found = reading.Info()
        if control:
            info = await self._send(routes.Call(routes.INFO))
            try:
                found = reading.read_info(info.content if info.status == 200 else None)
            except PolicyServerError as error:
                raise self._wire.named(error) from None
        await self._check_logprobs(card.name, native, found.mode)
        adapters = await self._has(routes.LOAD_ADAPTER) and (found.max_rank > 0 or not control)
        metrics = await self._send(routes.Call(routes.METRICS))
        capabilities = Capabilities(
            version=version,
            model=card.name,
            context_length=card.context_length,
            control=control,
            version_spans=spans,
            transfer=found.backend,
            reload=control and await self._has(routes.REMOTE),
            adapters=adapters,
            max_rank=found.max_rank if adapters else 0,
            started=reading.read_started(metrics.content) if metrics.status == 200 else None,
            sleeps=found.sleeps,
            workers=found.workers,
        )
        return ProbeResult(capabilities, native, card.root)

    async def _read_version(self) -> str:
        answer = await self._send(routes.Call(routes.VERSION))
        if answer.status in (404, 405):
            raise UsageError(
                f"{self._wire.address} answers, but is not a vLLM server: it has no {routes.VERSION}. Start one with "
                f"{routes.START}{self._chat_api_hint}"
            )
        try:
            return reading.read_version(self._wire.checked(answer))
        except UsageError as error:
            raise self._wire.named(UsageError(f"{error}{self._chat_api_hint}")) from None

    @property
    def _chat_api_hint(self) -> str:
        """Hint for a server that is not vLLM."""
        return f"; to evaluate a server that speaks OpenAI's chat API, write chat:{self._wire.address}/v1#MODEL"

    async def _read_card(self) -> reading.Card:
        try:
            cards = reading.read_cards(self._wire.checked(await self._send(routes.Call(routes.MODELS))))
        except UsageError as error:
            raise self._wire.named(error) from None
        if not cards:
            raise UsageError(f"server {self._wire.address} serves no model")
        if self._model is None:
            return next((card for card in cards if not card.adapter), cards[0])
        for card in cards:
            if card.name == self._model:
                return card
        raise UsageError(
            f"server {self._wire.address} does not serve {self._model!r}; it serves "
            f"{', '.join(repr(card.name) for card in cards)}"
        )

    async def _wait_until_unpaused(self) -> bool:
        """Wait until the server is not paused, and return whether it can be paused at all.

        Raises:
            UsageError: the server remains paused.
        """
        for _ in range(PAUSED_CHECKS):
            answer = await self._send(routes.Call(routes.IS_PAUSED))
            if answer.status != 200:
                return False
            if not reading.read_paused(answer.content):
                return True
            await asyncio.sleep(PAUSED_SECONDS / PAUSED_CHECKS)
        raise UsageError(
            f"server {self._wire.address} is paused and sends no answers: a weight update broke off, or takes long. "
            "Resume the run that trains with it, which sends all weights, or restart the server; POST "
            f"{routes.RESUME} wakes it with its current weights"
        )

    async def _find_route(self, model: str) -> tuple[bool, bool]:
        """Return whether it has the route that takes ids alone, and whether it reports weight versions there."""
        prompt, sampling = PROMPTS[0], Sampling(max_tokens=1, seed=0)
        for native in (True, False):
            call = routes.generate(prompt, sampling, model=model, native=native)
            absent = routes.ABSENT if native else ()
            try:
                spans = await self._sample(call, partial(_spans, prompt, sampling, native), absent)
            except PolicyServerError as error:
                if native:
                    continue  # older series do not return the prompt there, and spell out tokens in log-probabilities
                raise UsageError(str(error)) from None
            if spans is not None:
                return native, spans
        raise UsageError(f"server {self._wire.address} has neither {routes.NATIVE} nor {routes.COMPLETIONS}")

    async def _check_logprobs(self, model: str, native: bool, mode: str | None) -> None:
        """Check that log-probabilities are those of the sampled distribution, so that they depend on the temperature.

        The mode that the server reports decides only if the model finds all ids equally likely.

        Raises:
            UsageError: log-probabilities are the same at every temperature.
        """
        raw = mode is not None and mode != "processed_logprobs"
        for prompt in PROMPTS:
            calls = [
                routes.generate(prompt, Sampling(temperature, 1, seed=0), model=model, native=native, top=4)
                for temperature in (1.0, 0.5)
            ]
            tops = [await self._sample(call, partial(reading.read_top, native=native)) or {} for call in calls]
            shared = sorted(set(tops[0]) & set(tops[1]), key=lambda token: tops[0][token])
            if len(shared) < 2:
                continue
            plain, sharp = (top[shared[-1]] - top[shared[0]] for top in tops)
            if plain > ALIKE:
                raw = sharp < 1.5 * plain  # at temperature ½ the difference is doubled
                break
        if raw:
            raise UsageError(
                f"server {self._wire.address} returns log-probabilities that ignore the "
                f"temperature{f' ({mode})' if mode else ''}, so they differ from its sampling distribution; start it "
                "with --logprobs-mode processed_logprobs"
            )

    async def _has(self, path: str) -> bool:
        """Return whether a POST route exists: it answers a GET with "method not allowed" rather than "not found"."""
        return (await self._send(routes.Call(path))).status == 405

    async def _send(self, call: routes.Call, within: float | None = None) -> Answer:
        """Return the answer to a call; retry within the same time if the connection breaks or the server fails."""
        clock = asyncio.get_running_loop().time
        end = clock() + (VERSION_SECONDS if within is None else within)
        for tried in range(1, TRIES + 1):
            last = tried == TRIES
            try:
                answer = await self._wire.send(call, within=max(end - clock(), FIRST_PAUSE))
                if last or answer.status < 500 or answer.status in routes.ABSENT:
                    return answer
            except InfrastructureError:
                if last or clock() >= end:
                    raise
            await asyncio.sleep(pause_after(tried))
        raise AssertionError("unreachable")

    async def _sample(self, call: routes.Call, read: Callable[[Any], T], absent: Sequence[int] = ()) -> T | None:
        """Return the result of ``read`` for an answer; retry if it is faulty; ``None`` if there is no such route."""
        for tried in range(1, TRIES + 1):
            answer = await self._send(call, SAMPLE_SECONDS)
            if answer.status in absent:
                return None
            try:
                return read(self._wire.checked(answer))
            except PolicyServerError as error:
                if tried == TRIES:
                    raise (error if self._wire.address in str(error) else self._wire.named(error)) from None
            await asyncio.sleep(pause_after(tried))
        raise AssertionError("unreachable")


def _spans(prompt: Sequence[int], sampling: Sampling, native: bool, content: Any) -> bool:
    """Return whether a good answer reports weight versions."""
    reading.read_served(content, prompt, sampling, native=native)
    return native and bool(content["choices"][0].get("weight_versions"))
