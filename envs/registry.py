"""The registry of environments: versioned ids on top of Gymnasium's registry, plug-ins, and suggestions for typos."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import gymnasium
from gymnasium.envs.registration import load_env_creator
from gymnasium.envs.registration import registry as gymnasium_registry

from ..config_errors import TYPES
from ..errors import ContractError, EnvironmentFailedError, TurnwiseError, UnknownEnvironmentError, UsageError
from .adapters.peers import PEERS, Peer, forgotten_version, peer_of
from .author_line import at, author_line
from .harbor.address import folder_of, is_harbor
from .remote.address import (
    is_nemo,
    is_openenv,
    is_remote,
    meant_as_remote,
    nemo_place,
    openenv_place,
    remote_id,
    servers_of,
)

if TYPE_CHECKING:
    from .base import TurnEnv

GROUP = "turnwise.envs"
"""The entry-point group through which other packages register: the name is the id, the value a class."""
MODULES = {"web": ("playwright",), "miniwob": ("miniwob", "playwright"), "bfcl": ("bfcl_eval",)}
MODULES |= {peer.extra: (peer.module,) for peer in PEERS.values() if peer.extra is not None}
"""Modules that an extra installs, if their names differ from the extra's."""
UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
"""Pattern of Python's message about an argument that a constructor does not take."""
MISSING = re.compile(
    r"(\w+)\.__init__\(\) missing \d+ required [a-z -]+arguments?: (.*?)(?: was raised from the environment.*)?$"
)
"""Pattern of Python's message about arguments that a constructor needs, in Gymnasium's words around it."""
NUMBERS = {name: TYPES[name] for name in ("int", "float", "bool")}
"""Words for types of arguments that are not texts."""
ID = re.compile(r"^(?:[\w:.-]+/)?[\w:.-]+-v\d+$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered environment.

    Args:
        id: ``namespace/Name-vN``.
        entry_point: the class, or ``"module:Class"`` to import on first use.
        kwargs: what ``make`` passes to it.
        source: where it came from: ``"turnwise"``, a distribution's name, or ``"session"``.
        extra: the optional extra of this package that it needs, if any.
    """

    id: str
    entry_point: str | Callable[..., TurnEnv]
    kwargs: dict[str, Any] = field(default_factory=dict)
    source: str = "session"
    extra: str | None = None

    @property
    def lacks(self) -> str | None:
        """The extra that it needs and that is not installed, as a sentence; ``None`` if nothing is missing."""
        modules = () if self.extra is None else MODULES.get(self.extra, (self.extra,))
        return None if all(map(importlib.util.find_spec, modules)) else f"needs pip install 'turnwise[{self.extra}]'"


_entries: dict[str, Entry] = {}
_plugins_read = False


def register(
    id: str,
    entry_point: str | Callable[..., TurnEnv],
    *,
    kwargs: dict[str, Any] | None = None,
    source: str = "session",
    extra: str | None = None,
) -> None:
    """Register an environment under a versioned id, here and for ``gymnasium.make``.

    Args:
        id: ``"demo/GuessNumber-v0"``; a change that alters results needs a new version.
        entry_point: the class, or ``"module:Class"``.
        kwargs: constructor arguments of this id.
        source: the distribution that registers it; set by the plug-in loader.
        extra: the optional extra that it needs.

    Raises:
        UsageError: the id has no version, or is taken by another class; or what is registered cannot be called.
    """
    if not isinstance(id, str) or not ID.match(id):
        raise UsageError(f"environment id {id!r} must look like 'namespace/Name-v0'")
    if not (callable(entry_point) or (isinstance(entry_point, str) and ":" in entry_point)):
        raise UsageError(f"{id} cannot be registered as {entry_point!r}: use a class, a factory, or 'module:Class'")
    entry = Entry(id, entry_point, dict(kwargs or {}), source, extra)
    known = _entries.get(id)
    if known is not None and known != entry and not _same_class(known, entry):
        raise UsageError(f"environment id {id!r} is taken by {known.entry_point!r}; register a new version")
    if id in gymnasium_registry:
        del gymnasium_registry[id]
    _entries[id] = entry
    gymnasium.register(id, entry_point=entry_point, kwargs=entry.kwargs, order_enforce=False)


def make(
    id: str,
    *,
    wrappers: Sequence[Callable[[TurnEnv], Any]] = (),
    turn_limit: int | None = None,
    **kwargs: Any,
) -> TurnEnv:
    """Create an environment, without Gymnasium's own checking wrappers.

    Args:
        id: a registered id.
        wrappers: applied in order, the last outermost, e.g. ``[functools.partial(AttachHistory, turns=5)]``.
        turn_limit: a limit of the run on all turns of an episode, outside all wrappers, which truncates; the task's own
            ``max_turns`` stays in force.
        kwargs: constructor arguments, over those of the id.

    Raises:
        UnknownEnvironmentError: no such id; the message names the nearest.
        UsageError: the environment needs an optional extra that is not installed, or refuses ``kwargs``.
        ContractError: what is registered is not a ``TurnEnv``, or lacks something; the message has the author's line.
        EnvironmentFailedError: its constructor raised.
    """
    from .base import TurnEnv  # here, since every process reads the ids, and few make an environment

    entry = find(id)
    if (maker := _maker_of(id)) is not None:
        return _wrapped(maker(id, **kwargs), wrappers, turn_limit)
    if isinstance(entry.entry_point, type) and not issubclass(entry.entry_point, TurnEnv):
        raise ContractError(f"{id} is a {entry.entry_point.__name__}, not a turnwise.TurnEnv")
    try:
        with warnings.catch_warnings():
            # Versions of an id live side by side here: an older one is a choice, not an oversight.
            warnings.filterwarnings("ignore", message=".*is out of date")
            env: Any = gymnasium.make(id, disable_env_checker=True, **kwargs)
    except ModuleNotFoundError as error:
        if entry.extra is None:
            raise EnvironmentFailedError(f"cannot create {id}: {type(error).__name__}: {error}") from error
        raise UsageError(f"{id} needs {error.name!r}: pip install 'turnwise[{entry.extra}]'") from None
    except TypeError as error:
        if kwargs and (wrong := UNEXPECTED.search(str(error))):
            raise UsageError(f"{id} does not take the argument {wrong[1]!r}{_meant(entry, wrong[1])}") from None
        lacking = MISSING.search(str(error))
        if lacking and lacking[1] == str(getattr(entry.entry_point, "__name__", entry.entry_point)).split(":")[-1]:
            cure = "set env_kwargs.NAME=VALUE (in Python, a keyword of make), or give them defaults"
            raise UsageError(f"{id} needs arguments: {lacking[2]}; {cure}") from error
        if wanted := _mistyped(entry, kwargs):
            raise UsageError(f"{id}: {wanted}") from None
        raise _failed(id, error) from error
    except ContractError as error:
        where = author_line(error)
        if not where or "(at " in str(error):
            raise
        raise ContractError(f"{error}{at(where)}") from error
    except TurnwiseError:
        raise
    except Exception as error:
        raise _failed(id, error) from error
    if not isinstance(env.unwrapped, TurnEnv):
        raise ContractError(f"{id} is a {type(env.unwrapped).__name__}, not a turnwise.TurnEnv")
    return _wrapped(env, wrappers, turn_limit)


def _maker_of(id: str) -> Callable[..., TurnEnv] | None:
    """Return what creates the environment of an id that names a place; ``None`` for other ids."""
    if is_remote(id):
        from .remote.env import remote_env  # a client of WebSockets, which nothing else here needs

        return remote_env
    if is_openenv(id):
        from .openenv.env import openenv

        return openenv
    if is_nemo(id):
        from .nemo.env import nemo

        return nemo
    if is_harbor(id):
        from .harbor.env import harbor

        return harbor
    return None


def _wrapped(env: Any, wrappers: Sequence[Callable[[TurnEnv], Any]], turn_limit: int | None) -> TurnEnv:
    for wrap in wrappers:
        env = wrap(env)
    return _limited(cast("TurnEnv", env), turn_limit)


def create(source: str | Callable[..., TurnEnv], *, turn_limit: int | None = None, **kwargs: Any) -> TurnEnv:
    """Return a new environment of an id, a class or a factory; the arguments are those of ``make``."""
    if isinstance(source, str):
        return make(source, turn_limit=turn_limit, **kwargs)
    return _limited(source(**kwargs), turn_limit)


def _limited(env: TurnEnv, turn_limit: int | None) -> TurnEnv:
    if turn_limit is None:
        return env
    from .wrappers.turn_limit import TurnLimit  # here, as above

    return cast("TurnEnv", TurnLimit(env, turn_limit))


def _failed(id: str, error: Exception) -> EnvironmentFailedError:
    where = at(author_line(error))
    return EnvironmentFailedError(f"cannot create {id}: {type(error).__name__}: {error}{where}")


def find(id: str) -> Entry:
    """Return the entry of an id. It contacts no server, also for ``turnwise://host:port/ID`` and ``openenv://host:port``.

    ``nemo://host:port`` names a resources server of NeMo Gym, and ``harbor:PATH`` names a folder of Harbor tasks.

    Raises:
        UnknownEnvironmentError: no such id; the message names the nearest.
    """
    load_plugins()
    if is_remote(id):
        servers = ", ".join(str(remote_id(each)[0]) for each in servers_of(id))
        return Entry(id, "turnwise.envs.remote.env:remote_env", source=servers)
    if is_openenv(id):
        address, _ = openenv_place(id)
        return Entry(id, "turnwise.envs.openenv.env:openenv", source=str(address))
    if is_nemo(id):
        return Entry(id, "turnwise.envs.nemo.env:nemo", source=str(nemo_place(id)))
    if is_harbor(id):
        return Entry(id, "turnwise.envs.harbor.env:HarborEnv", {"path": str(folder_of(id))}, source="harbor")
    if not isinstance(id, str):
        raise UnknownEnvironmentError(f"name an environment by an id such as 'turnwise/Maze-v0', not by {id!r:.60}")
    if id in _entries:
        return _entries[id]
    if (found := peer_of(id)) is not None:
        return _entry_of(id, *found)
    if meant := meant_as_remote(id):
        raise UnknownEnvironmentError(f"{id!r} is not an id of an environment on a server; {meant}")
    near = nearest(id, list(_entries))
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    hint = f" {version}" if (version := forgotten_version(id)) else hint
    raise UnknownEnvironmentError(
        f"there is no environment {id!r}.{hint} `turnwise envs` lists all {len(_entries)}; for your "
        "own, name its file (my_env.py) or import it."
    )


def _entry_of(id: str, peer: Peer, name: str) -> Entry:
    """Return the entry of another package's environment, and let ``gymnasium.make`` find it; it is in no list."""
    entry = Entry(id, peer.adapter, {"name": name}, source=peer.module, extra=peer.extra)
    if id not in gymnasium_registry:
        gymnasium.register(id, entry_point=entry.entry_point, kwargs=entry.kwargs, order_enforce=False)
    return entry


def entries() -> list[Entry]:
    """Return every registered environment, sorted by id."""
    load_plugins()
    return [_entries[id] for id in sorted(_entries)]


def load_plugins(*, again: bool = False) -> None:
    """Read the ``turnwise.envs`` entry points of installed packages (once). Nothing of theirs is imported yet."""
    global _plugins_read
    if _plugins_read and not again:
        return
    _plugins_read = True
    for point in importlib.metadata.entry_points(group=GROUP):
        source = point.dist.name if point.dist else "unknown"
        try:
            register(point.name, point.value, source=source)
        except UsageError as error:  # one faulty plug-in must not take the others away
            warnings.warn(f"the environments of package {source!r} are incomplete: {error}", stacklevel=2)


def nearest(id: str, known: list[str]) -> list[str]:
    """Return up to three ids that a user may have meant; those of other namespaces only if they are very close."""
    space, _, name = id.rpartition("/")
    short = {one.rsplit("/", 1)[-1].lower(): one for one in known}
    foreign = space and not any(one.startswith(f"{space}/") for one in known)
    hits = difflib.get_close_matches(name.lower(), list(short), n=3, cutoff=0.8 if foreign else 0.5)
    return [short[hit] for hit in hits]


def _meant(entry: Entry, wrong: str) -> str:
    """Return the arguments that a caller may have meant, or all."""
    known = {one.name for one in _parameters(entry) if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}
    near = difflib.get_close_matches(wrong, sorted(known), n=2)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; it takes {', '.join(sorted(known))}"


def _mistyped(entry: Entry, kwargs: Mapping[str, Any]) -> str | None:
    """Return a sentence about a text or a list that was given for an argument that takes numbers, or None."""
    for one in _parameters(entry):
        value, annotation = kwargs.get(one.name), one.annotation
        written = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        kinds = {kind.strip() for kind in written.split("|")} - {"None"}
        if isinstance(value, str | list) and len(kinds) == 1 and (rule := NUMBERS.get(kinds.pop())):
            return f"the argument {one.name!r} must be {rule}; got {value!r}"
    return None


def _parameters(entry: Entry) -> list[inspect.Parameter]:
    """Return the arguments of what creates an environment, those of the class before those of its bases."""
    creator = entry.entry_point if callable(entry.entry_point) else load_env_creator(entry.entry_point)
    signatures = [inspect.signature(kind.__init__) for kind in getattr(creator, "__mro__", ()) if kind is not object]
    signatures = signatures or [inspect.signature(creator)]
    return [one for each in signatures for one in each.parameters.values() if one.name != "self"]


def _same_class(one: Entry, other: Entry) -> bool:
    """Return whether a class was merely redefined under the same name, as in a notebook or a reloaded module."""

    def name(entry: Entry) -> str:
        point = entry.entry_point
        if isinstance(point, str):
            return point
        return f"{getattr(point, '__module__', '')}:{getattr(point, '__qualname__', point)}"

    return name(one) == name(other)
