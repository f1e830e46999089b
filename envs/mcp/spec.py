"""``ServerSpec``: one MCP server, how to start it, and which of its tools to offer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import UsageError

FOLDER = "{folder}"
"""Placeholder in a spec for the episode's own folder."""


@dataclass(frozen=True)
class ServerSpec:
    """One MCP server: a program that is started and spoken to over its standard streams, or an address.

    ``{folder}`` in ``command``, ``env``, ``cwd`` and ``url`` stands for a folder that is the episode's own: empty when
    the episode begins, gone after it.

    Args:
        name: what messages call it; unique within an environment.
        command: the program and its arguments.
        url: of a server that runs already and speaks streamable HTTP; instead of ``command``.
        env: environment variables of the program. Of this process's own it gets ``PATH``, and no other unless named.
        inherit: names of variables of this process that it gets too, as they are when it starts.
        cwd: where the program runs; the episode's folder if not said.
        headers: sent to ``url`` with every request, e.g. an authorization.
        prefix: put in front of its tools' names, so that two servers may have tools of the same name.
        allow: only these tools are offered, by the names that the server gives them; all if omitted.
        deny: these are not.
        timeout: seconds for one call. A call that takes longer is cancelled and refused with an observation.
        start_timeout: seconds until it has started and listed its tools.
        stateless: one server serves all episodes of this process: right where no call changes anything.
        max_chars: characters of one answer that are shown; what is left out is counted.

    Raises:
        UsageError: neither a command nor a URL is given, or a number is impossible.
    """

    name: str
    command: Sequence[str] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    inherit: Sequence[str] = ()
    cwd: str | Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)  # they may hold a key
    prefix: str = ""
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()
    timeout: float = 30.0
    start_timeout: float = 60.0
    stateless: bool = False
    max_chars: int = 16_000

    def __post_init__(self) -> None:
        for name in ("command", "inherit", "allow", "deny"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise UsageError(f"server {self.name!r}: {name} is a list of words, not the text {value!r}")
            if value is not None:
                object.__setattr__(self, name, tuple(map(str, value)))
        object.__setattr__(self, "env", dict(self.env))
        object.__setattr__(self, "headers", dict(self.headers))
        if bool(self.command) == bool(self.url):
            raise UsageError(f"server {self.name!r} needs either a command to start it with, or the url where it is")
        for name in ("timeout", "start_timeout", "max_chars"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise UsageError(f"server {self.name!r}: {name} {value!r} is not a positive number")

    def offers(self, tool: str) -> bool:
        """Return whether to offer the tool that the server calls ``tool``."""
        return (self.allow is None or tool in self.allow) and tool not in self.deny
