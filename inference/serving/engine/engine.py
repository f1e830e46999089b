"""vLLM in this process: a server without HTTP for one engine on one machine, which takes weights from memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ....errors import InfrastructureError, UsageError
from ...policy import Sampling
from ..answers import too_long
from ..launch.process import FILES, ServerOptions
from ..server import Capabilities, Pause, ServerResponse
from .calls import VllmEngine, version
from .thread import EngineThread, Request


class EngineServer:
    """vLLM's engine in a thread of this process; a context manager that starts and stops it.

    Only this thread uses the engine, one step at a time, so a pause falls between two tokens, and the version of
    each token is always known. Ids go in and come out without a tokenizer.

    ::

        with EngineServer("runs/bc/model") as engine:
            policy = RemotePolicy([engine])

    ``Pause.KEEP`` freezes requests, which continue with the new weights (and, unless ``reset_prefix_cache`` follows,
    with keys and values of the old ones). ``WAIT`` lets them finish, and ``ABORT`` ends them with their tokens so far.
    Requests that arrive during a pause wait. New weights come in the four phases of native transfer: as
    ``{"path": …}`` like those of ``turnwise_vllm_worker``, or as ``{"weights": state_dict}`` without leaving memory.
    Both pass the same checks, and both are all or nothing.

    A process can have one engine only. vLLM sets up torch.distributed for itself, so a trainer with its own process
    groups uses ``VllmProcess`` instead. The event loop shares the interpreter with the engine's thread.

    Args:
        model: folder of a model.
        options: options of the engine; port and transfer backend have no effect here.

    Raises:
        UsageError: the folder has no model, or the options have arguments that only a server takes.
    """

    def __init__(self, model: Path | str, options: ServerOptions | None = None) -> None:
        self.model = Path(model).expanduser().resolve()
        if not (self.model / "config.json").is_file():
            raise UsageError(f"cannot serve {model}: it has no config.json; name the folder of a model")
        self.options = options or ServerOptions()
        if self.options.extra:
            raise UsageError(
                f"arguments {' '.join(self.options.extra)} are for a server; the engine in this process takes none"
            )
        self._thread = EngineThread(lambda: VllmEngine(self.model, self.options))
        self._started = 0.0
        self._requests = 0
        self._updating = False
        self._staged: Mapping[str, Any] | None = None

    @property
    def address(self) -> str:
        """Name for messages, since there is no URL."""
        return "in process"

    # -- start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Load the model, which takes some seconds.

        Raises:
            UsageError: vLLM is not installed in this environment, or its version is not supported.
            InfrastructureError: the engine cannot be created.
        """
        if self._thread.alive:
            return self
        try:
            self._thread.start()
        except ModuleNotFoundError as error:
            raise UsageError(
                f"vLLM is not installed in this environment ({error}); scripts/install-vllm creates one with it"
            ) from error
        except UsageError as error:
            raise UsageError(f"the engine in this process {error}") from error
        except Exception as error:
            raise InfrastructureError(f"cannot create the engine for {self.model}: {error}") from error
        self._started = time.time()
        return self

    def stop(self) -> None:
        """Stop the engine; requests in flight fail."""
        self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def close(self) -> None:
        """Do nothing, since there are no connections; ``stop`` ends the engine."""

    # -- sampling ---------------------------------------------------------------------------------------------------

    async def probe(self) -> Capabilities:
        """Return its capabilities, which are known without trying anything."""
        return Capabilities(
            version=await self._thread.call(version),
            model=self.options.name,
            context_length=self.options.context_length,
            control=True,
            version_spans=True,
            transfer=FILES,
            reload=True,
            adapters=self.options.max_rank > 0,
            max_rank=self.options.max_rank,
            started=self._started,
            sleeps=self.options.sleep,
        )

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "", adapter: str | None = None
    ) -> ServerResponse:
        """Sample one continuation; see ``Sampler``.

        Raises:
            PromptTooLongError: the prompt leaves no room for a single token.
            ContractError: the prompt is empty or has an invalid id.
            InfrastructureError: the engine has stopped, or has no such adapter.
        """
        room = self.options.context_length - len(prompt_ids)
        if room < 1:
            raise too_long(len(prompt_ids), self.options.context_length)
        self._requests += 1
        loop = asyncio.get_running_loop()
        within = replace(sampling, max_tokens=min(sampling.max_tokens, room))
        request = Request(str(self._requests), tuple(prompt_ids), within, adapter, loop, loop.create_future())
        return await self._thread.generate(request)

    async def pause(self, mode: Pause) -> None:
        """Stop between two tokens; see ``Pausable``."""
        await self._thread.pause(mode)

    async def resume(self) -> None:
        """Continue, and start the requests that arrived during the pause."""
        await self._thread.resume()

    async def reset_prefix_cache(self) -> None:
        """Drop all keys and values; frozen requests read their tokens again.

        Raises:
            InfrastructureError: the engine does not clear its cache.
        """
        thread = self._thread
        if not await thread.call(lambda: thread.engine.reset_prefix_cache()):
            raise InfrastructureError("the engine in this process did not clear its prefix cache")

    async def sleep(self, level: int) -> None:
        """Free memory; see ``Sleeper``."""
        await self._thread.call(lambda: self._thread.engine.sleep(level))

    async def wake(self, tags: Sequence[str] = (), *, restore: bool = False) -> None:
        """Take memory back; see ``Sleeper``."""
        await self._thread.call(lambda: self._thread.engine.wake(tags, restore=restore))

    async def asleep(self) -> bool:
        """Return whether it sleeps."""
        return await self._thread.call(lambda: self._thread.engine.asleep())

    # -- adapters ---------------------------------------------------------------------------------------------------

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter.

        Raises:
            UsageError: the engine refuses the adapter, e.g. for its rank, or was started without adapters.
        """
        if not self.options.max_rank:
            raise UsageError("the engine in this process was started without adapters; set max_rank to their rank")
        try:
            await self._thread.call(lambda: self._thread.engine.load_adapter(name, folder))
        except InfrastructureError as error:
            raise UsageError(f"vLLM refuses adapter {name!r} in {folder}: {error}") from error

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter.

        Raises:
            UsageError: no adapter of this name is loaded.
        """
        try:
            await self._thread.call(lambda: self._thread.engine.unload_adapter(name))
        except InfrastructureError as error:
            raise UsageError(f"cannot unload adapter {name!r}: {error}") from error

    # -- weights ----------------------------------------------------------------------------------------------------

    async def reload(self, folder: Path) -> None:
        """Reload all weights, after the same checks as for transferred ones."""
        await self._thread.call(lambda: self._apply(self._checked({"path": str(folder)})))

    async def init_transfer(self, info: Mapping[str, Any]) -> None:
        """Drop an update that an earlier trainer left open; nothing needs to be negotiated."""
        await self._thread.call(lambda: self._open(False))

    async def start_update(self) -> None:
        """Start an update."""
        await self._thread.call(lambda: self._open(True))

    async def update(self, info: Mapping[str, Any]) -> None:
        """Take and check the weights, without using them yet.

        Args:
            info: ``{"path": file or folder}`` or ``{"weights": name → tensor}``, which must not change before
                ``finish_update`` returns.

        Raises:
            InfrastructureError: the weights are not a complete model like the served one; this ends the update.
        """

        def take() -> None:
            if not self._updating:
                raise RuntimeError("weights arrived before the update started")
            self._open(False)
            self._staged = self._checked(info)
            self._updating = True

        await self._thread.call(take)

    async def finish_update(self, version: int) -> None:
        """Use the new weights from the next token on.

        Raises:
            InfrastructureError: no weights arrived.
        """

        def finish() -> None:
            if self._staged is None:
                raise RuntimeError("no weights arrived between start and finish of the update")
            staged = self._staged
            self._open(False)
            self._apply(staged)
            self._thread.version = version

        await self._thread.call(finish)

    async def name_version(self, version: int) -> None:
        """Call the current weights ``version``."""

        def name() -> None:
            self._thread.version = version

        await self._thread.call(name)

    def _open(self, updating: bool) -> None:
        self._updating, self._staged = updating, None

    def _checked(self, info: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._thread.engine.checked(info)

    def _apply(self, weights: Mapping[str, Any]) -> None:
        self._thread.engine.apply(weights)
