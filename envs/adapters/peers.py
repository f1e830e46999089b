"""Environments of other packages by id: ``gymnasium/FrozenLake-v1`` needs no class and no registration.

The part before the slash names the package, and the rest is the package's own name of the environment. Each adapter is
one file, and imports its package only when an environment is created.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...errors import UnknownEnvironmentError

ID = re.compile(r"(?P<peer>[\w-]+)/(?P<name>[\w.-]+-v\d+)")
VERSION = re.compile(r"-v\d+$")
FEW = 5
"""Most ids that an error names where none is close to the wrong one."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A package whose environments have an adapter.

    Args:
        adapter: ``"module:Class"`` of the adapter, whose first argument is the name of an environment.
        module: module that the package installs.
        extra: extra of this package that installs it; ``None`` if a plain installation has it, or if it runs in a
            Python of its own.
        versioned: whether the package's own names end in a version, as in ``FrozenLake-v1``; otherwise, the version
            belongs to the adapter.
        example: an id.
    """

    adapter: str
    module: str
    extra: str | None
    versioned: bool
    example: str

    @property
    def lacks(self) -> str | None:
        """The extra that is not installed, as a sentence; ``None`` if nothing is missing."""
        if self.extra is None or importlib.util.find_spec(self.module) is not None:
            return None
        return f"needs pip install 'turnwise[{self.extra}]'"


PEERS: Mapping[str, Peer] = {
    "gymnasium": Peer(
        "turnwise.envs.adapters.gymnasium_text:GymnasiumText", "gymnasium", None, True, "gymnasium/FrozenLake-v1"
    ),
    "minigrid": Peer(
        "turnwise.envs.adapters.minigrid_text:Minigrid",
        "minigrid",
        "minigrid",
        True,
        "minigrid/BabyAI-GoToRedBall-v0",
    ),
    "reasoning_gym": Peer(
        "turnwise.envs.adapters.reasoning_gym_text:ReasoningGym",
        "reasoning_gym",
        "reasoning-gym",
        False,
        "reasoning_gym/leg_counting-v0",
    ),
    "scienceworld": Peer(
        "turnwise.envs.adapters.scienceworld_text:ScienceWorld",
        "scienceworld",
        "scienceworld",
        False,
        "scienceworld/find-plant-v0",
    ),
    "textarena": Peer(
        "turnwise.envs.adapters.textarena_text:TextArena", "textarena", "textarena", True, "textarena/Mastermind-v0"
    ),
    "textworld": Peer(
        "turnwise.envs.adapters.textworld_text:TextWorld", "textworld", "textworld", False, "textworld/simple-v0"
    ),
    "verifiers": Peer(
        "turnwise.envs.adapters.verifiers_text:VerifiersTaskset", "verifiers", None, False, "verifiers/reverse_text-v0"
    ),
}
"""Packages by the first part of an id."""


def forgotten_version(id: str) -> str:
    """Return a sentence about an id of a package that lacks a version; an empty text for other ids."""
    package = id.partition("/")[0]
    if package not in PEERS or VERSION.search(id):
        return ""
    return f"Ids of {package} end in a version, as in {PEERS[package].example}."


def peer_of(id: str) -> tuple[Peer, str] | None:
    """Return the package of an id and its own name of the environment; ``None`` if the id belongs to no adapter."""
    match = ID.fullmatch(id)
    peer = PEERS.get(match["peer"]) if match else None
    if match is None or peer is None:
        return None
    name = match["name"]
    return peer, name if peer.versioned else name.rpartition("-v")[0]


def unknown(package: str, name: str, known: Iterable[str]) -> UnknownEnvironmentError:
    """Return the error for a name that a package does not have, with the ids that are close to it, or a few of all.

    Args:
        package: first part of the ids.
        name: the package's own name of the environment.
        known: all names that it has.
    """
    version, names = "" if PEERS[package].versioned else "-v0", sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    shown = ", ".join(f"{package}/{each}{version}" for each in near or names[:FEW])
    hint = f" Did you mean {shown}?" if near else f" It has {shown}{' and others' * (len(names) > FEW)}."
    return UnknownEnvironmentError(f"{package} has no environment {name!r}.{hint}")
