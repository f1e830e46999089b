"""``McpService``: an environment as an MCP server, with one episode per session, over standard streams or HTTP."""

from __future__ import annotations

import asyncio
import importlib.metadata
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from ...envs.mcp.sdk import need_sdk
from ...envs.messages import Action, Observation, ToolCall
from ...envs.registry import make
from ...envs.toolenv import ToolEnv
from ...errors import TurnwiseError
from ...rollouts.episode import Episode
from ...rollouts.pool import EnvPool
from ...tasks.spec import TaskSpec
from . import content
from .episode import McpEpisode
from .streams import standard_streams

if TYPE_CHECKING:
    from mcp.server import Server

RESOURCE = "turnwise://task"
"""URI of the resource with the first observation."""
PROMPT = "task"
PATH = "/mcp"
"""URL path of the server over HTTP."""
IDLE = 30 * 60.0
"""Seconds without a request after which an HTTP client counts as disconnected."""


@dataclass(slots=True)
class McpConfig:
    """Settings of an MCP server.

    Args:
        env: environment id.
        seed: seed of the first session's task; later sessions count up.
        split: split of the tasks.
        level: level of the tasks (default: the lowest).
        template: template of the tasks (default: drawn by the seed).
        show_score: whether to report the score when an episode ends.
        env_kwargs: constructor arguments of the environment.
    """

    env: str
    seed: int = 0
    split: str = "train"
    level: int | None = None
    template: str | None = None
    show_score: bool = False
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)


class McpService:
    """Serves an environment: each session of a client is a separate episode.

    The first observation is the server's ``instructions``. For clients that do not show these, it is also the resource
    ``turnwise://task`` and the prompt ``task``. A call is one action of the agent. If the environment accepts plain
    messages, the tool ``say`` sends one. After the end of the episode, every further call reports that.

    The server supports only protocol versions with sessions; clients of later ones fall back to them.

    Args:
        config: settings of the server.
        finished: callback with the record of each finished episode.

    Raises:
        UsageError: the SDK is missing, or there is no such environment or task.
    """

    def __init__(self, config: McpConfig, finished: Callable[[Episode], None] = lambda episode: None) -> None:
        need_sdk()
        self._config, self._finished = config, finished
        env = make(config.env, **dict(config.env_kwargs))
        try:
            kind = type(env.unwrapped)
            self._family = env.unwrapped.tasks()  # type: ignore[attr-defined]
            names = [tool.name for tool in env.unwrapped.tools]  # type: ignore[attr-defined]
        finally:
            env.close()
        # If the environment has a tool of this name, clients talk to it through that tool.
        listens = "say" not in names and (not issubclass(kind, ToolEnv) or kind.said is not ToolEnv.said)
        self._say = "say"
        self._listens = listens
        self._run_seed = secrets.randbits(31)  # so that one store can have episodes of several runs
        self._number = 0
        self._task(0)  # report an invalid task now
        self._pool = EnvPool.of(config.env, env_kwargs=config.env_kwargs)
        self._open: dict[Any, _Visit] = {}

    async def over_streams(self, stdout: TextIO | None = None) -> None:
        """Serve one client over standard input and output, until it closes them.

        Args:
            stdout: file to write to instead of standard output.
        """
        from mcp.server.runner import serve_loop

        server = self._server()
        try:
            async with standard_streams(stdout) as (read, write):
                await serve_loop(server, read, write, lifespan_state={})
        finally:
            await self._pool.close()

    async def over_http(self, host: str, port: int, stop: asyncio.Event, listening: Callable[[str], None]) -> None:
        """Serve any number of clients over streamable HTTP, until ``stop``.

        Args:
            host: address to listen on.
            port: port to listen on; 0 picks a free one.
            stop: event that ends it.
            listening: callback with the URL.

        Raises:
            UsageError: the server cannot listen on the address.
        """
        from ..server import LoopServer

        server = self._server()
        app = server.streamable_http_app(
            streamable_http_path=PATH, json_response=True, host=host, session_idle_timeout=IDLE
        )
        try:
            # Open it outside the session manager's task group, which would wrap its errors.
            serving = await LoopServer.open(app, host=host, port=port)
            try:
                async with server.session_manager.run():
                    listening(f"http://{f'[{host}]' if ':' in host else host}:{serving.port}{PATH}")
                    await stop.wait()
            finally:
                await serving.close()
        finally:
            await self._pool.close()

    # -- sessions -----------------------------------------------------------------------------------------------

    def _task(self, number: int) -> TaskSpec:
        config = self._config
        spec: TaskSpec = self._family.spec(
            config.seed + number, split=config.split, level=config.level, template=config.template
        )
        return spec

    async def _visit(self, connection: Any) -> _Visit:
        """Return the visit of a connection, started if it is new."""
        visit: _Visit | None = connection.state.get(_Visit)
        if visit is None:
            number, self._number = self._number, self._number + 1
            episode = McpEpisode(self._pool, self._task(number), number, self._run_seed, self._finished)
            connection.exit_stack.push_async_callback(episode.leave)
            visit = connection.state[_Visit] = _Visit(episode, await episode.begin())
        return visit

    # -- the protocol -------------------------------------------------------------------------------------------

    def _server(self) -> Server[Any]:
        from mcp import types
        from mcp.server import Server

        server: Server[Any] = Server(
            f"turnwise {self._config.env}",
            version=importlib.metadata.version("turnwise"),
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
        )
        server.add_request_handler("server/discover", types.RequestParams, _discover)
        server.middleware.append(self._around)
        return server

    async def _around(self, ctx: Any, call_next: Any) -> Any:
        """Start the episode with the session, and give the session its own instructions."""
        from mcp import MCPError
        from mcp.types import INTERNAL_ERROR, UNSUPPORTED_PROTOCOL_VERSION
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        if ctx.method == "server/discover":
            return await call_next(ctx)
        if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            supported = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version}
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "an episode needs a session", supported)
        if ctx.method != "initialize":
            return await call_next(ctx)
        answer = await call_next(ctx)
        try:
            visit = await self._visit(_connection(ctx))
        except TurnwiseError as error:
            raise MCPError(INTERNAL_ERROR, content.plain(f"the episode could not begin: {error}")) from None
        return {**answer, "instructions": content.instructions(visit.first)}

    async def _tools(self, ctx: Any, params: Any) -> Any:
        from mcp.types import ListToolsResult

        visit = await self._visit(_connection(ctx))
        listed = [content.described(tool) for tool in visit.episode.tools]
        return ListToolsResult(tools=[*listed, content.said(self._say)] if self._listens else listed)

    async def _call(self, ctx: Any, params: Any) -> Any:
        visit, arguments = await self._visit(_connection(ctx)), params.arguments or {}
        action = Action.of(ToolCall(params.name, arguments, str(ctx.request_id or "")))
        if self._listens and params.name == self._say:
            text = arguments.get("text")
            if not isinstance(text, str) or set(arguments) != {"text"}:
                action = Action(problem=f"Error: {self._say} takes one argument, text, and that is a string.")
            else:
                action = Action(text)
        return content.result(await visit.episode.take(action), self._config.show_score)

    async def _resources(self, ctx: Any, params: Any) -> Any:
        from mcp.types import ListResourcesResult, Resource

        description = "What is asked of the agent: the first observation of the episode."
        task = Resource(uri=RESOURCE, name="task", description=description, mime_type="text/plain")
        return ListResourcesResult(resources=[task])

    async def _read(self, ctx: Any, params: Any) -> Any:
        from mcp import MCPError
        from mcp.types import INVALID_PARAMS, ReadResourceResult, TextResourceContents

        if str(params.uri) != RESOURCE:
            raise MCPError(INVALID_PARAMS, f"the only resource is {RESOURCE}")
        visit = await self._visit(_connection(ctx))
        text = content.instructions(visit.first)
        return ReadResourceResult(contents=[TextResourceContents(uri=RESOURCE, text=text, mime_type="text/plain")])

    async def _prompts(self, ctx: Any, params: Any) -> Any:
        from mcp.types import ListPromptsResult, Prompt

        return ListPromptsResult(prompts=[Prompt(name=PROMPT, description="What is asked of the agent.")])

    async def _prompt(self, ctx: Any, params: Any) -> Any:
        from mcp import MCPError
        from mcp.types import INVALID_PARAMS, GetPromptResult, PromptMessage

        if params.name != PROMPT:
            raise MCPError(INVALID_PARAMS, f"the only prompt is {PROMPT!r}")
        visit = await self._visit(_connection(ctx))
        said = [block for message in visit.first.messages for block in content.blocks(message)]
        return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in said])


@dataclass(frozen=True, slots=True)
class _Visit:
    """An episode of a session, and its first observation."""

    episode: McpEpisode
    first: Observation


def _connection(ctx: Any) -> Any:
    """Return the session's connection, which keeps state and is notified when the session ends."""
    return ctx.session._connection


async def _discover(ctx: Any, params: Any) -> Any:
    """Offer only versions with sessions; clients that requested others then greet with one of these."""
    from mcp.types import DiscoverResult, ServerCapabilities
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    return DiscoverResult(supported_versions=list(HANDSHAKE_PROTOCOL_VERSIONS), capabilities=ServerCapabilities())
