"""``ServerClient``: one vLLM server over HTTP, as the ``Server`` that the rest of Turnwise talks to."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import ContractError, InfrastructureError, PromptTooLongError, TurnwiseError, UsageError
from ..policy import Sampling
from . import routes
from .answers import Answer, reason, refusal, shortened
from .server import Capabilities, Pause, Served
from .wire import Wire

PROBES = ((1, 2, 3), (3, 2, 1), (2, 2), (0,))
"""Prompts that a probe tries until one of them tells temperatures apart."""
ALIKE = 1e-3
"""Log-probabilities closer than this say nothing about a temperature."""
VERSION_SECONDS = 30.0
"""What accepts a connection and does not say its version for so long is down, or something else."""
RESETS = 20
"""How often an engine is asked again to forget its cache while transfers still hold blocks of it."""


class ServerClient:
    """One replica of ``vllm serve``.

    A client may be used in one event loop after another. Cancelling a call aborts its request on the server.

    Args:
        url: e.g. ``http://127.0.0.1:8000``.
        model: the name it must serve; omitted, the one that it serves.
        api_key: sent with every request, if the server asks for one.
        timeout: the longest silence of a request, in seconds; what waits for weights that are changed is silent too.

    Raises:
        UsageError: the URL is none.
    """

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None, timeout: float = 600.0
    ) -> None:
        self._wire = Wire(url, api_key=api_key, timeout=timeout)
        self._model = model
        self._native = False
        self._known: Capabilities | None = None
        self._owner = secrets.token_hex(4)  # so that two trainers on one server are told apart
        self._names = False
        self.root = ""
        """Where the server loaded its model from, once it was asked."""

    @property
    def address(self) -> str:
        """Its URL."""
        return self._wire.address

    async def probe(self) -> Capabilities:
        """Ask what it can do; see ``Server``."""
        version = await self._version()
        card = await self._card()
        native, spans = await self._speaks_ids(card.name)
        control = (await self._wire.send(routes.Call(routes.IS_PAUSED))).status == 200
        backend, rank, mode = None, 0, None
        if control:
            info = await self._wire.send(routes.Call(routes.INFO))
            backend, rank, mode = routes.read_info(info.content if info.status == 200 else None)
        await self._processed(card.name, native, mode)
        adapters = await self._has(routes.LOAD_ADAPTER) and (rank > 0 or not control)
        metrics = await self._wire.send(routes.Call(routes.METRICS))
        self._native, self.root = native, card.root
        self._known = Capabilities(
            version=version,
            model=card.name,
            context_length=card.context_length,
            control=control,
            version_spans=spans,
            transfer=backend,
            reload=control and await self._has(routes.REMOTE),
            adapters=adapters,
            max_rank=rank if adapters else 0,
            started=routes.read_started(metrics.content) if metrics.status == 200 else None,
        )
        return self._known

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> Served:
        """Sample one continuation; see ``Server``."""
        known = self._known or await self.probe()
        asked = time.perf_counter()
        room = known.context_length - len(prompt_ids)
        if room < 1:
            raise too_long(len(prompt_ids), known.context_length)
        if not prompt_ids or min(prompt_ids) < 0:
            raise ContractError(f"a prompt is one or more ids from 0 on; got {shortened(tuple(prompt_ids))}")
        within = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        call = routes.generate(prompt_ids, within, model=adapter or known.model, native=self._native, session=session)
        try:
            content = await self._ask(call)
        except PromptTooLongError:
            raise too_long(len(prompt_ids), known.context_length) from None
        try:
            owner = self._owner if self._names else ""
            served = routes.read_served(content, prompt_ids, within, native=self._native, owner=owner)
        except TurnwiseError as error:
            raise self._named(error) from None
        return replace(served, completion=replace(served.completion, seconds=time.perf_counter() - asked))

    async def tokenize(self, text: str) -> tuple[int, ...] | None:
        """The server's own ids of a text, nothing added; ``None`` if it has no tokenizer."""
        known = self._known or await self.probe()
        answer = await self._wire.send(routes.tokenize(text, known.model))
        if answer.status in (*routes.ABSENT, 400, 500):
            return None
        return tuple(self._checked(answer)["tokens"])

    # -- control ------------------------------------------------------------------------------------------------

    async def pause(self, mode: Pause) -> None:
        """Stop generating; see ``Server``."""
        await self._control(routes.pause(mode))

    async def resume(self) -> None:
        """Go on."""
        await self._control(routes.resume())

    async def reset_prefix_cache(self) -> None:
        """Forget all cached keys and values; see ``Server``.

        Raises:
            InfrastructureError: it cannot.
        """
        for tried in range(RESETS):
            answer = await self._control(routes.reset_prefix_cache())
            if not isinstance(answer, Mapping) or answer.get("success", True):
                return
            await asyncio.sleep(min(0.01 * 2**tried, 1.0))
        raise InfrastructureError(f"server {self.address} did not forget its prefix cache, asked {RESETS} times")

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter; see ``Server``.

        Raises:
            UsageError: the server refuses it, e.g. for its rank, or does not see the folder.
        """
        await self._adapter(routes.load_adapter(name, folder), f"adapter {name!r} in {folder}")

    async def unload_adapter(self, name: str) -> None:
        """Forget an adapter.

        Raises:
            UsageError: there is none of that name.
        """
        await self._adapter(routes.unload_adapter(name), f"adapter {name!r}")

    async def reload(self, folder: Path) -> None:
        """Read all weights anew; see ``Server``.

        Raises:
            InfrastructureError: it could not. vLLM has then dropped the old ones already, and the first request to come
                ends it, unless another folder is read before.
        """
        try:
            await self._control(routes.reload(folder))
        except InfrastructureError as error:
            raise InfrastructureError(
                f"{error}. It could not read {folder}, and has no weights now: let it read a good folder before it is "
                "asked anything, or start it again"
            ) from error

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        """The first phase of native weight transfer."""
        await self._control(routes.init_transfer(info))

    async def start_update(self) -> None:
        """The second phase."""
        await self._control(routes.start_update())

    async def update(self, info: Mapping[str, Any]) -> None:
        """The third phase, once per chunk."""
        await self._control(routes.update(info))

    async def finish_update(self, version: int) -> None:
        """The fourth phase."""
        await self._control(routes.finish_update(version, self._owner))
        self._names = True

    async def name_version(self, version: int) -> None:
        """The weights it has are from now on called ``version``; nothing happens where it keeps no versions."""
        answer = await self._wire.send(routes.name_version(version, self._owner), once=True)
        self._names = True
        if answer.status not in routes.ABSENT:
            self._checked(answer)

    async def close(self) -> None:
        """Let go of connections; the server goes on."""
        await self._wire.close()

    # -- asking what it can do ------------------------------------------------------------------------------------

    async def _version(self) -> str:
        answer = await self._wire.send(routes.Call(routes.VERSION), within=VERSION_SECONDS)
        if answer.status in (404, 405):
            raise UsageError(
                f"{self.address} answers, but is no vLLM server: it has no {routes.VERSION}. Start one with "
                f"{routes.START}"
            )
        try:
            return routes.read_version(self._checked(answer))
        except UsageError as error:
            raise self._named(error) from None

    async def _card(self) -> routes.Card:
        try:
            cards = routes.read_cards(await self._ask(routes.Call(routes.MODELS)))
        except UsageError as error:
            raise self._named(error) from None
        if not cards:
            raise UsageError(f"server {self.address} serves no model")
        if self._model is None:
            return next((card for card in cards if not card.adapter), cards[0])
        for card in cards:
            if card.name == self._model:
                return card
        raise UsageError(
            f"server {self.address} does not serve {self._model!r}; it serves "
            f"{', '.join(repr(card.name) for card in cards)}"
        )

    async def _speaks_ids(self, model: str) -> tuple[bool, bool]:
        """Whether it has the route that knows ids alone, and tells weight versions there."""
        prompt, sampling = PROBES[0], Sampling(max_tokens=1, seed=0)
        for native in (True, False):
            answer = await self._wire.send(routes.generate(prompt, sampling, model=model, native=native))
            if native and answer.status in routes.ABSENT:
                continue
            content = self._checked(answer)
            try:
                routes.read_served(content, prompt, sampling, native=native)
            except ContractError as error:
                if native:
                    continue  # older series do not echo there what they read, and spell tokens in log-probabilities
                raise self._named(UsageError(str(error))) from None
            return native, native and bool(content["choices"][0].get("weight_versions"))
        raise UsageError(f"server {self.address} has neither {routes.NATIVE} nor {routes.COMPLETIONS}")

    async def _processed(self, model: str, native: bool, mode: str | None) -> None:
        """Log-probabilities must be of the distribution sampled from: asked at two temperatures, they must differ.

        What a server says of its mode decides only where the model finds all ids equally likely.

        Raises:
            UsageError: they are the same at every temperature.
        """
        raw = mode is not None and mode != "processed_logprobs"
        for prompt in PROBES:
            tops = [
                routes.read_top(
                    await self._ask(
                        routes.generate(prompt, Sampling(temperature, 1, seed=0), model=model, native=native, top=4)
                    ),
                    native=native,
                )
                for temperature in (1.0, 0.5)
            ]
            shared = sorted(set(tops[0]) & set(tops[1]), key=lambda token: tops[0][token])
            if len(shared) < 2:
                continue
            plain, sharp = (top[shared[-1]] - top[shared[0]] for top in tops)
            if plain > ALIKE:
                raw = sharp < 1.5 * plain  # at temperature ½ the difference is doubled
                break
        if raw:
            raise UsageError(
                f"server {self.address} gives log-probabilities that ignore the temperature"
                f"{f' ({mode})' if mode else ''}, which are not those of the distribution it samples from; start it "
                "with --logprobs-mode processed_logprobs"
            )

    async def _has(self, path: str) -> bool:
        """Whether a POST route exists: to a GET it then says "method not allowed" rather than "not found"."""
        return (await self._wire.send(routes.Call(path))).status == 405

    # -- the wire ---------------------------------------------------------------------------------------------------

    async def _adapter(self, call: routes.Call, what: str) -> None:
        answer = await self._wire.send(call, once=True)
        if answer.status in (404, 405) and "adapter" not in reason(answer.content).lower():
            raise UsageError(
                f"server {self.address} cannot change adapters while it runs; start it with --enable-lora and "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
            )
        if not 200 <= answer.status < 300:
            said = reason(answer.content)
            raise UsageError(f"server {self.address} refuses {what} ({answer.status}): {said}")

    async def _control(self, call: routes.Call) -> Any:
        answer = await self._wire.send(call, once=True)
        if answer.status in (404, 405):
            path = call.path.partition("?")[0]
            raise UsageError(
                f"server {self.address} has no {path}: it was started without VLLM_SERVER_DEV_MODE=1, which changing "
                f"weights needs. Start it with {routes.START}"
            )
        return self._checked(answer)

    async def _ask(self, call: routes.Call) -> Any:
        return self._checked(await self._wire.send(call))

    def _checked(self, answer: Answer) -> Any:
        if 200 <= answer.status < 300:
            return answer.content
        raise self._named(refusal(answer))

    def _named(self, error: TurnwiseError) -> TurnwiseError:
        return type(error)(f"server {self.address}: {error}")


def too_long(length: int, context_length: int) -> PromptTooLongError:
    """The error of a prompt that leaves no room for an action."""
    return PromptTooLongError(
        f"the prompt has {length} tokens and the context holds {context_length}, which leaves no room for an action: "
        "use a shorter context strategy (last:k, summary), or start the server with a larger --max-model-len"
    )
