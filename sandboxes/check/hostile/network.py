"""Ways out: addresses, sockets in the file system and without one, and families of sockets."""

from __future__ import annotations

import asyncio
import json
import os

from ....verdicts import expect
from ...spec import Limit
from ..canaries import canaries
from ..case import hostile
from ..harness import Harness, run_program

DAEMONS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket")


async def egress(harness: Harness) -> str:
    """No address of this machine is reached over TCP, UDP or as a name server; there is only a loopback of its own."""
    with canaries(harness.host.folder) as birds:
        async with harness.sandbox() as sandbox:
            found = await run_program(sandbox, "reach", json.dumps({"tcp": birds.tcp, "udp": birds.udp}), timeout=50.0)
        await asyncio.sleep(0.3)
        expect(not found["reached"], f"reached from inside: {', '.join(found['reached'])}")
        expect(not birds.heard, f"canaries heard something: {', '.join(birds.heard)}")
        expect(not found["up"], f"interfaces that are up inside: {', '.join(found['up'])}")
        expect(not found["routes"], f"routes inside: {found['routes']}")
        addresses = len(birds.tcp)
    return f"{addresses} addresses of this machine over TCP, UDP and as a name server: none reached; no route"


async def unix_sockets(harness: Harness) -> str:
    """No socket of the host is reached: neither abstract ones nor those in the file system, daemons' included."""
    with canaries(harness.host.folder) as birds:
        docker = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
        paths = [birds.path, *DAEMONS, *([docker] if docker else [])]
        async with harness.sandbox() as sandbox:
            found = await run_program(sandbox, "reach_sockets", birds.abstract, *paths, timeout=50.0)
        await asyncio.sleep(0.2)
        expect(not found["reached"], f"reached from inside: {', '.join(found['reached'])}")
        expect(not birds.heard, f"canaries heard something: {', '.join(birds.heard)}")
        expect(not found["seen"], f"sockets that can be seen inside: {', '.join(found['seen'])}")
    return f"an abstract one and {len(paths)} in the file system: none reached or seen"


async def odd_socket_families(harness: Harness) -> str:
    """Raw, packet, virtual-machine, cryptography and Bluetooth sockets cannot be made, and netlink changes nothing."""
    async with harness.sandbox() as sandbox:
        found = await run_program(sandbox, "socket_families")
    opened = sorted(name for name, error in found.items() if not error)
    expect(not opened, f"these can be opened: {', '.join(opened)}")
    return ", ".join(f"{name}: {error}" for name, error in found.items())


NETWORK_CASES = (
    hostile(25, egress, Limit.NETWORK),
    hostile(26, unix_sockets),
    hostile(27, odd_socket_families),
)
"""Cases about ways out."""
