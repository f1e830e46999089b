"""``ServerClient``: one vLLM server over HTTP, with every capability of ``server.py``."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import ContractError, InfrastructureError, PolicyServerError, UsageError
from ...policy import Sampling
from ..answers import reason, shortened, too_long
from ..server import Capabilities, Pause, ServerResponse
from . import reading, routes
from .probing import Found, Probing
from .wire import Wire

GLANCE_SECONDS, LOOKS = 10.0, 3
"""What takes longer, or fails more often, to tell when it was started is taken for another process."""
LASTING = ("started", "control", "version_spans", "transfer", "reload", "adapters")
"""Capabilities that a process keeps."""
RESETS = 20
"""How often an engine is asked again to forget its cache while transfers still hold blocks of it."""


class ServerClient:
    """One replica of ``vllm serve``.

    A client may be used in one event loop after another. Cancelling a call aborts its request on the server.

    Args:
        url: e.g. ``http://127.0.0.1:8000``.
        model: the name it must serve; omitted, the one that it serves.
        api_key: sent with every request, if the server asks for one.
        timeout: the longest that a call may take that controls the server or changes weights, in seconds.
        request_timeout: the same of ``generate``; by default whoever asks bounds it, as ``RemotePolicy`` does.

    Raises:
        UsageError: the URL is none.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
        request_timeout: float = math.inf,
    ) -> None:
        self._wire = Wire(url, api_key=api_key, timeout=timeout)
        self._model, self._request_timeout = model, request_timeout
        self._native = False
        self._known: Capabilities | None = None
        self._owner = secrets.token_hex(4)  # so that two trainers on one server are told apart
        self._names = False
        self.vocabulary: int | None = None
        """How many ids the model has, once somebody says so: an answer with a larger one is the server's fault."""
        self.root = ""
        """Where the server loaded its model from, once it was asked."""

    @property
    def address(self) -> str:
        """Its URL."""
        return self._wire.address

    async def probe(self) -> Capabilities:
        """Ask what it can do; see ``Sampler``."""
        found = await Probing(self._wire, self._model).ask()
        self._check_lost(found)
        self._native, self.root, self._known = found.native, found.root, found.capabilities
        return self._known

    def _check_lost(self, found: Found) -> None:
        """A process cannot lose what it could do: an answer on the way was at fault, and it is looked at again.

        Raises:
            InfrastructureError: it seems to have.
        """
        before, after = self._known, found.capabilities
        if before is None or before.started is None or after.started not in (None, before.started):
            return
        could = {name: bool(getattr(before, name)) and not getattr(after, name) for name in LASTING}
        could["native"] = self._native and not found.native
        if lost := [name for name, gone in could.items() if gone]:
            raise InfrastructureError(
                f"server {self.address} no longer has {', '.join(lost)}, although it may be the same process"
            )

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> ServerResponse:
        """Sample one continuation; see ``Sampler``.

        Raises:
            PolicyServerError: this one answer is at fault; the process is the one that was probed, and may be asked
                again.
            InfrastructureError: it is gone, or may be another process.
        """
        known = self._known or await self.probe()
        asked = time.perf_counter()
        room = known.context_length - len(prompt_ids)
        if room < 1:
            raise too_long(len(prompt_ids), known.context_length)
        if not prompt_ids or min(prompt_ids) < 0:
            raise ContractError(
                f"a prompt must have at least one id, none negative; got {shortened(tuple(prompt_ids))}"
            )
        within = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        call = routes.generate(prompt_ids, within, model=adapter or known.model, native=self._native, session=session)
        try:
            served = await self._once(call, prompt_ids, within)
        except PolicyServerError:
            raise
        except InfrastructureError as error:
            if await self._as_before(known):
                raise PolicyServerError(str(error)) from None
            raise
        return replace(served, completion=replace(served.completion, seconds=time.perf_counter() - asked))

    async def _once(self, call: routes.Call, prompt_ids: Sequence[int], sampling: Sampling) -> ServerResponse:
        """One request and its answer, held against it."""
        owner = self._owner if self._names else ""
        answer = await self._wire.send(call, within=self._request_timeout)
        try:
            content = self._wire.checked(answer)
        except UsageError as error:  # it took such requests before: what refuses them now is not the user's mistake
            raise PolicyServerError(str(error)) from None
        try:
            return reading.read_served(
                content, prompt_ids, sampling, native=self._native, owner=owner, vocabulary=self.vocabulary
            )
        except PolicyServerError as error:
            raise self._wire.named(error) from None

    async def _as_before(self, known: Capabilities) -> bool:
        """Whether this is still the process that was probed: a new one has other weights, and must not be asked."""
        if known.started is None:
            return False
        for _ in range(LOOKS):
            with contextlib.suppress(InfrastructureError):
                answer = await self._wire.send(routes.Call(routes.METRICS), within=GLANCE_SECONDS)
                if answer.status == 200 and (started := reading.read_started(answer.content)) is not None:
                    return started == known.started
        return False

    async def knows(self, token: int) -> bool:
        """Whether the model has an embedding for an id.

        Raises:
            InfrastructureError: it does not answer.
        """
        known = self._known or await self.probe()
        sampling = Sampling(max_tokens=1, seed=0)
        answer = await self._wire.send(routes.generate([token], sampling, model=known.model, native=self._native))
        if answer.status == 400:
            return False
        self._wire.checked(answer)
        return True

    async def tokenize(self, text: str) -> tuple[int, ...] | None:
        """The server's own ids of a text, nothing added; ``None`` if it has no tokenizer."""
        known = self._known or await self.probe()
        answer = await self._wire.send(routes.tokenize(text, known.model))
        if answer.status in (*routes.ABSENT, 400, 500):
            return None
        try:
            return reading.read_tokens(self._wire.checked(answer))
        except PolicyServerError as error:
            raise self._wire.named(error) from None

    # -- control ------------------------------------------------------------------------------------------------

    async def pause(self, mode: Pause) -> None:
        """Stop generating; see ``Pausable``."""
        await self._control(routes.pause(mode))

    async def resume(self) -> None:
        """Go on."""
        await self._control(routes.resume())

    async def reset_prefix_cache(self) -> None:
        """Drop all cached keys and values; see ``Pausable``.

        Raises:
            InfrastructureError: it cannot.
        """
        for tried in range(RESETS):
            answer = await self._control(routes.reset_prefix_cache())
            if not isinstance(answer, Mapping) or answer.get("success", True):
                return
            await asyncio.sleep(min(0.01 * 2**tried, 1.0))
        raise InfrastructureError(f"server {self.address} did not clear its prefix cache after {RESETS} requests")

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter; see ``AdapterHost``.

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
        """Reload all weights; see ``WeightReceiver``.

        Raises:
            InfrastructureError: it could not. vLLM has then dropped the old ones already, and the first request to come
                ends it, unless another folder is read before.
        """
        try:
            await self._control(routes.reload(folder))
        except InfrastructureError as error:
            raise InfrastructureError(
                f"{error}. It could not read {folder}, and has no weights now: load a good folder before the next "
                "request, or restart it"
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
            self._wire.checked(answer)

    async def close(self) -> None:
        """Let go of connections; the server goes on."""
        await self._wire.close()

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
                f"server {self.address} has no {path}: it was started without VLLM_SERVER_DEV_MODE=1, which weight "
                f"updates need. Start it with {routes.START}"
            )
        return self._wire.checked(answer)
