"""An evaluation: its settings, the episodes it plays into a store, and their summary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, cast

import pydantic

from ..agents.agent import Agent, Remarking
from ..agents.chat_apis.named import server_of
from ..agents.chat_apis.settings import ApiSettings
from ..agents.named import fingerprint
from ..agents.settings import AgentSettings
from ..envs.base import TurnEnv
from ..envs.registry import create
from ..envs.source import source_digest
from ..envs.tools import Tool
from ..errors import SpendingCapError
from ..inference.policy_spec import is_chat_api
from ..loop_thread import refuse_running_loop
from ..rollouts.branching_search import RolloutSearch
from ..rollouts.engine import pool_of
from ..rollouts.episode import FAILURE_RATE, Episode
from ..rollouts.options import RolloutsConfig, RunOptions
from ..rollouts.pool import EnvSource
from ..rollouts.progress import RunProgress
from ..rollouts.provenance import provenance
from ..rollouts.recording import record_episodes
from ..rollouts.stats import RunStats
from ..rollouts.store import load_episodes
from ..service.process import ProgramConfig
from ..tasks.family import SeededFamily, TaskFamily
from ..tasks.spec import Split
from .evaluation_store import check_store, evaluation_store
from .sampling import Sample, sample_tasks
from .summary import Summary, summarise

OnEpisode = Callable[[Episode], None]


def _several(value: Any) -> Any:
    """Return one item, or comma-separated text from a command line, as a list."""
    if isinstance(value, str):
        items = [item.strip() for item in value.split(",") if item.strip()]
        if not items:
            raise ValueError("the list is empty; omit the setting to use the default")
        return items
    return [value] if isinstance(value, int) else value


class EvalConfig(RunOptions):
    """Settings of an evaluation: tasks, policy and statistics. It includes the fields of ``RunOptions``."""

    env: str
    """Environment id, e.g. ``turnwise/Maze-v0``."""
    policy: str = ""
    """Policy: oracle, random, null, mixed:0.35, function:module:name, the folder of a model, http://host:port, or a
    model behind a chat API: openai:MODEL, anthropic:MODEL, chat:URL#MODEL."""
    tokenizer: str | None = None
    """Folder with the tokenizer of a server's model (default: the folder that the server names, if it exists here)."""
    program: ProgramConfig | None = None
    """Program that plays the episodes and calls the policy, a model (default: the policy acts itself)."""
    n: int = pydantic.Field(default=100, ge=1)
    """Number of tasks, each played ``group_size`` times. If a family has fewer, all of them are played."""
    splits: Annotated[tuple[Split, ...], pydantic.BeforeValidator(_several)] = ()
    """Splits of the tasks, in equal parts (default: the test splits, or all if a family has no test split)."""
    levels: Annotated[tuple[int, ...], pydantic.BeforeValidator(_several)] = ()
    """Levels of the tasks, in equal parts (default: all)."""
    agent: AgentSettings = AgentSettings()
    """How a model acts; omitted settings are those of its training (``agent.json`` beside it)."""
    temperature: float | None = pydantic.Field(default=None, ge=0)
    """Short for ``agent.temperature``; 0 is greedy (default for a chat API: the provider's)."""
    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Short for ``agent.max_tokens``: maximum tokens of an action (default for a chat API: 8192)."""
    device: str = "auto"
    """Device of a model: ``auto`` uses the GPU if torch sees one, otherwise the CPU."""
    api: ApiSettings = ApiSettings()
    """Settings for a model behind a chat API."""
    confidence: float = pydantic.Field(default=0.95, gt=0, lt=1)
    """Nominal coverage of every interval."""
    rollouts: RolloutsConfig = RolloutsConfig()
    """Place of episodes: this process, or workers on a Ray cluster."""
    search: RolloutSearch | None = None
    """Search for each action by rollouts on forks of the environment (default: the policy acts once)."""
    failure_rate: float = pydantic.Field(default=FAILURE_RATE, ge=0, le=1)
    """Share of the episodes in which the infrastructure may fail; beyond it the evaluation is inconclusive."""

    @pydantic.model_validator(mode="after")
    def _said_once(self) -> Self:
        for name in ("temperature", "max_tokens"):
            short, own = getattr(self, name), getattr(self.agent, name)
            if short is not None and name in self.agent.model_fields_set and short != own:
                raise ValueError(f"{name} = {short} contradicts agent.{name} = {own}; set one of them")
        return self

    @pydantic.model_validator(mode="after")
    def _searchable(self) -> Self:
        if self.search is None:
            return self
        if self.group_size > 1:
            raise ValueError("a search plays one episode per task: omit group_size")
        if self.program is not None:
            raise ValueError("a program plays whole episodes, and a search chooses single actions: omit one of them")
        if (self.agent.temperature if self.temperature is None else self.temperature) == 0:
            raise ValueError("at temperature 0 all rollouts of a state are the same: set temperature above 0 to search")
        return self

    @pydantic.model_validator(mode="after")
    def _api_is_local(self) -> Self:
        if self.rollouts.engine != "local" and is_chat_api(self.policy):
            raise ValueError(
                f"{self.policy} is a model behind a chat API, whose costs and answers are kept by one process: play it "
                "with rollouts.engine = 'local'"
            )
        return self

    def sample(self, family: TaskFamily[Any]) -> Sample:
        """Sample the tasks of this evaluation."""
        return sample_tasks(family, self.n, splits=self.splits, levels=self.levels, seed=self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        """Return the settings that a resumed evaluation must share: not ``n``, concurrency, timeouts or retries.

        For the folder of a model, this includes the model itself: a mixture of episodes of two models would evaluate
        neither.
        """
        keep = {"env", "env_kwargs", "policy", "splits", "levels", "group_size", "seed", "temperature", "max_tokens"}
        model = fingerprint(self.policy) if self.policy else None
        identity = self.model_dump(mode="json", include=keep) | ({"model": model} if model else {})
        if is_chat_api(self.policy):
            identity["api"] = self.api.identity | {"server": server_of(self.policy, self.api)[0].address}
        agent = self.agent.model_dump(mode="json", exclude_unset=True)
        identity |= {"agent": agent} if agent else {}
        identity |= {"search": self.search.model_dump()} if self.search is not None else {}
        if self.program is not None:
            identity["program"] = self.program.model_dump(mode="json", include={"command", "fixed_temperature"})
        return identity


@dataclass(frozen=True, slots=True)
class _Plan:
    sample: Sample
    planned: int
    notes: tuple[str, ...]
    tools: Sequence[Tool]
    source: str | None
    """Digest of the environment's source, if the id does not fix its behavior."""

    def identity(self, config: EvalConfig) -> dict[str, Any]:
        """Return what a store that is continued must share."""
        return config.identity | ({"env_source": self.source} if self.source else {})


def check_evaluation(
    config: EvalConfig,
    *,
    store: Path | str,
    env: EnvSource | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> None:
    """Raise what ``run_evaluation`` would raise before its first episode, e.g. before servers start; change nothing.

    Args:
        config: settings of the evaluation.
        store: folder of the episode store.
        env: environment to play if it is not registered under ``config.env``.
        resume: as for ``run_evaluation``.
        overwrite: as for ``run_evaluation``.

    Raises:
        UsageError: the environment, a split or a level does not exist, or both ``resume`` and ``overwrite`` are set.
        StoreError: as for ``run_evaluation``.
    """
    check_store(Path(store), _plan(config, env).identity(config), resume=resume, overwrite=overwrite)


def run_evaluation(
    config: EvalConfig,
    agent: Agent,
    *,
    store: Path | str,
    env: EnvSource | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_episode: OnEpisode | None = None,
    progress: bool = False,
) -> Summary:
    """Run an evaluation to its end, or until Ctrl-C; finished episodes are kept and summarized.

    Args:
        config: settings of the evaluation.
        agent: the agent to evaluate; see ``turnwise.agents.agent_from``.
        store: folder of the episode store.
        env: environment to play if it is not registered under ``config.env``.
        resume: continue with an existing store. Episodes that an infrastructure failure ended are played again, unless
            it happened after an action of the agent: these stay unscored, and are counted.
        overwrite: remove an existing store first, whatever evaluation it belongs to.
        on_episode: called with each new episode after it is stored.
        progress: show a progress bar on standard error.

    Returns:
        The summary of all episodes in the store. After Ctrl-C, or when a spending cap is reached, it is partial:
        ``Summary.complete`` is false.

    Raises:
        UsageError: the environment, a split or a level does not exist, no episode was scored, both ``resume`` and
            ``overwrite`` are set, or an event loop is already running.
        StoreError: the store has episodes that count and neither ``resume`` nor ``overwrite`` is set, or it belongs to
            another evaluation or another version of the environment's source.
        SpendingCapError: the cap was reached before any episode was scored.
        KeyboardInterrupt: Ctrl-C before any episode was scored.
    """
    refuse_running_loop(
        "evaluate() cannot run inside an event loop, such as a notebook's; use `await evaluate_async()`"
    )
    plan = _plan(config, env)
    notes: list[str] = []
    try:
        asyncio.run(_play(config, agent, plan, Path(store), env, resume, overwrite, on_episode, progress))
    except (KeyboardInterrupt, SpendingCapError) as stop:
        notes.append(_interrupted(stop, plan, store))
    return _summary(config, agent, plan, store, notes)


async def run_evaluation_async(
    config: EvalConfig,
    agent: Agent,
    *,
    store: Path | str,
    env: EnvSource | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_episode: OnEpisode | None = None,
    progress: bool = False,
) -> Summary:
    """Do the same as ``run_evaluation`` inside an event loop; if cancelled, it leaves a complete store."""
    plan = _plan(config, env)
    notes: list[str] = []
    try:
        await _play(config, agent, plan, Path(store), env, resume, overwrite, on_episode, progress)
    except SpendingCapError as stop:
        notes.append(_interrupted(stop, plan, store))
    return _summary(config, agent, plan, store, notes)


def _interrupted(stop: BaseException, plan: _Plan, store: Path | str) -> str:
    """Return the note on an evaluation that stopped early; raise ``stop`` if it has no scored episode."""
    there = load_episodes(store)
    if not any(episode.scored for episode in there):
        raise stop
    why = f": {stop}" if isinstance(stop, SpendingCapError) else ""
    return f"interrupted: {len(there)} of {plan.planned} episodes; resume to play the rest{why}"


def _summary(config: EvalConfig, agent: Agent, plan: _Plan, store: Path | str, notes: Sequence[str] = ()) -> Summary:
    """Summarize all episodes in the store."""
    remarks = agent.remarks(plan.tools) if isinstance(agent, Remarking) else ()
    settings = {**config.model_dump(mode="json"), **_acting(config, agent), "env_source": plan.source}
    return summarise(
        load_episodes(store),
        policy=config.policy or type(agent).__name__,
        confidence=config.confidence,
        planned=plan.planned,
        notes=[*plan.notes, *remarks, *notes],
        made=provenance(settings),
        failure_rate=config.failure_rate,
    )


def _acting(config: EvalConfig, agent: Agent) -> dict[str, Any]:
    """Describe how a model really acted: omitted settings come from its folder, or from the provider."""
    source = getattr(agent, "sampling", agent)
    used = {name: getattr(source, name) for name in ("temperature", "max_tokens", "top_p") if hasattr(source, name)}
    attributes = {"context": "context_name", "parser": "parser", "system": "system"}
    parts = {name: getattr(agent, own) for name, own in attributes.items() if used and hasattr(agent, own)}
    parts = {name: part if isinstance(part, str | None) else type(part).__name__ for name, part in parts.items()}
    given = config.agent.model_dump(mode="json", exclude_unset=True)
    return {**used, "agent": {**given, **used, **parts}}


async def _play(
    config: EvalConfig,
    agent: Agent,
    plan: _Plan,
    path: Path,
    env: EnvSource | None,
    resume: bool,
    overwrite: bool,
    on_episode: OnEpisode | None,
    progress: bool,
) -> None:
    """Play the episodes that the store lacks; the store stays intact, whatever ends this."""
    with evaluation_store(path, plan.identity(config), resume=resume, overwrite=overwrite) as store:
        stats, there = RunStats(), len(store)
        source = config.env if env is None else env
        async with pool_of(config.rollouts, source, isolation=config.isolation, env_kwargs=config.env_kwargs) as pool:
            episodes = record_episodes(
                pool, agent, plan.sample.tasks, store, options=config, stats=stats, redraw=False, strategy=config.search
            )
            with RunProgress(stats, total=plan.planned, done=there, quiet=not progress) as bar:
                async with aclosing(episodes):
                    async for episode in episodes:
                        bar.tick()
                        if on_episode is not None:
                            on_episode(episode)


def _plan(config: EvalConfig, env: EnvSource | None) -> _Plan:
    """Return the tasks to play, using a temporary environment."""
    probe = create(env or config.env, **config.env_kwargs)
    try:
        inner = cast(TurnEnv, probe.unwrapped)
        sample, remarks = config.sample(inner.tasks()), _remarks(inner, config.policy)
        tools, source = tuple(inner.tools), source_digest(probe)
    finally:
        probe.close()
    planned, notes = len(sample.tasks) * config.group_size, (*remarks, *sample.notes)
    return _Plan(sample, planned, notes, tools, source)


def _remarks(env: TurnEnv, policy: str) -> Iterator[str]:
    """Yield remarks about the environment that a reader of the results must know."""
    name = type(env).__name__
    if isinstance(env.tasks(), SeededFamily):
        yield f"{name} has no task family: its test tasks differ from its training tasks by the seed alone"
    lacks = type(env).random_action is TurnEnv.random_action and not env.tools
    if lacks and policy.partition(":")[0] in ("random", "mixed"):
        yield f"{name} has no random_action(rng), and random text was played; write random_action(rng)"
