"""``Endpoint``: one server with the APIs of OpenAI and Anthropic for any number of episodes, each with its own key."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from ..envs.messages import Action, ToolCall
from ..errors import RequestError, UsageError
from . import anthropic_messages, chat
from .incoming import GONE, ClientGone, read_json, unless_gone
from .recorder import Recorder
from .requests import called, read_chat
from .responses import Responses, events
from .server import LoopServer

T = TypeVar("T")
KEY_BYTES = 24
MESSAGES = "/v1/messages"


class World(Protocol):
    """An episode's environment, as a program may use it."""

    async def look(self) -> dict[str, Any]:
        """Return the current observation."""
        ...

    async def take(self, action: Action) -> dict[str, Any]:
        """Take one action and return the next observation."""
        ...


class Client:
    """Client of one episode, identified by its key.

    Args:
        recorder: recorder that answers its requests.
        world: environment that it may act in; ``None`` if there is none.
        failed: callback for infrastructure failures during its requests.
    """

    def __init__(
        self, recorder: Recorder, world: World | None = None, failed: Callable[[Exception], None] | None = None
    ) -> None:
        self.recorder, self.world = recorder, world
        self.responses = Responses(recorder)
        self._failed = failed

    def fail(self, error: Exception) -> None:
        """Report an infrastructure failure, which is not the client's fault."""
        if self._failed is not None:
            self._failed(error)


class Endpoint:
    """HTTP server, started by the first client in the running event loop, and closed with that loop at the latest.

    Every request names its episode by a key that cannot be guessed: as a bearer token (``Authorization``), as
    ``x-api-key``, or in the path, ``/episodes/{key}/v1/…``, for a program that accepts only a URL. A key is valid for
    one episode.

    Args:
        model: name of the policy; clients may request any name.
        host: address to listen on; this machine only, by default.
        port: port to listen on; 0 picks a free one.
        max_body: maximum size of a request in bytes.
    """

    def __init__(
        self, *, model: str = "policy", host: str = "127.0.0.1", port: int = 0, max_body: int = 8 * 1024 * 1024
    ) -> None:
        self.model, self.host, self.port, self.max_body = model, host, port, max_body
        self._clients: dict[str, Client] = {}
        self._opening: asyncio.Task[LoopServer] | None = None
        self.app = _application(self)

    async def start(self) -> str:
        """Start serving, unless already running, and return the base URL without a path.

        Raises:
            UsageError: the server cannot listen on the address.
        """
        opening = self._opening
        if opening is None or opening.get_loop() is not asyncio.get_running_loop() or _failed(opening):
            opening = asyncio.ensure_future(LoopServer.open(self.app, host=self.host, port=self.port))
            self._opening = opening
        server = await asyncio.shield(opening)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{server.port}"

    async def close(self) -> None:
        """Stop serving."""
        opening, self._opening = self._opening, None
        if opening is not None and opening.get_loop() is asyncio.get_running_loop() and not _failed(opening):
            await (await opening).close()

    def register(self, client: Client, key: str | None = None) -> str:
        """Return a new key for a client."""
        made = key or f"tw-{secrets.token_urlsafe(KEY_BYTES)}"
        self._clients[made] = client
        return made

    def unregister(self, key: str) -> None:
        """Invalidate the key."""
        self._clients.pop(key, None)

    def client(self, request: Request) -> Client:
        """Return the client who sent a request.

        Raises:
            RequestError: the key is unknown.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        key = request.path_params.get("key") or request.headers.get("x-api-key") or bearer
        if key not in self._clients:
            raise RequestError(
                "the API key does not belong to a running episode; use the one that the program received in "
                "OPENAI_API_KEY or ANTHROPIC_API_KEY",
                status=401,
                code="invalid_api_key",
            )
        return self._clients[key]


class _Routes:
    """Implementation of the routes: read a request, find its client, and return the answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def models(self, request: Request) -> Response:
        """``GET /v1/models``."""
        self._endpoint.client(request)
        name = self._endpoint.model
        model = {"id": name, "object": "model", "created": 0, "owned_by": "turnwise"}  # what OpenAI's clients read
        model |= {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}  # and Anthropic's
        ends = {"has_more": False, "first_id": name, "last_id": name}
        return JSONResponse({"object": "list", "data": [model], **ends})

    async def chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions``."""
        client, body = await self._read(request)
        asked = read_chat(body)
        answer = await self._sampled(request, client, client.recorder.answer(asked))
        model = self._endpoint.model
        if asked.stream:
            lines = chat.pieces(answer, model=model, logprobs=asked.logprobs, with_usage=asked.stream_usage)
            return _stream(lines)
        return JSONResponse(chat.completion(answer, model=model, logprobs=asked.logprobs))

    async def responses(self, request: Request) -> Response:
        """``POST /v1/responses``."""
        client, body = await self._read(request)
        turned = client.responses.read(body)
        made = await self._sampled(request, client, client.responses.answer(turned, model=self._endpoint.model))
        if turned.asked.stream:
            return _stream(events(made))
        return JSONResponse(made)

    async def messages(self, request: Request) -> Response:
        """``POST /v1/messages``."""
        client, body = await self._read(request)
        asked = anthropic_messages.read_messages(body)
        answer = await self._sampled(request, client, client.recorder.answer(asked))
        made = anthropic_messages.message(answer, model=self._endpoint.model)
        return _stream(anthropic_messages.events(made)) if asked.stream else JSONResponse(made)

    async def count_tokens(self, request: Request) -> Response:
        """``POST /v1/messages/count_tokens``; nothing of it is recorded."""
        client, body = await self._read(request)
        return JSONResponse({"input_tokens": client.recorder.count(anthropic_messages.read_messages(body))})

    async def look(self, request: Request) -> Response:
        """``GET …/env``."""
        return JSONResponse(await unless_gone(request, _world(self._endpoint.client(request)).look()))

    async def act(self, request: Request) -> Response:
        """``POST …/env``."""
        client, body = await self._read(request)
        return JSONResponse(await unless_gone(request, _world(client).take(_action(body))))

    async def tool(self, request: Request) -> Response:
        """``POST …/tools/{name}``."""
        client, body = await self._read(request)
        if not isinstance(body, dict):
            raise RequestError("the body must be a JSON object: the tool's arguments")
        call = ToolCall(request.path_params["name"], body)
        return JSONResponse(await unless_gone(request, _world(client).take(Action(tool_calls=(call,)))))

    async def _read(self, request: Request) -> tuple[Client, Any]:
        client = self._endpoint.client(request)  # check the key before reading the body
        return client, await read_json(request, self._endpoint.max_body)

    async def _sampled(self, request: Request, client: Client, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await unless_gone(request, work)
        except (RequestError, UsageError, ClientGone):
            raise
        except Exception as error:  # not the client's fault, so the episode must record it
            client.fail(error)
            raise RequestError(f"the policy failed: {error}", status=503, code="policy_unavailable") from error


def _application(endpoint: Endpoint) -> FastAPI:
    app = FastAPI(title="Turnwise", docs_url=None, redoc_url=None, openapi_url=None)
    routes = _Routes(endpoint)
    for before in ("", "/episodes/{key}"):
        app.add_api_route(f"{before}/v1/models", routes.models, methods=["GET"])
        app.add_api_route(f"{before}/v1/chat/completions", routes.chat, methods=["POST"])
        app.add_api_route(f"{before}/v1/responses", routes.responses, methods=["POST"])
        app.add_api_route(f"{before}{MESSAGES}", routes.messages, methods=["POST"])
        app.add_api_route(f"{before}{MESSAGES}/count_tokens", routes.count_tokens, methods=["POST"])
        app.add_api_route(f"{before}/env", routes.look, methods=["GET"])
        app.add_api_route(f"{before}/env", routes.act, methods=["POST"])
        app.add_api_route(f"{before}/tools/{{name}}", routes.tool, methods=["POST"])
    app.add_api_route("/health", _healthy, methods=["GET"])
    for kind in (RequestError, UsageError, HTTPException, ClientGone):
        app.add_exception_handler(kind, _explained)
    return app


async def _healthy() -> Response:
    return Response()


def _stream(lines: Iterable[str]) -> Response:
    async def in_loop() -> AsyncIterator[str]:
        for line in lines:  # Starlette would run a plain iterator in a thread, line by line
            yield line

    return StreamingResponse(in_loop(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def _explained(request: Request, error: Exception) -> Response:
    """Return an error in the format of OpenAI's clients, or of Anthropic's on their routes."""
    status, param, code = 500, None, "internal_error"
    if isinstance(error, RequestError):
        status, param, code = error.status, error.param, error.code
    elif isinstance(error, UsageError):  # a chat template that refuses the messages
        status, code = 400, "invalid_request"
    elif isinstance(error, HTTPException):
        status, code = error.status_code, "no_such_route"
    elif isinstance(error, ClientGone):
        return Response(status_code=GONE)
    message = f"{request.method} {request.url.path}: {error.detail}" if isinstance(error, HTTPException) else str(error)
    if MESSAGES in request.url.path:
        return JSONResponse(anthropic_messages.error_body(status, message, code), status_code=status)
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": param, "code": code}}, status_code=status)


def _world(client: Client) -> World:
    if client.world is None:
        raise RequestError("this episode has no environment on this server", status=404, code="no_environment")
    return client.world


def _action(body: Any) -> Action:
    """Parse ``{"text": …}``, ``{"tool_calls": […]}`` in the chat API's format, or both."""
    known = {"text", "tool_calls"}
    if not isinstance(body, dict) or not body or set(body) - known or not isinstance(body.get("text") or "", str):
        raise RequestError('an action must be {"text": "…"}, {"tool_calls": […]}, or both')
    calls = body.get("tool_calls") or []
    if not isinstance(calls, list):
        raise RequestError("tool_calls must be a list", param="tool_calls")
    made = []
    for place, call in enumerate(calls):
        function = call.get("function", call) if isinstance(call, dict) else {}
        where = f"tool_calls[{place}]"
        made.append(called(function.get("name"), function.get("arguments"), call.get("id"), where))
    return Action(body.get("text") or "", tuple(made))


def _failed(opening: asyncio.Task[LoopServer]) -> bool:
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or not opening.result().alive
