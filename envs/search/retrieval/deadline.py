"""``Deadline``: HTTP requests that end in time, however slowly a server lets its bytes drip."""

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
"""Bytes that are written before it is looked at the clock again."""


class Deadline(httpx.HTTPTransport):
    """A transport whose requests have a deadline each; httpx alone bounds every single read.

    Args:
        verify: look at the server's certificate.
    """

    def __init__(self, *, verify: bool) -> None:
        super().__init__(verify=verify, trust_env=False)
        self._clock = _Clock()
        self._pool._network_backend = _Backend(self._clock)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """What this thread sends and reads meanwhile takes so many seconds at most, or raises a timeout of httpx's."""
        self._clock.until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._clock.until = math.inf


class _Clock(local):
    """When this thread's request must be over."""

    until = math.inf

    def left(self, timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
        left = self.until - time.monotonic()
        if left <= 0:
            raise late("the whole request took too long")
        return timeout if left == math.inf else left if timeout is None else min(left, timeout)


class _Stream(httpcore.NetworkStream):
    """A connection on which every read and write knows the deadline."""

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
