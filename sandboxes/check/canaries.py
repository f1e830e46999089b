"""Canaries: servers on this machine that no sandbox may reach. No public address is ever tried."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SIOCGIFADDR = 0x8915
GLOBAL = "00"
"""The scope of a global address in ``/proc/net/if_inet6``."""


@dataclass
class Canaries:
    """Servers that note who connected.

    Args:
        tcp: addresses and ports that take connections.
        udp: addresses and ports that take datagrams; one of them answers like a name server.
        abstract: the name of an abstract unix socket.
        path: path of a unix socket in the file system.
        heard: human-readable list of what arrived.
    """

    tcp: list[tuple[str, int]] = field(default_factory=list)
    udp: list[tuple[str, int]] = field(default_factory=list)
    abstract: str = ""
    path: str = ""
    heard: list[str] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)

    def serve(self, family: int, kind: int, address: object, what: str) -> socket.socket:
        """Listen at an address, in a thread that ends when the socket is closed."""
        server = socket.socket(family, kind)
        server.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            server.listen(16)
        self._sockets.append(server)
        threading.Thread(target=self._listen, args=(server, what), name="turnwise-canary", daemon=True).start()
        return server

    def close(self) -> None:
        """Stop listening."""
        for server in self._sockets:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()

    def _listen(self, server: socket.socket, what: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                if server.type == socket.SOCK_STREAM:
                    connection, _ = server.accept()
                    connection.close()
                elif not server.recvfrom(4096)[0]:  # wakes a closed socket
                    return
                self.heard.append(what)


@contextlib.contextmanager
def canaries(folder: Path) -> Iterator[Canaries]:
    """Canaries on every address of this machine, and on two unix sockets, one of them in ``folder``."""
    found = Canaries(abstract=f"turnwise-canary-{secrets.token_hex(6)}", path=str(folder / "canary.socket"))
    try:
        for address in own_addresses():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with contextlib.suppress(OSError):  # the address may be disappearing
                stream = found.serve(family, socket.SOCK_STREAM, (address, 0), f"TCP at {address}")
                found.tcp.append((address, stream.getsockname()[1]))
                datagrams = found.serve(family, socket.SOCK_DGRAM, (address, 0), f"UDP at {address}")
                found.udp.append((address, datagrams.getsockname()[1]))
        found.serve(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + found.abstract, "an abstract unix socket")
        found.serve(socket.AF_UNIX, socket.SOCK_STREAM, found.path, "a unix socket in the file system")
        os.chmod(found.path, 0o777)
        yield found
    finally:
        found.close()
        Path(found.path).unlink(missing_ok=True)


def own_addresses() -> list[str]:
    """The addresses of this machine itself, its bridges included; those of links alone are left out."""
    found = ["127.0.0.1", "::1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            digits, _, _, scope = line.split()[:4]
            if scope == GLOBAL:
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return list(dict.fromkeys(found))
