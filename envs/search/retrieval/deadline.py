"""``Deadline``: HTTP requests with a total time limit, even if a server sends its bytes slowly."""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any

import httpcore
import httpx

AT_ONCE = 64 * 1024
"""Bytes to write between two looks at the clock."""


class Deadline(httpx.BaseTransport):
    """A transport with a deadline for each whole request; httpx alone limits only single reads.

    Its connections are httpcore's, as httpx's own are, but read and write by the clock. Certificates are looked at.
    """

    def __init__(self) -> None:
        self._clock = _Clock()
        self._pool = httpcore.ConnectionPool(
            max_connections=None,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_Backend(self._clock),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return the response as soon as its headers have arrived."""
        url = request.url
        assert isinstance(request.stream, httpx.SyncByteStream)
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _as_httpx():
            answer = self._pool.handle_request(asked)
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the time of this thread's requests in the block, in seconds; beyond it, httpx's timeout is raised."""
        self._clock.until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._clock.until = math.inf


@contextmanager
def _as_httpx() -> Iterator[None]:
    """Convert errors of httpcore into those of httpx, which have the same names."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error


class _Body(httpx.SyncByteStream):
    """The body of the response."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


class _Clock(local):
    """Deadline of each thread's request."""

    until = math.inf

    def left(self, timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
        left = self.until - time.monotonic()
        if left <= 0:
            raise late("the whole request took too long")
        return timeout if left == math.inf else left if timeout is None else min(left, timeout)


class _Stream(httpcore.NetworkStream):
    """A connection on which every read and write respects the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, clock: _Clock) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), AT_ONCE):
            left = self._clock.left(timeout, httpcore.WriteTimeout)
            self._stream.write(buffer[start : start + AT_ONCE], left)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._clock.left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._clock.left(timeout, httpcore.ConnectTimeout)
        made = super().connect_tcp(host, port, left, local_address, socket_options)
        return _Stream(made, self._clock)
