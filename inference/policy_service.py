"""A policy of this process, served to other processes over a socket: ids in, ids, log-probabilities and versions out.

Both directions are JSON behind a length, so that neither side executes what the other sends. Python writes floats such
that they are read back exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import struct
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .. import errors
from ..errors import InfrastructureError, PolicyServerError, TurnwiseError, UsageError
from .policy import Completion, Finish, Policy, Sampling

HEADER = struct.Struct("!I")
LONGEST = 1 << 28
"""Maximum bytes of a message."""
HELLO = 1 << 12
"""Maximum bytes of the first message of a client, which is not known yet."""
OPENING = 30.0
"""Seconds for a client to connect, and for its first message."""


class PolicyService:
    """Serves policies of this process, in the event loop that opened it.

    A client first sends the service's key. A connection that breaks cancels its requests.
    """

    def __init__(self) -> None:
        self.key = secrets.token_hex(16)
        self.address = ("", 0)
        self._policies: list[Policy] = []
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self, host: str) -> None:
        """Listen on a free port of the interface that has the address ``host``."""
        self._server = await asyncio.start_server(self._connected, host, 0)
        self.address = (host, self._server.sockets[0].getsockname()[1])

    def offer(self, policy: Policy) -> int:
        """Serve a policy, and return its number."""
        for number, known in enumerate(self._policies):
            if known is policy:
                return number
        self._policies.append(policy)
        return len(self._policies) - 1

    async def close(self) -> None:
        """Stop serving; requests that are running are cancelled."""
        if self._server is None:
            return
        self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.current_task()
        assert client is not None
        self._clients.add(client)
        running: dict[int, asyncio.Task[None]] = {}
        try:
            async with asyncio.timeout(OPENING):
                hello = await receive(reader, HELLO)
            if not hmac.compare_digest(str(hello.get("key")), self.key):
                return
            while True:
                message = await receive(reader, LONGEST)
                number = int(message["id"])
                if "prompt" in message:
                    running[number] = asyncio.create_task(self._answer(message, writer))
                    running[number].add_done_callback(lambda _, number=number: running.pop(number, None))  # type: ignore[misc]
                elif number in running:
                    running[number].cancel()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass  # The client left, or never sent its key. There is no one to answer, and its own side reports it.
        except (ValueError, KeyError, TypeError):
            pass  # Another protocol, such as a port scanner's: closing is the answer, and a log would fill with it.
        except asyncio.CancelledError:
            pass  # ``close`` cancels this task, and a task that a server of asyncio started must not end as cancelled.
        finally:
            self._clients.discard(client)
            for request in list(running.values()):
                request.cancel()
            writer.close()

    async def _answer(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            sampling = Sampling(**message["sampling"] | {"stop_ids": tuple(message["sampling"]["stop_ids"])})
            policy = self._policies[message["policy"]]
            completion = await policy.generate(tuple(message["prompt"]), sampling, session=message["session"])
            answer |= asdict(completion)
        except asyncio.CancelledError:
            request = asyncio.current_task()
            if request is None or request.cancelling():
                raise
            answer |= {"error": "", "text": "the policy was canceled, and not by its caller"}  # who still waits
        except TurnwiseError as error:
            answer |= {"error": type(error).__name__, "text": str(error)}
        except Exception as error:
            answer |= {"error": "", "text": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(ConnectionError):
            try:
                await send(writer, answer)
            except (TypeError, ValueError) as error:  # without an answer, the client would wait in vain
                said = f"a completion cannot be sent: {type(error).__name__}: {error}"
                await send(writer, {"id": message["id"], "error": "", "text": said})


class PolicyConnection:
    """A connection to a ``PolicyService``, opened on first use.

    Args:
        address: host and port of the service.
        key: key of the service.
    """

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._address, self._key = address, key
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._opening = asyncio.Lock()
        self._count = 0

    def policy(self, number: int, max_wait: float | None) -> ServedPolicy:
        """Return the policy with this number; ``max_wait`` is its own limit in seconds, if it has one."""
        return ServedPolicy(self, number) if max_wait is None else SelfTimedPolicy(self, number, max_wait)

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            PolicyServerError: the service cannot be reached, or the connection broke.
        """
        async with self._opening:
            writer = self._writer or await self._open()
        self._count += 1
        number = self._count
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await send(writer, message | {"id": number})
            return await answer
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError):
                await send(writer, {"id": number})
            raise
        except ConnectionError as error:
            raise PolicyServerError(f"lost the connection to the driver's policy: {error}") from None
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Close the connection."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _open(self) -> asyncio.StreamWriter:
        host, port = self._address
        try:
            async with asyncio.timeout(OPENING):
                reader, writer = await asyncio.open_connection(host, port)
            await send(writer, {"key": self._key})
        except (OSError, TimeoutError) as error:
            raise PolicyServerError(f"the driver's policy at {host}:{port} cannot be reached: {error}") from None
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader, writer), name="turnwise-policy-connection")
        return writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                message = await receive(reader, LONGEST)
                answer = self._waiting.get(message["id"])
                if answer is not None and not answer.done():
                    answer.set_result(message)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError):
            pass  # Each request that still waits gets an error below, and the next one connects again.
        finally:
            self._writer = None
            writer.close()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(PolicyServerError("the connection to the driver's policy broke"))


class ServedPolicy:
    """A policy of another process, with its exact tokens and versions; see ``Policy``."""

    def __init__(self, connection: PolicyConnection, number: int) -> None:
        self._connection, self._number = connection, number

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        """Sample one continuation of ``prompt_ids`` there.

        Raises:
            TurnwiseError: the error that the policy raised there.
            PolicyServerError: it cannot be reached.
        """
        request = {"policy": self._number, "prompt": list(prompt_ids), "sampling": asdict(sampling), "session": session}
        answer = await self._connection.ask(request)
        if "error" in answer:
            raise error_named(answer["error"], answer["text"])
        ids, logprobs, versions = (tuple(answer[name]) for name in ("token_ids", "logprobs", "versions"))
        return Completion(ids, logprobs, versions, Finish(answer["finish"]), answer["seconds"])


class SelfTimedPolicy(ServedPolicy):
    """A policy of another process that limits itself to ``max_wait`` seconds."""

    def __init__(self, connection: PolicyConnection, number: int, max_wait: float) -> None:
        super().__init__(connection, number)
        self.max_wait = max_wait


def error_named(name: str, text: str) -> Exception:
    """Return the error that another process raised.

    Args:
        name: its class in ``errors``; any other name stands for a failure of the infrastructure.
        text: its message.
    """
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TurnwiseError):
        return kind(text)
    return InfrastructureError(text)


async def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """Send one message."""
    data = json.dumps(message).encode()
    if len(data) > LONGEST:
        raise UsageError(
            f"a message of {len(data)} bytes is longer than the {LONGEST} that a policy's connection takes"
        )
    writer.write(HEADER.pack(len(data)) + data)
    await writer.drain()


async def receive(reader: asyncio.StreamReader, longest: int) -> dict[str, Any]:
    """Receive one message.

    Raises:
        ValueError: it is longer than ``longest`` bytes, or not a JSON object.
    """
    (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    if size > longest:
        raise ValueError(f"a message of {size} bytes")
    message = json.loads(await reader.readexactly(size))
    if not isinstance(message, dict):
        raise ValueError("a message that is not an object")
    return message
