"""Plays rollouts of a verifiers taskset, with Turnwise in the place of the model.

This file runs as a program in the Python that has verifiers; it imports nothing of Turnwise. Requests and answers are
lines of JSON on its standard input and output. A rollout is played by verifiers itself: its environment, harness,
tools and rewards. The harness's requests to its model arrive at an endpoint in this process. Each becomes an
observation, and the next action becomes the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any, cast

SERIES = "0.4."
"""Releases of verifiers that this file was written for."""
KEY = "TURNWISE_API_KEY"
"""Variable with the key of the endpoint; verifiers keeps such names from the programs of its harnesses."""
GRACE = 30.0
"""Seconds for what verifiers removes at the end."""
SOME_TASKS, SOME_TURNS = 1000, 50
"""Tasks of an infinite taskset, and turns of a rollout without a limit of its own."""


class RefusedError(Exception):
    """The user's mistake, in one line."""


class Rollout:
    """A rollout that waits for an action, or will."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.traces: list[Any] = []
        self.work: asyncio.Task[None] | None = None
        self._known: list[Any] = []
        self._reply: asyncio.Future[dict[str, Any]] | None = None

    async def asked(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Pass a request of the harness on, and return the answer of the agent."""
        messages = body["messages"]
        seen = [_identity(message) for message in messages]
        if self._reply is not None and not self._reply.done():
            self._fail("it asked twice at a time; Turnwise plays one conversation")
        if seen[: len(self._known)] != self._known:
            self._fail("it rewrote the conversation; Turnwise plays harnesses that only append to it")
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._reply = reply
        self.events.put_nowait({"messages": messages[len(self._known) :], "tools": body.get("tools") or []})
        message = await reply
        self._known = [*seen, _identity(message)]
        return message

    def answer(self, message: dict[str, Any]) -> None:
        """Let the harness go on; one that has given up does not."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(message)

    async def close(self) -> None:
        """Stop the rollout, with the processes that it started."""
        if self.work is not None:
            self.work.cancel()
            await asyncio.gather(self.work, return_exceptions=True)

    def _fail(self, problem: str) -> None:
        self.events.put_nowait({"failed": f"the harness cannot be played: {problem}"})
        raise RuntimeError(problem)


class Player:
    """A taskset, its environment in verifiers, and the rollouts that are played."""

    def __init__(self) -> None:
        self.rollouts: dict[int, Rollout] = {}
        self._by_trace: dict[str, Rollout] = {}
        self.serving = contextlib.AsyncExitStack()

    async def open(self, name: str, config: dict[str, Any], max_turns: int | None) -> dict[str, Any]:
        """Load the taskset and the environment of a config, and describe them."""
        try:
            import verifiers
            import verifiers.v1 as vf
        except ImportError as error:
            raise RefusedError(f"there is no verifiers 0.4 in {sys.executable} ({error})") from None
        if not verifiers.__version__.startswith(SERIES):
            raise RefusedError(f"{sys.executable} has verifiers {verifiers.__version__}; install verifiers==0.4.0")
        _chat_here()
        count = config.pop("count", None)
        try:
            self.role, self.seat, self.own_limit, resolved = _resolved(name, config, max_turns)
            from verifiers.v1.utils.loaders import load_environment

            self.env = load_environment(resolved)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise RefusedError(f"verifiers refuses {name!r}: {' '.join(str(error).split())[:500]}") from None
        taskset = self.env.taskset
        bound = count or (None if taskset.bounded else SOME_TASKS)
        self.tasks = list(itertools.islice(taskset, bound))
        if not self.tasks:
            raise RefusedError(f"the taskset {name!r} has no tasks")
        self.context = vf.ModelContext(model="turnwise", client=await self._endpoint(vf))
        await self.serving.enter_async_context(self.env.serving())
        digest = hashlib.sha256(" ".join(task.hash for task in self.tasks).encode()).hexdigest()[:12]
        first = await self.begin(-1, 0)  # tools are known to the harness alone
        await self.end(-1)
        return {
            "count": len(self.tasks),
            "digest": digest,
            "version": verifiers.__version__,
            "tools": first.get("tools", []),
            "max_turns": self.seat.max_turns,
            "own_limit": self.own_limit,
        }

    async def begin(self, number: int, task: int) -> dict[str, Any]:
        """Start a rollout, and return the first request to its model."""
        rollout = self.rollouts[number] = Rollout()
        rollout.work = asyncio.create_task(self._play(rollout, self.tasks[task]))
        return await rollout.events.get()

    async def act(self, number: int, message: dict[str, Any]) -> dict[str, Any]:
        """Answer the model's request, and return the next one, or how the rollout ended."""
        rollout = self.rollouts[number]
        rollout.answer(message)
        return await rollout.events.get()

    async def end(self, number: int) -> None:
        """Stop a rollout."""
        if (rollout := self.rollouts.pop(number, None)) is not None:
            await rollout.close()
            for trace in rollout.traces:
                self._by_trace.pop(trace.id, None)

    async def _play(self, rollout: Rollout, task: Any) -> None:
        def minted(trace: Any) -> None:
            if trace.agent.name == self.role:
                rollout.traces.append(trace)
                self._by_trace[trace.id] = rollout

        try:
            episode = await self.env.run_episode(task, self.context, on_trace=minted)
            event = _ended(rollout.traces, episode)
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # a call may wait for an event of a rollout that is stopped
            event = {"failed": f"{type(error).__name__}: {error}"}
        rollout.events.put_nowait(event)

    async def _endpoint(self, vf: Any) -> Any:
        """Serve the models' requests, and return the client that sends them."""
        from aiohttp import web  # a dependency of verifiers

        async def complete(request: Any) -> Any:
            if request.headers.get("Authorization") != f"Bearer {os.environ[KEY]}":
                raise web.HTTPUnauthorized
            body = await request.json()
            message = await self._by_trace[request.headers["X-Session-ID"]].asked(body)
            stream = bool(body.get("stream"))
            kind = "text/event-stream" if stream else "application/json"
            return web.Response(text=_completion(message, stream), content_type=kind)

        os.environ[KEY] = secrets.token_hex()
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self.serving.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.1).start()
        port = cast(Any, runner.addresses[0])[1]
        return vf.EvalClientConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key_var=KEY)


def _resolved(name: str, config: dict[str, Any], max_turns: int | None) -> tuple[str, Any, bool, Any]:
    """Return the role of Turnwise, its config, whether its limit of turns is verifiers' own, and the whole config."""
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.utils.loaders import default_harness_id, harness_class, resolve_env_config

    def resolved() -> Any:
        return resolve_env_config(json.loads(json.dumps(config)))

    config["taskset"] = {**(config.get("taskset") or {}), "id": name}
    roles = agent_config_fields(resolved())
    played = [role for role, seat in roles.items() if seat.client is None]
    if len(played) != 1:
        raise RefusedError(
            f"verifiers' environment of {name!r} has the roles {', '.join(roles)}, and Turnwise plays one: "
            f"set the client of all others in the config; {len(played)} have none"
        )
    for role, seat in roles.items():
        given = config.setdefault(role, {})
        if "runtime" not in seat.model_fields_set:
            given["runtime"] = {"type": "subprocess"}
        if seat.harness is None and default_harness_id(name) == "bash":
            given["harness"] = {"id": "null"}
        if role == played[0]:
            given["max_turns"] = max_turns or seat.max_turns or SOME_TURNS
            given["retries"] = {"max_retries": 0}  # an episode that fails is played again by Turnwise
    whole = resolved()
    seat = agent_config_fields(whole)[played[0]]
    harness = seat.harness.id if seat.harness is not None else name
    if harness_class(harness).EXECUTES_CODE and seat.runtime.type == "subprocess":
        raise RefusedError(
            f"the harness {harness!r} would run the agent's commands on this machine, without a sandbox: "
            f"set {played[0]}.runtime.type = 'docker' in the config"
        )
    return played[0], seat, max_turns is None and roles[played[0]].max_turns is not None, whole


def _chat_here() -> None:
    """Let the harness ``null`` run its program in this process, where it would start a Python for each turn.

    It is verifiers' own program. In a subprocess, loading its packages takes more time than most rollouts.
    """
    from verifiers.v1.harnesses.null.harness import CHAT_PROGRAM_SOURCE, NullHarness
    from verifiers.v1.runtimes import ProgramResult

    program: dict[str, Any] = {"__name__": "turnwise_chat"}
    exec(CHAT_PROGRAM_SOURCE, program)
    setup, launch = NullHarness.setup, NullHarness.launch

    class Here:
        """A subprocess runtime that runs the chat program here, and all else as before."""

        def __init__(self, runtime: Any) -> None:
            self._runtime = runtime

        def __getattr__(self, name: str) -> Any:
            return getattr(self._runtime, name)

        async def prepare_uv_script(self, *_: Any, **__: Any) -> list[str]:
            return []

        async def run_program(self, argv: list[str], env: dict[str, str]) -> Any:
            file = "--initial-messages-file="
            inside = f"{file}{self._runtime.workdir}/"
            sys.argv = ["chat", *(each.replace(file, inside, 1) if each.startswith(file) else each for each in argv)]
            try:
                await program["main"]()  # reads sys.argv before it awaits anything
            except SystemExit as error:
                return ProgramResult(int(cast(int, error.code)), "", traceback.format_exc())
            except Exception:
                return ProgramResult(1, "", traceback.format_exc())
            return ProgramResult(0, "", "")

    async def set_up(self: Any, runtime: Any) -> None:
        if runtime.type != "subprocess":
            await setup(self, runtime)

    async def launched(self: Any, ctx: Any, trace: Any, runtime: Any, *rest: Any, **named: Any) -> Any:
        here = Here(runtime) if runtime.type == "subprocess" else runtime
        return await launch(self, ctx, trace, cast(Any, here), *rest, **named)

    NullHarness.setup, NullHarness.launch = set_up, launched


def _ended(traces: list[Any], episode: Any) -> dict[str, Any]:
    """Return how a rollout ended. One with an error has no reward."""
    if not episode.ok:
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        problem = f"{errors[-1].type}: {errors[-1].message}" if errors else "it is not ok, and names no error"
        return {"failed": f"the rollout failed: {problem}"}
    if len(traces) != 1:
        return {"failed": f"the episode has {len(traces)} rollouts of the agent; Turnwise plays one"}
    (trace,) = traces
    if missing := [name for name, reward in trace.rewards.items() if reward is None]:
        return {"failed": f"the rollout has no reward {missing[0]!r}"}
    return {
        "reward": trace.reward,
        "rewards": {name: reward.value for name, reward in trace.rewards.items()},
        "metrics": dict(trace.metrics),
        "stop": trace.stop_condition,
        "limit": trace.is_timeout or trace.is_truncated,
    }


def _identity(message: Mapping[str, Any]) -> list[Any]:
    """Return what a message says, in any of the forms that a harness may write it in."""
    content = message.get("content") or ""
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        content = "".join(part["text"] for part in content)
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    named = [[id, function["name"], function["arguments"]] for id, function in calls]
    return [message["role"], content, named, message.get("tool_call_id")]


def _completion(message: Mapping[str, Any], stream: bool) -> str:
    """Return a completion in the form of OpenAI's API, as a stream in one piece."""
    calls = [{**call, "index": number} for number, call in enumerate(message.get("tool_calls") or ())]
    said = {**message, "tool_calls": calls} if calls else message
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "delta" if stream else "message": said}
    kind = "chat.completion.chunk" if stream else "chat.completion"
    whole = json.dumps({"id": "turnwise", "object": kind, "created": 0, "model": "turnwise", "choices": [choice]})
    return f"data: {whole}\n\ndata: [DONE]\n\n" if stream else whole


async def _serve(answers: int) -> None:
    """Answer requests, several at a time, until the input ends."""
    player, loop, over = Player(), asyncio.get_running_loop(), asyncio.Event()
    working: set[asyncio.Task[None]] = set()

    async def answered(number: int, verb: str, arguments: dict[str, Any]) -> None:
        try:
            answer = json.dumps([number, {"value": await getattr(player, verb)(**arguments)}], default=float)
        except RefusedError as error:
            answer = json.dumps([number, {"refused": str(error)}])
        except Exception as error:  # an answer that JSON does not have is one, too
            answer = json.dumps([number, {"failed": f"{type(error).__name__}: {error}"}])
        line = memoryview(answer.encode() + b"\n")
        while line:  # in the loop's thread, so that lines stay whole
            line = line[os.write(answers, line) :]

    def ask(line: bytes) -> None:
        task = loop.create_task(answered(*json.loads(line)))
        working.add(task)
        task.add_done_callback(working.discard)

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(ask, line)
        threading.Timer(GRACE, os.killpg, (os.getpid(), signal.SIGKILL)).start()
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=read, daemon=True).start()
    await over.wait()
    await asyncio.gather(*(player.end(rollout) for rollout in list(player.rollouts)), return_exceptions=True)
    await player.serving.aclose()
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = os.dup(1)
    os.dup2(2, 1)  # what verifiers and tasksets print goes to standard error
    asyncio.run(_serve(channel))
