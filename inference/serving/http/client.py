"""``ServerClient``: one vLLM server over HTTP, with every capability of ``server.py``."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ....errors import ContractError, InfrastructureError, PolicyServerError, UsageError
from ...policy import Sampling
from ..answers import reason, shortened, too_long
from ..server import Capabilities, Pause, ServerLoad, ServerResponse
from . import reading, routes
from .load import read_load
from .probing import ProbeResult, Probing
from .wire import Wire

START_SECONDS, START_TRIES = 10.0, 3
"""Seconds and tries for a server to report its start time; without it, the server counts as another process."""
LASTING = ("started", "control", "version_spans", "transfer", "reload", "adapters", "sleeps")
"""Capabilities that a process cannot lose."""
RESETS = 20
"""Maximum number of requests to clear the prefix cache, which fail while transfers still use some of its blocks."""


class ServerClient:
    """One replica of ``vllm serve``.

    A client may be used in one event loop after another. Cancelling a call aborts its request on the server.

    Args:
        url: URL of the server, e.g. ``http://127.0.0.1:8000``.
        model: name of the model that it must serve; by default any.
        api_key: key to send with every request, if the server requires one.
        timeout: maximum seconds of a call that controls the server or changes its weights.
        request_timeout: maximum seconds of ``generate``; by default the caller sets a limit, as ``RemotePolicy`` does.

    Raises:
        UsageError: the URL is not valid.
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
        self._api_key, self._timeout = api_key, timeout
        self._model, self._request_timeout = model, request_timeout
        self._wire = Wire(url, api_key=api_key, timeout=timeout)
        self._native = False
        self._known: Capabilities | None = None
        self._owner = secrets.token_hex(4)  # distinguishes two trainers on one server
        self._has_named = False
        self.vocabulary: int | None = None
        """Number of ids of the model, if the caller sets it; a larger id in an answer is then the server's fault."""
        self.root = ""
        """Folder or name from which the server loaded its model; empty before ``probe``."""

    def __reduce__(self) -> Any:
        """Make the client again in another process; connections and what is known of the server stay here."""
        made = partial(
            ServerClient,
            self._wire.address,
            model=self._model,
            api_key=self._api_key,
            timeout=self._timeout,
            request_timeout=self._request_timeout,
        )
        return made, (), (None, {"vocabulary": self.vocabulary})

    @property
    def address(self) -> str:
        """URL of the server."""
        return self._wire.address

    async def probe(self) -> Capabilities:
        """Ask for its capabilities; see ``Sampler``."""
        found = await Probing(self._wire, self._model).probe()
        self._check_lost(found)
        self._native, self.root, self._known = found.native, found.root, found.capabilities
        return self._known

    def _check_lost(self, found: ProbeResult) -> None:
        """Check that the process has not lost capabilities; it cannot, so the probe must have met a faulty answer.

        Raises:
            InfrastructureError: a capability is missing.
        """
        before, after = self._known, found.capabilities
        if before is None or before.started is None or after.started not in (None, before.started):
            return
        missing = {name: bool(getattr(before, name)) and not getattr(after, name) for name in LASTING}
        missing["native"] = self._native and not found.native
        if lost := [name for name, gone in missing.items() if gone]:
            raise InfrastructureError(
                f"server {self.address} no longer has {', '.join(lost)}, although it may be the same process"
            )

    async def point_at(self, url: str) -> None:
        """Send all further calls to another URL, at which the server is now; ``probe`` finds out what is there."""
        if url.rstrip("/") != self._wire.address:
            before, self._wire = self._wire, Wire(url, api_key=self._api_key, timeout=self._timeout)
            await before.close()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> ServerResponse:
        """Sample one continuation; see ``Sampler``.

        Raises:
            PolicyServerError: the answer is faulty, but it is the process that was probed, so you may try again.
            InfrastructureError: the server cannot be reached, or may be another process.
        """
        known = self._known or await self.probe()
        started = time.perf_counter()
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
            served = await self._request_once(call, prompt_ids, within)
        except PolicyServerError:
            raise
        except InfrastructureError as error:
            if await self._is_same_process(known):
                raise PolicyServerError(str(error)) from None
            raise
        return replace(served, completion=replace(served.completion, seconds=time.perf_counter() - started))

    async def _request_once(self, call: routes.Call, prompt_ids: Sequence[int], sampling: Sampling) -> ServerResponse:
        """Send one request, and check its answer."""
        owner = self._owner if self._has_named else ""
        answer = await self._wire.send(call, within=self._request_timeout)
        try:
            content = self._wire.checked(answer)
        except UsageError as error:  # it accepted such requests before, so this is not the user's mistake
            raise PolicyServerError(str(error)) from None
        try:
            return reading.read_served(
                content, prompt_ids, sampling, native=self._native, owner=owner, vocabulary=self.vocabulary
            )
        except PolicyServerError as error:
            raise self._wire.named(error) from None

    async def _is_same_process(self, known: Capabilities) -> bool:
        """Return whether this is still the process that was probed; a new one has other weights."""
        if known.started is None:
            return False
        for _ in range(START_TRIES):
            with contextlib.suppress(InfrastructureError):
                answer = await self._wire.send(routes.Call(routes.METRICS), within=START_SECONDS)
                if answer.status == 200 and (started := reading.read_started(answer.content)) is not None:
                    return started == known.started
        return False

    async def has_embedding(self, token: int) -> bool:
        """Return whether the model has an embedding for an id.

        Raises:
            InfrastructureError: the server does not answer.
        """
        known = self._known or await self.probe()
        sampling = Sampling(max_tokens=1, seed=0)
        answer = await self._wire.send(routes.generate([token], sampling, model=known.model, native=self._native))
        if answer.status == 400:
            return False
        self._wire.checked(answer)
        return True

    async def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Return the server's ids of a text without special tokens added; ``None`` if it has no tokenizer."""
        known = self._known or await self.probe()
        answer = await self._wire.send(routes.tokenize(text, known.model))
        if answer.status in (*routes.ABSENT, 400, 500):
            return None
        try:
            return reading.read_tokens(self._wire.checked(answer))
        except PolicyServerError as error:
            raise self._wire.named(error) from None

    async def load(self) -> ServerLoad | None:
        """Return its present load; see ``Counting``."""
        answer = await self._wire.send(routes.Call(routes.METRICS), within=START_SECONDS)
        return read_load(answer.content) if answer.status == 200 else None

    # -- control ------------------------------------------------------------------------------------------------

    async def pause(self, mode: Pause) -> None:
        """Stop generating; see ``Pausable``."""
        await self._control(routes.pause(mode))

    async def resume(self) -> None:
        """Continue to generate."""
        await self._control(routes.resume())

    async def sleep(self, level: int) -> None:
        """Free memory; see ``Sleeper``."""
        await self._control(routes.sleep(level))

    async def wake(self, tags: Sequence[str] = (), *, restore: bool = False) -> None:
        """Take memory back; see ``Sleeper``."""
        await self._control(routes.wake(tags))
        if restore:
            await self._control(routes.restore())

    async def asleep(self) -> bool:
        """Return whether it sleeps; a server without the route does not."""
        answer = await self._wire.send(routes.Call(routes.IS_SLEEPING))
        return answer.status == 200 and isinstance(answer.content, Mapping) and bool(answer.content.get("is_sleeping"))

    async def reset_prefix_cache(self) -> None:
        """Drop all cached keys and values; see ``Pausable``.

        Raises:
            InfrastructureError: the server does not clear its cache.
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
            UsageError: the server refuses the adapter, e.g. for its rank, or does not see the folder.
        """
        await self._adapter(routes.load_adapter(name, folder), f"adapter {name!r} in {folder}")

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter.

        Raises:
            UsageError: no adapter of this name is loaded.
        """
        await self._adapter(routes.unload_adapter(name), f"adapter {name!r}")

    async def reload(self, folder: Path) -> None:
        """Reload all weights; see ``WeightReceiver``.

        Raises:
            InfrastructureError: it failed. vLLM has already dropped the old weights then, and the next request ends
                the server unless another reload succeeds before.
        """
        try:
            await self._control(routes.reload(folder))
        except InfrastructureError as error:
            raise InfrastructureError(
                f"{error}. It could not read {folder}, and has no weights now: load a good folder before the next "
                "request, or restart it"
            ) from error

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        """Phase 1 of native weight transfer."""
        await self._control(routes.init_transfer(info))

    async def leave_transfer(self) -> None:
        """Leave the group of an earlier first phase; does nothing on servers before 0.32, which have no such route."""
        answer = await self._wire.send(routes.leave_transfer(), once=True)
        if answer.status not in routes.ABSENT:
            self._wire.checked(answer)

    async def started(self) -> float | None:
        """Return the start time of its process; see ``Leaver``."""
        answer = await self._wire.send(routes.Call(routes.METRICS), within=START_SECONDS)
        return reading.read_started(answer.content) if answer.status == 200 else None

    async def start_update(self) -> None:
        """Phase 2 of native weight transfer."""
        await self._control(routes.start_update())

    async def update(self, info: Mapping[str, Any]) -> None:
        """Phase 3 of native weight transfer, once per chunk."""
        await self._control(routes.update(info))

    async def finish_update(self, version: int) -> None:
        """Phase 4 of native weight transfer."""
        await self._control(routes.finish_update(version, self._owner))
        self._has_named = True

    async def name_version(self, version: int) -> None:
        """Call its current weights ``version``; does nothing where it keeps no versions."""
        answer = await self._wire.send(routes.name_version(version, self._owner), once=True)
        self._has_named = True
        if answer.status not in routes.ABSENT:
            self._wire.checked(answer)

    async def close(self) -> None:
        """Close connections; the server continues to run."""
        await self._wire.close()

    # -- requests ---------------------------------------------------------------------------------------------------

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
