"""A server with vLLM's routes over real HTTP, on a nano model; tests can make it misbehave as servers do.

It runs in a thread with an event loop of its own, so that a test talks to it as to another process. It can be killed,
and started again on the same port with its first weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import torch
from safetensors.torch import load_file

from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.inference.transformers_policy import TransformersPolicy

from ...agents.listening import accepted
from .helpers import merged

SABOTAGE = {
    "retokenizes the prompt": "decodes and encodes what it is to read, and says so",
    "retokenizes silently": "the same, and claims to have read what was sent",
    "retokenizes the answer": "gives the ids that the text of its answer would have",
    "truncates": "reads the last half of a prompt",
    "raw log-probabilities": "gives them before the temperature",
    "wrong log-probabilities": "gives them 0.3 too low",
    "noisy log-probabilities": "gives them as another number format would, off by a few hundredths",
    "not a number": "gives what vLLM sends for one",
    "hides the prompt": "does not say what it read",
    "strips the stop": "leaves the stop id out of the answer",
    "stops by itself": "ends every answer after two tokens",
    "a limit of its own": "answers no more than two tokens, as the length",
    "ignores updates": "says that new weights are applied, and keeps the old",
    "one update late": "applies the weights that were sent the time before",
    "half an update": "applies new weights to half of the tensors",
    "drops the adapter": "answers for an adapter with the base model",
    "keeps its cache": "says that it forgot its prefix cache, and does not",
    "fails": "answers 500",
    "hangs up": "closes the connection instead of answering",
    "hangs": "never answers",
    "not found": "answers with a page of HTML",
}
"""The faults that a test may add to ``FakeServer.sabotage``."""


class Refused(Exception):
    """An answer that reports a failure."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ReceivedRequest(NamedTuple):
    """One request, as it was received."""

    path: str
    body: Any
    headers: Mapping[str, str]


class Engine(TransformersPolicy):
    """A model that can be frozen between two tokens, and stops at nothing that a request does not name."""

    def __init__(self, model: Any, version: int) -> None:
        super().__init__(model, version=version)
        self._stop_ids = frozenset()
        self.going = asyncio.Event()
        self.going.set()

    async def _wait_for_requests(self) -> bool:
        await self.going.wait()
        return await super()._wait_for_requests()


class FakeServer:
    """One replica.

    Args:
        model: a model of transformers; it is copied.
        tokenizer: for ``/tokenize`` and what sabotage needs.
        version: what it says it is.
        name: of the base model.
        root: where it says that it comes from.
        native: whether there is ``/inference/v1/generate``; "older" as it was in the first supported versions.
        development: whether there are the routes of ``VLLM_SERVER_DEV_MODE=1``.
        max_rank: maximum rank of adapters; 0 for none.
        api_key: asked for on guarded routes.
        delay: seconds that each answer takes at least.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        version: str = "0.32.0",
        name: str = "policy",
        root: str = "",
        native: bool | Literal["older"] = True,
        development: bool = True,
        max_rank: int = 8,
        api_key: str | None = None,
        delay: float = 0.0,
    ) -> None:
        self._initial = model
        self.tokenizer, self.version, self.name, self.root = tokenizer, version, name, root
        self.native, self.development, self.max_rank, self.api_key = native, development, max_rank, api_key
        self.delay = delay
        self.sabotage: set[str] = set()
        self.asked: list[ReceivedRequest] = []
        self.most_at_once = 0
        self.aborted = 0
        self.port = 0
        self.at_once = 0
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and action together."""
        return int(self._initial.config.max_position_embeddings)

    def start(self) -> FakeServer:
        """Start it with the weights that it was made with."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True, name="fake-server")
        self._thread.start()
        assert ready.wait(120), "the fake server did not start"
        return self

    def stop(self) -> None:
        """End it at once, in the middle of whatever it does."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(120)
        self._thread = None

    kill = stop

    @property
    def under_way(self) -> int:
        """Tokens sampled so far for requests that are not answered yet."""
        return sum(len(request.row.tokens) for request in self._engine._running)

    def calls(self, path: str) -> list[Any]:
        """The bodies of the requests to a path so far."""
        return [asked.body for asked in self.asked if urlsplit(asked.path).path == path]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # -- its life ---------------------------------------------------------------------------------------------------

    def _run(self, ready: threading.Event) -> None:
        torch.set_num_threads(1)
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self.started = time.time()
        self._labels = ["default"]
        self._engine = Engine(copy.deepcopy(self._initial), 0)
        self._adapters: dict[str, Engine] = {}
        self._old: list[Engine] = []
        self._read: dict[tuple[int, ...], Engine] = {}  # prompts whose keys and values are cached, and of which weights
        self._transfer: dict[str, torch.Tensor] | None = None
        self._last_sent: dict[str, torch.Tensor] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._end.wait()
        await accepted(server)
        server.close()
        for _ in range(3):
            await asyncio.sleep(0)
            for writer in self._writers:
                writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for _ in range(3):  # sockets are closed by callbacks
            await asyncio.sleep(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        gone = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)  # the other end, or this server
        try:
            with contextlib.suppress(*gone):
                while request := await _receive(reader):
                    method, path, headers, body = request
                    asked = ReceivedRequest(path, body, headers)
                    self.asked.append(asked)
                    answer = await self._until_gone(self._answer(method, path, body, headers), reader)
                    if answer is None:
                        break
                    await self._reply(writer, asked, *answer)
        finally:
            writer.close()  # waits until everything is sent; unread data are aborted at the end

    async def _reply(self, writer: asyncio.StreamWriter, asked: ReceivedRequest, status: int, content: Any) -> None:
        """Send an answer; the place where a faulty server sends something else."""
        await _send(writer, status, content)

    async def _until_gone(
        self, work: Awaitable[tuple[int, Any] | None], reader: asyncio.StreamReader
    ) -> tuple[int, Any] | None:
        """The answer, or ``None`` when the client hung up before it was there: the work is then abandoned."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self.aborted += 1
            return None
        finally:
            for unfinished in (task, gone):
                unfinished.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def _answer(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, Any] | None:
        route, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        if "not found" in self.sabotage:
            return 404, "<html>nothing here</html>"
        guarded = route.startswith(("/v1", "/inference"))
        if self.api_key and guarded and headers.get("authorization") != f"Bearer {self.api_key}":
            return 401, {"error": "Unauthorized"}
        handler, verb = self._routes().get(route, (None, ""))
        if handler is None:
            return 404, {"detail": "Not Found"}
        if verb != method:
            return 405, {"detail": "Method Not Allowed"}
        try:
            return 200, await handler(body, query)
        except Refused as refused:
            return refused.status, {"error": {"message": str(refused), "code": refused.status}}
        except _HangUpError:
            return None

    def _routes(self) -> dict[str, tuple[Callable[[Any, Any], Awaitable[Any]] | None, str]]:
        found: dict[str, tuple[Callable[[Any, Any], Awaitable[Any]] | None, str]] = {
            "/health": (self._health, "GET"),
            "/version": (self._version, "GET"),
            "/metrics": (self._metrics, "GET"),
            "/v1/models": (self._models, "GET"),
            "/tokenize": (self._tokenize, "POST"),
            "/inference/v1/generate": (self._native, "POST"),
            "/v1/completions": (self._completions, "POST"),
        }
        if self.max_rank:
            found["/v1/load_lora_adapter"] = (self._load_adapter, "POST")
            found["/v1/unload_lora_adapter"] = (self._unload_adapter, "POST")
        if self.development:
            found |= {
                "/server_info": (self._info, "GET"),
                "/is_paused": (self._is_paused, "GET"),
                "/pause": (self._pause, "POST"),
                "/resume": (self._resume, "POST"),
                "/reset_prefix_cache": (self._reset, "POST"),
                "/collective_rpc": (self._remote, "POST"),
                "/init_weight_transfer_engine": (self._init_transfer, "POST"),
                "/start_weight_update": (self._start_update, "POST"),
                "/update_weights": (self._update, "POST"),
                "/finish_weight_update": (self._finish_update, "POST"),
            }
            if self._tells_versions:
                found["/update_weight_version"] = (self._name_version, "POST")
        return found

    @property
    def _tells_versions(self) -> bool:
        return tuple(map(int, self.version.split("+")[0].split(".")[:2])) >= (0, 32)

    # -- sampling ---------------------------------------------------------------------------------------------------

    async def _native(self, body: Any, query: Any) -> Any:
        if not self.native:
            raise Refused(403, "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out")
        how = body["sampling_params"]
        made, read = await self._generate(body["token_ids"], how, body.get("model"))
        content: list[dict[str, Any]] = [
            {"token_id": i, "logprob": p, "rank": 1} for i, p in zip(made.reported, made.logprobs, strict=True)
        ]
        if content:
            content[0]["top_logprobs"] = [{"token_id": i, "logprob": p} for i, p in made.top.items()]
        choice = {"index": 0, "token_ids": made.ids, "finish_reason": made.reason, "logprobs": {"content": content}}
        if self.native == "older":
            for entry in content:
                entry["token"] = f"token_id:{entry.pop('token_id')}"
            return {"choices": [choice]}
        choice["weight_versions"] = made.spans if self._tells_versions else None
        return {"choices": [choice], "prompt_token_ids": read, "usage": made.usage}

    async def _completions(self, body: Any, query: Any) -> Any:
        made, read = await self._generate(body["prompt"], body, body["model"])
        logprobs = {
            "token_logprobs": list(made.logprobs),
            "tokens": [f"token_id:{i}" for i in made.reported],
            "top_logprobs": [{f"token_id:{i}": p for i, p in made.top.items()}] + [{}] * (len(made.reported) - 1),
        }
        choice = {"index": 0, "text": "…", "logprobs": logprobs, "finish_reason": made.reason}
        return {"choices": [choice | {"token_ids": made.ids, "prompt_token_ids": read}], "usage": made.usage}

    async def _generate(self, prompt: list[int], how: Mapping[str, Any], name: str | None) -> tuple[Made, Any]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self._misbehave()
            await asyncio.sleep(self.delay)
            await self._open.wait()
            return await self._sampled(prompt, how, name)
        finally:
            self.at_once -= 1

    async def _sampled(self, prompt: list[int], how: Mapping[str, Any], name: str | None) -> tuple[Made, Any]:
        engine, read = self._engine_for(name), list(prompt)
        if any(not 0 <= token < engine.model.config.vocab_size for token in prompt):
            raise Refused(400, f"Token id {max(prompt)} is out of vocabulary")
        if len(prompt) >= self.context_length:
            raise Refused(400, f"The decoder prompt (length {len(prompt)}) is longer than the maximum model length")
        if "truncates" in self.sabotage:
            read = read[len(read) // 2 :]
        if self.sabotage & {"retokenizes the prompt", "retokenizes silently"}:
            read = self._again(read)
        if engine is self._engine:
            engine = self._read.setdefault(tuple(read), engine)
        limit = 2 if self.sabotage & {"stops by itself", "a limit of its own"} else how["max_tokens"]
        sampling = Sampling(
            how["temperature"], min(limit, how["max_tokens"]), tuple(how["stop_token_ids"]), how["seed"]
        )
        completion = await engine.generate(read, sampling)
        reported = read if "retokenizes silently" not in self.sabotage else prompt
        return self._made(engine, read, sampling, completion), None if "hides the prompt" in self.sabotage else reported

    def _made(self, engine: Engine, read: list[int], sampling: Sampling, completion: Completion) -> Made:
        """The answer, after what sabotage makes of it."""
        ids, logprobs = list(completion.token_ids), list(completion.logprobs)
        top = _top(engine.model, read, sampling.temperature or 1.0)
        if "raw log-probabilities" in self.sabotage:
            logprobs, top = _plain(engine.model, read, ids), _top(engine.model, read, 1.0)
        if "wrong log-probabilities" in self.sabotage:
            logprobs = [value - 0.3 for value in logprobs]
        if "noisy log-probabilities" in self.sabotage:
            logprobs = [value - 0.02 * (1 + i % 3) for i, value in enumerate(logprobs)]
        if "not a number" in self.sabotage:
            logprobs[0] = -9999.0
        reported, reason = list(ids), completion.finish.value
        if "retokenizes the answer" in self.sabotage:
            ids = self._again(ids)
        if "strips the stop" in self.sabotage and completion.finish is Finish.STOP:
            ids, reported, logprobs = ids[:-1], reported[:-1], logprobs[:-1]
        if "stops by itself" in self.sabotage:
            reason = "stop"
        spans: list[dict[str, Any]] = []
        for i, version in enumerate(completion.versions):
            if spans and spans[-1]["version"] == self._labels[version]:
                spans[-1]["end"] = i + 1
            else:
                spans.append({"version": self._labels[version], "start": i, "end": i + 1})
        usage = {"prompt_tokens": len(read), "prompt_tokens_details": {"cached_tokens": 0}}
        return Made(ids, reported, logprobs, top, reason, spans, usage)

    def _engine_for(self, name: str | None) -> Engine:
        if name in (None, self.name):
            return self._engine
        if name not in self._adapters:
            raise Refused(404, f"The model `{name}` does not exist. Valid aliases: {self.name}.")
        return self._engine if "drops the adapter" in self.sabotage else self._adapters[name]

    def _again(self, ids: Sequence[int]) -> list[int]:
        text = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    async def _misbehave(self) -> None:
        if "fails" in self.sabotage:
            raise Refused(500, "EngineCore encountered an issue")
        if "hangs up" in self.sabotage:
            raise _HangUpError
        if "hangs" in self.sabotage:
            await asyncio.Event().wait()

    # -- what it says of itself -------------------------------------------------------------------------------------

    async def _health(self, body: Any, query: Any) -> Any:
        return {}

    async def _version(self, body: Any, query: Any) -> Any:
        return {"version": self.version}

    async def _metrics(self, body: Any, query: Any) -> Any:
        return f"# HELP process_start_time_seconds Start.\nprocess_start_time_seconds {self.started}\n"

    async def _models(self, body: Any, query: Any) -> Any:
        cards = [{"id": self.name, "root": self.root, "parent": None, "max_model_len": self.context_length}]
        cards += [{"id": adapter, "root": "", "parent": self.name} for adapter in self._adapters]
        return {"object": "list", "data": cards}

    async def _tokenize(self, body: Any, query: Any) -> Any:
        if self.tokenizer is None:
            raise Refused(501, "there is no tokenizer")
        return {"tokens": self.tokenizer.encode(body["prompt"], add_special_tokens=body["add_special_tokens"])}

    async def _info(self, body: Any, query: Any) -> Any:
        lora = {"max_lora_rank": self.max_rank} if self.max_rank else None
        mode = "raw_logprobs" if "raw log-probabilities" in self.sabotage else "processed_logprobs"
        transfer = {"backend": "turnwise_files"}
        model = {"logprobs_mode": mode}
        return {"vllm_config": {"lora_config": lora, "weight_transfer_config": transfer, "model_config": model}}

    # -- control ------------------------------------------------------------------------------------------------------

    async def _is_paused(self, body: Any, query: Any) -> Any:
        return {"is_paused": not self._open.is_set()}

    async def _pause(self, body: Any, query: Any) -> Any:
        mode = query["mode"][0]
        self._open.clear()
        engines = (self._engine, *self._adapters.values(), *self._old)
        if mode == "abort":
            for engine in engines:
                engine.abort()
        if mode == "keep":
            for engine in engines:
                engine.going.clear()
        while mode == "wait" and any(e._running or e._waiting for e in engines):  # noqa: ASYNC110 - they have no event
            await asyncio.sleep(0.001)
        return {"status": "paused"}

    async def _resume(self, body: Any, query: Any) -> Any:
        for engine in (self._engine, *self._adapters.values(), *self._old):
            engine.going.set()
        self._open.set()
        return {"status": "resumed"}

    async def _reset(self, body: Any, query: Any) -> Any:
        if "keeps its cache" not in self.sabotage:
            self._read.clear()
        return {"success": True}

    async def _name_version(self, body: Any, query: Any) -> Any:
        self._labels.append(body["new_version"])
        self._engine.update(None, len(self._labels) - 1)
        return {"success": True}

    async def _load_adapter(self, body: Any, query: Any) -> Any:
        folder = Path(body["lora_path"])
        if not (folder / "adapter_config.json").is_file():
            raise Refused(404, f"Loading lora {body['lora_name']} failed: No adapter found for {folder}")
        rank = json.loads((folder / "adapter_config.json").read_text())["r"]
        if rank > self.max_rank:
            raise Refused(500, f"LoRA rank {rank} is greater than max_lora_rank {self.max_rank}.")
        self._adapters[body["lora_name"]] = Engine(merged(self._engine.model, folder), self._engine.version)
        return "Success"

    async def _unload_adapter(self, body: Any, query: Any) -> Any:
        if self._adapters.pop(body["lora_name"], None) is None:
            raise Refused(404, f"The lora adapter '{body['lora_name']}' cannot be found.")
        return "Success"

    async def _remote(self, body: Any, query: Any) -> Any:
        if body["method"] != "reload_weights":
            raise Refused(500, f"there is no method {body['method']}")
        self._apply(_weights(body["kwargs"]["weights_path"]))
        return {"results": [None]}

    async def _init_transfer(self, body: Any, query: Any) -> Any:
        return {"message": "Weight transfer initialized"}

    async def _start_update(self, body: Any, query: Any) -> Any:
        self._transfer = {}
        return {"message": "Weight update started"}

    async def _update(self, body: Any, query: Any) -> Any:
        if self._transfer is None:
            raise Refused(500, "start_weight_update must be called first")
        self._transfer |= _weights(body["update_info"]["path"])
        return {"message": "Weights updated"}

    async def _finish_update(self, body: Any, query: Any) -> Any:
        if self._transfer is None:
            raise Refused(500, "start_weight_update must be called first")
        sent, self._transfer = self._transfer, None
        self._apply(sent)
        if (version := body.get("weight_version")) is not None and self._tells_versions:
            await self._name_version({"new_version": version}, query)
        return {"message": "Weight update finished"}

    def _apply(self, sent: dict[str, torch.Tensor]) -> None:
        """Take new weights; prompts that are cached are still read with the old ones, until the cache is reset."""
        if "one update late" in self.sabotage:
            sent, self._last_sent = self._last_sent, sent
        if "half an update" in self.sabotage:
            sent = {name: tensor for i, (name, tensor) in enumerate(sorted(sent.items())) if i % 2}
        if "ignores updates" in self.sabotage:
            return
        before = Engine(copy.deepcopy(self._engine.model), self._engine.version)
        self._old.append(before)
        self._read = {prompt: before if e is self._engine else e for prompt, e in self._read.items()}
        own = self._engine.model.state_dict()
        self._engine.update({name: sent.get(name, tensor) for name, tensor in own.items()}, self._engine.version)


class Made(NamedTuple):
    """The result of a request, in the form of both routes."""

    ids: list[int]
    reported: list[int]
    logprobs: list[float]
    top: dict[int, float]
    reason: str
    spans: list[dict[str, Any]]
    usage: dict[str, Any]


class _HangUpError(Exception):
    pass


async def _receive(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], Any] | None:
    """Method, path, headers and body of the next request; ``None`` at the end of the connection."""
    head = (await reader.readline()).decode()
    if not head.strip():
        return None
    method, path, _ = head.split()
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return method, path, headers, json.loads(body) if body else None


async def _send(writer: asyncio.StreamWriter, status: int, content: Any) -> None:
    """Answer with text, or with anything else as JSON."""
    payload = (content if isinstance(content, str) else json.dumps(content)).encode()
    kind = "text/plain" if isinstance(content, str) else "application/json"
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(payload)}\r\n\r\n"
    writer.write(head.encode() + payload)
    await writer.drain()


def _weights(place: str) -> dict[str, torch.Tensor]:
    path = Path(place)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise Refused(500, f"there are no safetensors in {place}")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def _logits(model: Any, ids: Sequence[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([list(ids)])).logits[0].float()
    return logits


def _top(model: Any, prompt: Sequence[int], temperature: float) -> dict[int, float]:
    values, ids = torch.log_softmax(_logits(model, prompt)[-1] / temperature, -1).topk(4)
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def _plain(model: Any, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
    logprobs = torch.log_softmax(_logits(model, [*prompt, *ids]), -1)
    return [float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(ids)]
