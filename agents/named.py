"""``agent_from``: make an agent from the value of ``--policy``."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import InfrastructureError, ModelError, UsageError
from ..inference.policy_spec import is_chat_api
from ..inference.train_extra import train_extra
from .agent import Agent
from .chat_apis.named import api_agent, meant
from .chat_apis.settings import ApiSettings
from .imported import PLACE, imported
from .scripted import FunctionAgent, MixedAgent, NullAgent, OracleAgent, RandomAgent
from .settings import AgentSettings

if TYPE_CHECKING:
    from ..inference.policy import Policy

T = TypeVar("T")
KINDS = (
    "oracle, random, null, mixed:0.35, function:module:name, the folder of a model, http://host:port of a vLLM server, "
    "or openai:MODEL, anthropic:MODEL or chat:URL#MODEL"
)
SCRIPTED: dict[str, Callable[[], Agent]] = {"oracle": OracleAgent, "random": RandomAgent, "null": NullAgent}


def agent_from(
    spec: str,
    *,
    agent: AgentSettings | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    device: str = "auto",
    max_batch: int = 64,
    threaded: bool = False,
    seed: int = 0,
    tokenizer: str | None = None,
    api: ApiSettings | None = None,
    folder: Path | None = None,
    turn_timeout: float | None = None,
) -> Agent:
    """Create the agent of a specification.

    Args:
        spec: ``oracle``, ``random``, ``null``; ``mixed:0.35`` (the oracle's action with that probability, or several
            skills, ``mixed:0,0.5,1``; with habits, ``mixed:0.5,habits=0.25``); ``function:module:name``; the folder of
            a model; or the address of a vLLM server, ``http://host:port``, or of several replicas, with commas
            between. ``#name`` after an address says which of the models there is meant. Or a model behind a chat API:
            ``openai:MODEL``, ``anthropic:MODEL``, ``chat:http://host/v1#MODEL``.
        agent: settings of a model; their defaults are those saved beside the model.
        temperature: sampling temperature, instead of ``agent.temperature``.
        max_tokens: length of the longest action in tokens, instead of ``agent.max_tokens``.
        device: device of a model; ``auto`` is a GPU if there is one.
        max_batch: number of episodes that share a model's forward pass.
        threaded: whether to run a model's forward passes in a thread; see ``TransformersPolicy``.
        seed: seed of a model's own generator.
        tokenizer: folder with the tokenizer of a server's model, and with the settings saved beside it (default: the
            folder that the server loaded its model from, if it is on this machine).
        api: settings of a chat API.
        folder: folder for a chat API's answers and costs (default: keep them in memory).
        turn_timeout: seconds of a turn, within which a vLLM server has to answer; ``None`` for no limit.

    Raises:
        UsageError: the policy does not exist, or has no such settings; or a server does not answer or cannot be used.
        ModelError: the folder has no usable model.
    """
    short: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
    set_here = {name: value for name, value in short.items() if value is not None}
    given = AgentSettings(**set_here) if agent is None else agent.overridden(AgentSettings(**set_here))
    kind, colon, rest = spec.strip().partition(":")
    if api is not None and not is_chat_api(spec):
        _refuse_api(spec, api)
    if spec.strip() in SCRIPTED or (colon and kind in ("mixed", "function")):
        _refuse_settings(spec, given)
    if spec.strip() in SCRIPTED:
        return SCRIPTED[spec.strip()]()
    if kind == "mixed" and colon:
        return _mixed(rest, spec)
    if kind == "function" and colon:
        return _imported(rest, spec)
    if is_chat_api(spec):
        return _behind_api(spec, api, folder, given)
    if kind in ("http", "https"):
        return _served(spec, given, tokenizer, seed, turn_timeout)
    _refuse_unknown(spec)
    return _model(spec, given, device, max_batch, threaded, seed)


def _refuse_settings(spec: str, given: AgentSettings) -> None:
    """Refuse settings of a model for a policy that is not one; it would ignore them."""
    if given.model_fields_set:
        name = min(given.model_fields_set)
        short = name if name in ("temperature", "max_tokens") else f"agent.{name}"
        raise UsageError(
            f"{short} has no effect on {spec.strip()!r}, which is not a model: omit it, or name a model: its folder, "
            "http://host:port, openai:MODEL, anthropic:MODEL or chat:URL#MODEL"
        )


def _refuse_api(spec: str, api: ApiSettings) -> None:
    """Refuse settings of a chat API for a policy that is not behind one."""
    if changed := api.model_dump(exclude_defaults=True):
        names = " and ".join(f"api.{name}" for name in changed)
        raise UsageError(f"only a model behind a chat API reads {names}, and {spec.strip()!r} is not one")


def _refuse_unknown(spec: str) -> None:
    """Refuse a specification that is neither a policy nor a model's folder."""
    if not spec.strip() or (not Path(spec).expanduser().exists() and "/" not in spec):
        near = f"did you mean {meant(spec)}?" if meant(spec) else f"use {KINDS}"
        mine = (
            f"; for a function or class of yours, write function:MODULE:{spec.strip()}" if spec.isidentifier() else ""
        )
        raise UsageError(f"there is no policy {spec!r}; {near}{mine}")
    if meant(spec) and not Path(spec).expanduser().exists():
        raise UsageError(f"there is no model folder {spec!r}; for the model behind the API, write {meant(spec)}")


def _behind_api(spec: str, api: ApiSettings | None, folder: Path | None, given: AgentSettings) -> Agent:
    """Create the agent of a model behind a chat API, which takes only some of the settings."""
    set_here = {name: getattr(given, name) for name in given.model_fields_set}
    known = {name: set_here.pop(name, None) for name in ("temperature", "max_tokens", "system")}
    if set_here:
        raise UsageError(
            f"agent.{min(set_here)} has no effect on {spec!r}: a model behind a chat API takes {', '.join(known)}"
        )
    return api_agent(spec, api, folder=folder, **known)


def fingerprint(spec: str) -> str | None:
    """Return sixteen hex digits that identify the weights and settings in a model's folder; else ``None``.

    A path alone does not identify a model, since training may write another one there.
    """
    folder = Path(spec).expanduser()
    files = sorted(path for kind in ("safetensors", "json", "jinja") for path in folder.glob(f"*.{kind}"))
    if not files or spec.strip() in SCRIPTED:
        return None
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            found.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def _model(spec: str, given: AgentSettings, device: str, max_batch: int, threaded: bool, seed: int) -> Agent:
    with train_extra(f"a model in this process ({spec})"):
        from ..inference.models import load_model, resolve_device
        from ..inference.transformers_policy import TransformersPolicy

    path = Path(spec).expanduser()
    settings = AgentSettings.beside(path)
    model, tokenizer = load_model(path if path.exists() else spec, device=resolve_device(device))
    policy = TransformersPolicy(model, tokenizer, max_batch=max_batch, threaded=threaded, seed=seed)
    return _chat(policy, tokenizer, settings, given)


def _served(
    spec: str, given: AgentSettings, tokenizer_folder: str | None, seed: int, turn_timeout: float | None
) -> Agent:
    """Create the agent of one or several servers, after checking them, so that errors come before any episode."""
    with train_extra(f"the tokenizer of a vLLM server ({spec})"):
        from ..inference.models import load_tokenizer, vocabulary_of
    from ..inference.serving.http.client import ServerClient
    from ..inference.serving.http.vocabulary import check_tokenizer
    from ..inference.serving.limits import TimeLimits
    from ..inference.serving.remote_policy import RemotePolicy

    limits, servers = TimeLimits.within(turn_timeout), []
    for address in filter(None, map(str.strip, spec.split(","))):
        url, _, name = address.partition("#")
        key = os.environ.get("VLLM_API_KEY")
        servers.append(ServerClient(url, model=name or None, api_key=key, timeout=limits.max_wait))
    policy = RemotePolicy(servers, patience=limits.patience, request_timeout=limits.request, seed=seed)

    async def opened() -> tuple[Any, AgentSettings]:
        await policy.open()
        source = tokenizer_folder or _here(servers[0].root, servers[0].address)
        tokenizer = load_tokenizer(source)
        for server in servers:
            await check_tokenizer(server, tokenizer, source=source)
            server.vocabulary = vocabulary_of(source, tokenizer)
        await policy.close()
        return tokenizer, AgentSettings.beside(source)

    try:
        tokenizer, settings = _to_its_end(opened)
    except InfrastructureError as error:
        raise UsageError(f"policy {spec!r}: {error}") from error
    return _chat(policy, tokenizer, settings, given)


def chat_agent(policy: Policy, folder: Path, tokenizer: Any, given: AgentSettings) -> Agent:
    """Return the agent of a policy that serves the model in a folder.

    Args:
        policy: policy that samples.
        folder: folder of the model, beside which the settings of its training are.
        tokenizer: tokenizer of the model.
        given: settings that replace those of its training.
    """
    return _chat(policy, tokenizer, AgentSettings.beside(folder), given)


def _to_its_end(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine, also inside a running event loop; Ctrl-C ends it at once."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(lambda: asyncio.run(work())).result()


def _here(root: str, address: str) -> str:
    """Return the folder that a server loaded its model from, if it is on this machine too."""
    if root and Path(root).is_dir():
        return root
    raise ModelError(
        f"server {address} loaded its model from {root!r}, which is not a folder on this machine; name one with "
        "the same tokenizer: --tokenizer FOLDER"
    )


def _chat(policy: Policy, tokenizer: Any, trained: AgentSettings, given: AgentSettings) -> Agent:
    from .chat import ChatAgent

    settings = trained.overridden(given)
    agent = ChatAgent.of(settings, policy, tokenizer)
    agent.notes = tuple(filter(None, [settings.departures(trained)]))
    return agent


def _mixed(text: str, spec: str) -> MixedAgent:
    """Create demonstrators of the skills between the commas; the last entry may be their habits."""
    skills, _, habits = text.partition(",habits=")
    try:
        shares, habit = [float(skill) for skill in skills.split(",")], float(habits or 0)
        return MixedAgent(shares, habits=habit)
    except (ValueError, UsageError):
        raise UsageError(
            f"policy {spec!r}: a skill must be a number from 0 to 1, e.g. mixed:0.35, and so must habits, which come "
            "last, e.g. mixed:0.35,habits=0.25"
        ) from None


def _imported(place: str, spec: str) -> Agent:
    """Load a function, an agent, or a class of agents, from the working directory or an installed package."""
    if not PLACE.fullmatch(place):
        raise UsageError(f"policy {spec!r} must have the form function:module:name")
    try:
        found = imported(place)
    except UsageError as error:
        raise UsageError(f"policy {spec!r}: {error}") from None
    if hasattr(found, "start"):
        try:
            return cast(Agent, found() if isinstance(found, type) else found)
        except TypeError as error:
            cure = "name an object of it, or a class whose arguments all have defaults"
            raise UsageError(f"policy {spec!r}: {place!r} cannot be created ({error}); {cure}") from error
    if not callable(found):
        raise UsageError(f"policy {spec!r}: {place!r} is a {type(found).__name__}, but must be a function or an agent")
    return FunctionAgent(found)
