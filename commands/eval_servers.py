"""Servers that ``turnwise eval`` starts on a Ray cluster for one evaluation, and stops at its end."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pydantic

from ..agents.agent import Agent
from ..agents.settings import AgentSettings
from ..config import Config
from ..errors import UsageError
from ..evals.evaluate import agent_of
from ..evals.evaluation import check_evaluation
from ..evals.settings import EvalConfig
from ..rollouts.engine import require_ray
from ..rollouts.store import EPISODES
from ..stop_signals import run_until_stopped
from ..trainers.run.engine_settings import RayServersConfig


class EvalServers(Config):
    """Servers of one evaluation."""

    ray: RayServersConfig
    """Servers that the evaluation starts on a Ray cluster, as training does (``docs/many_machines.md``)."""
    dtype: Literal["float32", "bfloat16", "auto"] = "auto"
    """Precision of the weights on the servers; ``auto`` is that of the model's folder."""
    concurrency: int = pydantic.Field(default=256, ge=1)
    """The most running requests at each server; ``concurrency`` of the evaluation bounds their sum."""


class ServedEvalConfig(EvalConfig):
    """Settings of an evaluation that may start servers."""

    cures: ClassVar[Mapping[str, str]] = {
        "env": "name an environment's id (`turnwise envs` lists them) or file, as env=my_env.py",
        "out": "name the folder with --out",
        "resume": "resume with --resume",
        "overwrite": "replace a run with --overwrite",
    }

    server: EvalServers | None = None
    """Servers to start for ``policy``, the folder of a model (default: the model samples in this process)."""

    @pydantic.model_validator(mode="after")
    def _one_cluster(self) -> Self:
        if self.server is not None:
            self.server.ray.agree_with(self.rollouts, "an evaluation")
        return self


@contextmanager
def acting(settings: ServedEvalConfig, out: Path, *, resume: bool = False, overwrite: bool = False) -> Iterator[Agent]:
    """Yield the agent of an evaluation. Its servers, if it starts some, are stopped at the end, whatever ends it.

    Args:
        settings: settings of the evaluation.
        out: folder of the evaluation.
        resume: whether the evaluation continues one in that folder.
        overwrite: whether it replaces one.

    Raises:
        UsageError: the policy is not the folder of a model, no server can be started as the settings say, or the
            evaluation would be refused once they have started.
        StoreError: servers would start, and ``run_evaluation`` would refuse the folder.
        InfrastructureError: the servers do not start.
    """
    if settings.server is None:
        yield agent_of(settings, out)
        return
    folder, ray = Path(settings.policy).expanduser(), settings.server.ray
    if not (folder / "config.json").is_file():
        raise UsageError(f"server.ray serves the folder of a model, and {settings.policy!r} is not one")
    if settings.program is not None:
        raise UsageError("a program plays with a model in this process or at a URL: leave out server or program")
    require_ray("server.ray")
    # Servers take minutes to start, and occupy what others on the cluster may need.
    check_evaluation(settings, store=out / EPISODES, resume=resume, overwrite=overwrite)
    from ..rollouts.cluster.connection import ClusterConnection, Needs  # Ray, which nothing else needs

    needs = [Needs("server", "server.ray", ray.resources, ray.replicas)]
    if settings.rollouts.engine == "ray":
        needs.append(Needs.of_workers(settings.rollouts))
    with ExitStack() as stack:
        stack.callback(ClusterConnection(ray.address, *needs, object_store=settings.rollouts.object_store).close)
        yield _started(stack, settings, settings.server, folder)


def _started(stack: ExitStack, settings: EvalConfig, given: EvalServers, folder: Path) -> Agent:
    """Start the servers, check them, and return the agent that they sample for."""
    from ..agents.named import chat_agent
    from ..inference.models import load_tokenizer, vocabulary_of
    from ..inference.serving.http.vocabulary import check_tokenizer
    from ..inference.serving.limits import TimeLimits
    from ..inference.serving.remote_policy import RemotePolicy
    from ..trainers.run.ray_servers import API_KEY, RayServers  # imports torch

    source = settings.tokenizer or str(folder)
    tokenizer, limits = load_tokenizer(source), TimeLimits.within(settings.turn_timeout)
    options = given.ray.options(longest=_context_length(folder), dtype=given.dtype)
    client: dict[str, Any] = {"model": "policy", "api_key": os.environ.get(API_KEY), "timeout": limits.max_wait}
    placed = RayServers(given.ray, options.model_copy(update={"name": "policy"}), folder, keep=True, **client)
    for server in placed.servers:
        server.vocabulary = vocabulary_of(source, tokenizer)
    policy = RemotePolicy(
        placed.servers,
        max_in_flight=given.concurrency,
        patience=limits.patience,
        request_timeout=limits.request,
        seed=settings.seed,
    )

    async def opened() -> None:
        late: Mapping[Any, str] = await placed.start()
        policy.expect(late)
        await policy.open()
        for server in placed.servers:
            if server not in late:
                await check_tokenizer(server, tokenizer, source=source)
        await policy.close()  # connections belong to this event loop

    stack.callback(lambda: asyncio.run(placed.stop()))
    run_until_stopped(opened())
    short: dict[str, Any] = {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
    set_here = AgentSettings(**{name: value for name, value in short.items() if value is not None})
    return chat_agent(policy, folder, tokenizer, settings.agent.overridden(set_here))


def _context_length(folder: Path) -> int:
    """Return the context length of a model in tokens, by its configuration."""
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config") or {}
    return int(config.get("max_position_embeddings") or text.get("max_position_embeddings") or 1 << 20)
