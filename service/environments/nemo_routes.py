"""Routes of a resources server of NeMo Gym, for its agents ``simple_agent`` and ``gymnasium_agent``.

Gym names a server by host and port alone and calls each tool by its name as the path, so that these routes would hide
those of the other protocols. They answer only requests with the user name ``nemo``. A session is an episode, and its
id is a cookie. The name of the cookie says how the session began, since a tool may be called ``step``, too. A header
of ``seed_session`` stands for both over MCP.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import Headers
from starlette.routing import Match, Route

from ...envs.messages import Action
from ...envs.remote.frames import of
from ...errors import RequestError, TurnwiseError, UsageError
from ...tasks.spec import TaskSpec
from ..incoming import ClientGone, read_json, unless_gone
from . import nemo, nemo_mcp, nemo_replay, openenv, ors
from .access import Access, Client
from .calls import shared
from .catalog import Catalog, Served
from .episodes import Episodes
from .http_reset import reset_for
from .served_episode import ServedEpisode
from .settings import ServeConfig

TOOLS, STEPS = "turnwise_session", "turnwise_steps"
"""Cookies of sessions that ``seed_session`` and ``reset`` began."""
WAIT = 600.0
"""Maximum seconds that a session waits for a place. Gym starts all rollouts at once and waits without limit."""
INTERNAL = 500
"""Status for what an environment did, and not the client."""
OBSERVED = re.compile(r"^ng-rollout/[^/]+/")
"""Start of each path under release 0.7's observability: it names the rollout, which the cookie does here."""
METRICS = 16
"""Factor of the limit of a request for ``aggregate_metrics``, which sends one result per rollout, 400 bytes each."""
HINT = f"for NeMo Gym, write `host: {nemo.USER}:TOKEN@HOST` in its configuration, with a token of this server"


class NemoRoutes:
    """The routes of one server.

    Args:
        catalog: environments.
        episodes: episodes.
        access: tokens that open the routes.
        config: settings.
        release: release of Turnwise.
    """

    def __init__(self, catalog: Catalog, episodes: Episodes, access: Access, config: ServeConfig, release: str) -> None:
        self._catalog, self._episodes, self._access, self._config = catalog, episodes, access, config
        self._release, self._tokens = release, nemo_mcp.SessionTokens()

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application, before those of other protocols."""
        app.router.routes.append(_McpRoute("/mcp", self._mcp, methods=["GET", "POST", "DELETE"]))
        app.router.routes.append(_NemoRoute("/{path:path}", self._answered, methods=["GET", "POST"]))
        app.router.routes.append(Route("/seed_session", _refused, methods=["POST"]))

    async def _answered(self, request: Request) -> Response:
        client = self._access.client({"x-api-key": nemo.password(request.headers) or ""})
        if client is None:
            return await _refused(request)
        verb = OBSERVED.sub("", request.path_params["path"])
        cookie = next(((name, request.cookies[name]) for name in (TOOLS, STEPS) if name in request.cookies), None)
        answer: Response | dict[str, Any] | str
        begins = verb == "seed_session" or (verb == "reset" and (cookie is None or cookie[0] == STEPS))
        try:
            limit = self._config.frame * (METRICS if verb == "aggregate_metrics" else 1)
            body = of(await read_json(request, limit), dict, "the body")
            if begins:
                cookie, answer = await self._begin(client, request, verb, body)
            else:
                answer = await self._continue(client, request, verb, body, cookie)
        except Exception as error:
            status, detail = ors.problem(error, client, "reset" if begins else "call")
            answer = JSONResponse({"detail": detail}, status)
        response = answer if isinstance(answer, Response) else _json(answer)
        if cookie is not None:
            response.set_cookie(*cookie, httponly=True)  # with each answer: an agent keeps only the last one's
        return response

    async def _begin(
        self, client: Client, request: Request, verb: str, body: Mapping[str, Any]
    ) -> tuple[tuple[str, str], dict[str, Any]]:
        """Start an episode. Release 0.7 names its session itself, and repeats the request."""
        named = body.get("resources_session_id") if verb == "seed_session" else None
        row = body if named is None else of(body.get("task_data"), dict, "task_data")
        served, task = nemo.chosen(self._catalog, row)
        given = row.get("responses_create_params", {} if verb == "seed_session" else None)
        params = of(given, dict, "responses_create_params")
        id = secrets.token_hex(16) if named is None else _id(client, named)
        if named is None:
            answer = await reset_for(request, self._episodes, client.name, id, served, task, wait=WAIT, connection=self)
        else:  # the client may repeat the request
            answer = await self._episodes.reset(client.name, id, served, task, WAIT, self)
        if verb == "seed_session":
            self._episodes.find(client.name, id, self).awaited = True
            tools = nemo_mcp.access(self._tokens.of(id))
            ours = {"resources_session_id": named, "resources_tools": tools}
            return (TOOLS, id), {"mcp": tools, "supports_explicit_close": True} if named is None else ours
        text = None if params.get("input") else nemo.text_of(answer["observation"])  # the row may have it already
        info = {"supports_explicit_close": True, "supports_step_idempotency": True}
        return (STEPS, id), {"observation": text, "info": info}

    async def _continue(
        self, client: Client, request: Request, verb: str, body: dict[str, Any], cookie: tuple[str, str] | None
    ) -> Response | dict[str, Any] | str:
        if verb == "":
            return {"status": "ok"}
        if verb == "reverify_mode":
            served = map(self._catalog.find, self._catalog.digests)
            return "stateless" if all(map(nemo_replay.replays, served)) else "unsupported"
        if verb == "aggregate_metrics":
            listed = of(body.get("verify_responses"), list, "verify_responses")
            return nemo.metrics_of([of(each, dict, "verify_responses") for each in listed])
        if verb == "close_session" and cookie is not None and "resources_session_id" not in body:
            await self._episodes.close(client.name, cookie[1])  # Turnwise's own client, which has only the cookie
            return {}
        if verb == "close_session":
            id = _id(client, body.get("resources_session_id"))
            await self._episodes.close(client.name, id)
            self._episodes.bar(id)
            return {"resources_session_id": body["resources_session_id"]}
        if cookie is None and verb == "verify":
            return await self._verify_again(client, request, body)
        if cookie is None:
            raise RequestError(
                "there is no session: begin with seed_session or reset, and keep its cookie", code="task"
            )
        name, id = cookie
        if name == STEPS and verb == "close":
            await self._episodes.close(client.name, id)
            return {}
        episode = self._episodes.find(client.name, id, self)
        assert episode.opening is not None
        opening = await shared(episode.opening)
        if "observation" not in opening:
            raise RequestError("this is a fork of Turnwise's own protocol; NeMo Gym has no forks", code="conflict")
        tools = opening["tools"]
        if verb == "verify":
            return await self._verify(episode, body)
        if name == STEPS:
            if verb != "step":
                raise RequestError(f"there is no route /{verb[:60]} in a session that began with reset", code="task")
            return await self._step(episode, tools, body)
        if episode.over:
            return PlainTextResponse(nemo.FINISHED)
        answer = await self._episodes.step(episode, episode.turn, ors.action_of(tools, verb, body))
        return PlainTextResponse(nemo.text_of(answer["observation"]))

    async def _verify(self, episode: ServedEpisode, body: dict[str, Any]) -> dict[str, Any]:
        """End an episode and return the sum of its rewards. The model's last message is its last turn."""
        message = nemo.last_message(of(body.get("response"), dict, "response"))
        if message is not None and not (episode.over or episode.failed or episode.request == "verify"):
            await self._episodes.step_once(episode, "verify", Action(message))
        if episode.failed:
            raise RequestError(
                f"the episode has no reward, since its environment failed: {episode.failed}", code="failed"
            )
        return await self._verdict(episode, body)

    async def _verify_again(self, client: Client, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """Play a stored rollout again in an episode of its own, and return its reward, or a mask."""
        id = secrets.token_hex(16)
        served, task = nemo.chosen(self._catalog, body)
        try:
            return await unless_gone(request, self._played_again(client, id, served, task, body))
        except ClientGone:
            raise RequestError("the client closed the connection", code="lost") from None
        finally:
            await self._episodes.close(client.name, id)

    async def _played_again(
        self, client: Client, id: str, served: Served, task: TaskSpec, body: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            try:
                opening = await self._episodes.reset(client.name, id, served, task, WAIT, self)
            except UsageError as error:  # the row's fault, unlike one of a step
                raise RequestError(str(error), code="usage") from None
            episode = self._episodes.find(client.name, id, self)
            differs = await nemo_replay.play_again(self._episodes, episode, opening["tools"], body)
        except TurnwiseError as error:
            status, differs = ors.problem(error, client, "call")
            if status != INTERNAL:
                raise
            return nemo.masked(body, differs)
        return nemo.masked(body, differs) if differs else await self._verdict(episode, body)

    async def _verdict(self, episode: ServedEpisode, body: dict[str, Any]) -> dict[str, Any]:
        await self._episodes.finish(episode)
        last = await shared(episode.last[2]) if episode.last is not None else {"info": {}}
        ends = {key: bool(last.get(key)) for key in ("terminated", "truncated")}
        success = any(ends.values()) and bool(last["info"].get("success"))
        return body | {"reward": episode.earned, "success": success, "turns": episode.played, **ends}

    async def _mcp(self, request: Request) -> Response:
        """``/mcp`` with a session's header, which needs no token of the server."""
        if request.method != "POST":
            return Response(status_code=405, headers={"Allow": "POST"})  # this server sends no events on its own
        id = self._tokens.id_in(request.headers[nemo_mcp.HEADER])
        client = self._episodes.owner(id) if id is not None else None
        if id is None or client is None:
            return JSONResponse(
                {"detail": "there is no such session here (it was closed, or the server restarted)"}, 401
            )
        try:
            body = await read_json(request, self._config.frame)
            session = self._episodes.find(client, id, self)
        except RequestError as error:  # the session may have been closed while the body arrived
            return JSONResponse({"detail": str(error)}, 401 if error.code == "lost" else error.status)
        tools = nemo_mcp.SessionTools(Client(client, operator=False), session, self._episodes, self._release)
        answer = await tools.answer(body)
        return Response(status_code=202) if answer is None else _json(answer)

    async def _step(self, episode: ServedEpisode, tools: Any, body: dict[str, Any]) -> dict[str, Any]:
        response, key = of(body.get("response"), dict, "response"), body.get("_ng_step_request_id")
        answer = await self._episodes.step_once(episode, key, nemo.action_of(tools, response))
        outputs, text = nemo.outputs_of(answer["observation"], nemo.calls_in(response))
        metadata = openenv.observed(answer, episode.id)["metadata"]
        names = ("reward", "terminated", "truncated")
        info = metadata | {"tool_outputs": outputs}
        return {"observation": text, "info": info} | {name: answer[name] for name in names}


class _NemoRoute(Route):
    """A route for requests of NeMo Gym alone."""

    def matches(self, scope: Any) -> Any:
        if scope["type"] == "http" and nemo.password(Headers(scope=scope)) is not None:
            return super().matches(scope)
        return Match.NONE, {}


class _McpRoute(Route):
    """A route for requests with the header of a session."""

    def matches(self, scope: Any) -> Any:
        if scope["type"] == "http" and nemo_mcp.HEADER in Headers(scope=scope):
            return super().matches(scope)
        return Match.NONE, {}


async def _refused(request: Request) -> Response:
    return JSONResponse({"detail": HINT}, 401)


def _json(answer: Any) -> Response:
    return Response(json.dumps(answer), media_type="application/json")


def _id(client: Client, session: Any) -> str:
    """Return the id of the episode of a session that the client named."""
    named = f"{client.name} {of(session, str, 'resources_session_id')}"
    return hashlib.sha256(named.encode()).hexdigest()[:32]
