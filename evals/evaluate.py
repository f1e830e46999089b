"""``evaluate``: play a family's tasks with an agent into a store, and say what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ..envs.registry import make
from ..envs.source import source_digest
from ..envs.tools import Tool
from ..errors import SpendingCapError, StoreError, UsageError
from ..inference.policy_spec import is_chat_api
from ..rollouts.episode import Episode
from ..rollouts.options import RunOptions
from ..rollouts.pool import EnvSource
from ..rollouts.progress import RunProgress
from ..rollouts.provenance import provenance
from ..rollouts.recording import record_episodes
from ..rollouts.stats import RunStats
from ..rollouts.store import MANIFEST, EpisodeStore, load_episodes, read_episodes, run_of
from ..service.process import ProgramConfig
from ..tasks.family import SeededFamily, TaskFamily
from ..tasks.spec import Split
from .attribution import FAILURE_RATE
from .sampling import Sample, sample_tasks
from .summary import Summary, summarise

OnEpisode = Callable[[Episode], None]


def _several(value: Any) -> Any:
    """One item, or text with commas, as a list: what a person types on a command line."""
    if isinstance(value, str):
        items = [item.strip() for item in value.split(",") if item.strip()]
        if not items:
            raise ValueError("the list is empty; omit the setting to use the default")
        return items
    return [value] if isinstance(value, int) else value


class EvalConfig(RunOptions):
    """An evaluation: what is played, by whom, and how it is counted. The fields of ``RunOptions`` belong to it."""

    env: str
    """The environment's id, e.g. ``turnwise/Maze-v0``."""
    policy: str = ""
    """Who acts: oracle, random, null, mixed:0.35, function:module:name, the folder of a model, http://host:port, or a
    model behind a chat API: openai:MODEL, anthropic:MODEL, chat:URL#MODEL."""
    tokenizer: str | None = None
    """A folder with the tokenizer of a server's model; omitted: where the server loaded it from, if that is here."""
    program: ProgramConfig | None = None
    """A program that plays the episodes and asks the policy, a model, for answers; omitted: the policy acts itself."""
    n: int = pydantic.Field(default=100, ge=1)
    """How many tasks. Each is played ``group_size`` times. A family with fewer tasks gives all it has."""
    splits: Annotated[tuple[Split, ...], pydantic.BeforeValidator(_several)] = ()
    """Which splits tasks come from, evenly; omitted: the test splits, or all where a family has no test split."""
    levels: Annotated[tuple[int, ...], pydantic.BeforeValidator(_several)] = ()
    """Which levels, evenly; omitted: all."""
    agent: AgentSettings = AgentSettings()
    """How a model acts; what is not set here is what the model was trained with (``agent.json`` beside it)."""
    temperature: float | None = pydantic.Field(default=None, ge=0)
    """Short for ``agent.temperature``: 0 for greedy; for a chat API, omitted: the provider's default."""
    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Short for ``agent.max_tokens``: the longest action in tokens; for a chat API, omitted: 8192."""
    device: str = "auto"
    """Where a model runs: ``auto`` is the GPU if torch sees one, otherwise the CPU."""
    api: ApiSettings = ApiSettings()
    """How to talk to a model behind a chat API."""
    confidence: float = pydantic.Field(default=0.95, gt=0, lt=1)
    """Nominal coverage of every interval."""
    failure_rate: float = pydantic.Field(default=FAILURE_RATE, ge=0, le=1)
    """Share of the episodes in which the infrastructure may fail; beyond it the evaluation is inconclusive."""

    @pydantic.model_validator(mode="after")
    def _said_once(self) -> Self:
        for name in ("temperature", "max_tokens"):
            short, own = getattr(self, name), getattr(self.agent, name)
            if short is not None and name in self.agent.model_fields_set and short != own:
                raise ValueError(f"{name} = {short} contradicts agent.{name} = {own}; set one of them")
        return self

    def sample(self, family: TaskFamily[Any]) -> Sample:
        """The tasks that this evaluation plays."""
        return sample_tasks(family, self.n, splits=self.splits, levels=self.levels, seed=self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        """What a resumed evaluation must agree on. ``n`` may grow; concurrency, timeouts and retries may change.

        For the folder of a model that is the model, too: half of the episodes played by another one would be no
        evaluation of either.
        """
        keep = {"env", "env_kwargs", "policy", "splits", "levels", "group_size", "seed", "temperature", "max_tokens"}
        model = fingerprint(self.policy) if self.policy else None
        told = self.model_dump(mode="json", include=keep) | ({"model": model} if model else {})
        if is_chat_api(self.policy):
            told["api"] = self.api.identity | {"server": server_of(self.policy, self.api)[0].address}
        agent = self.agent.model_dump(mode="json", exclude_unset=True)
        told |= {"agent": agent} if agent else {}
        if self.program is not None:
            told["program"] = self.program.model_dump(mode="json", include={"command", "fixed_temperature"})
        return told


@dataclass(frozen=True, slots=True)
class _Plan:
    sample: Sample
    planned: int
    notes: tuple[str, ...]
    tools: Sequence[Tool]
    source: str | None
    """The digest of the environment's source, where the id does not fix its behavior."""


def evaluate(
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
    """Run an evaluation to its end, or until Ctrl-C; what was played by then is kept and summarised.

    Args:
        config: what to play and how.
        agent: who acts; see ``turnwise.agents.named.agent_from``.
        store: the folder of the episode store.
        env: what to play, where it is not registered under ``config.env``.
        resume: go on with what is in the store; episodes that the machinery failed are played again, unless it failed
            after an action of the agent: they stay unscored, and are counted.
        overwrite: remove what is in the store first, whatever evaluation it belongs to.
        on_episode: called with each new episode, after it is stored.
        progress: show a progress bar on standard error.

    Returns:
        The summary of all episodes in the store. After Ctrl-C, or where a spending cap is reached, it is partial:
        ``Summary.complete`` is false.

    Raises:
        UsageError: the environment, a split or a level does not exist, no episode came to be scored, both ``resume``
            and ``overwrite`` are set, or an event loop is running here already.
        StoreError: the store holds episodes that count and neither ``resume`` nor ``overwrite`` is set, or it belongs
            to another evaluation or another version of the environment's source.
        SpendingCapError: the cap was reached before any episode was scored.
        KeyboardInterrupt: Ctrl-C before any episode was scored.
    """
    _no_loop()
    plan = _plan(config, env)
    notes: list[str] = []
    try:
        asyncio.run(_play(config, agent, plan, Path(store), env, resume, overwrite, on_episode, progress))
    except (KeyboardInterrupt, SpendingCapError) as stop:
        notes.append(_interrupted(stop, plan, store))
    return _summary(config, agent, plan, store, notes)


async def evaluate_async(
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
    """``evaluate``, with the same arguments and results, inside an event loop; cancelled, it leaves a whole store."""
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
    """Of all that is in the store."""
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
    """Describe how a model really acted: what was not set came from its folder, or from the provider."""
    source = getattr(agent, "sampling", agent)
    used = {name: getattr(source, name) for name in ("temperature", "max_tokens", "top_p") if hasattr(source, name)}
    told = {"context": "context_name", "parser": "parser", "system": "system"}
    parts = {name: getattr(agent, own) for name, own in told.items() if used and hasattr(agent, own)}
    parts = {name: part if isinstance(part, str | None) else type(part).__name__ for name, part in parts.items()}
    given = config.agent.model_dump(mode="json", exclude_unset=True)
    return {**used, "agent": {**given, **used, **parts}}


def _no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("evaluate() cannot run inside an event loop, such as a notebook's; use `await evaluate_async()`")


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
    """Play what is not in the store yet; whatever ends this, the store is whole."""
    if resume and overwrite:
        raise UsageError("choose either --resume, which keeps existing episodes, or --overwrite, which replaces them")
    identity = config.identity | ({"env_source": plan.source} if plan.source else {})
    with EpisodeStore(path, run=identity, overwrite=overwrite or _replaceable(path, identity)) as store:
        store.discard_unscored(after_action=False)
        if len(store) and not resume:
            raise StoreError(
                f"{path} already has {len(store)} episodes; continue it (--resume), replace it (--overwrite), or name "
                "another folder"
            )
        stats, there = RunStats(), len(store)
        source = config.env if env is None else env
        tasks = plan.sample.tasks
        episodes = record_episodes(source, agent, tasks, store, options=config, stats=stats, redraw=False)
        with RunProgress(stats, total=plan.planned, done=there, quiet=not progress) as bar:
            async with aclosing(episodes):
                async for episode in episodes:
                    bar.tick()
                    if on_episode is not None:
                        on_episode(episode)


def _replaceable(path: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a store holds no episode that counts, so that nothing is lost by starting over.

    Raises:
        StoreError: its episodes were played with another version of the environment's source.
    """
    if not (path / MANIFEST).is_file():
        return False
    there = run_of(path)
    changed = there != identity and {**there, "env_source": None} == {**identity, "env_source": None}
    # Failures after an action of the agent count as long as it is the same environment that they are of.
    if not any(episode.scored or (episode.after_action and not changed) for episode in read_episodes(path)):
        return True
    if changed:
        raise StoreError(
            f"the episodes in {path} belong to another version of {identity['env']}: its source has changed since, or "
            "was not recorded; play them again (--overwrite), or name another folder"
        )
    return False


def _plan(config: EvalConfig, env: EnvSource | None) -> _Plan:
    """Which tasks, asked from one environment made for the purpose."""
    if env is None or isinstance(env, str):
        probe = make(env or config.env, **config.env_kwargs)
    else:
        probe = env(**config.env_kwargs)
    try:
        inner = cast(TurnEnv, probe.unwrapped)
        sample, remarks = config.sample(inner.tasks()), _remarks(inner, config.policy)
        tools, source = tuple(inner.tools), source_digest(probe)
    finally:
        probe.close()
    planned, notes = len(sample.tasks) * config.group_size, (*remarks, *sample.notes)
    return _Plan(sample, planned, notes, tools, source)


def _remarks(env: TurnEnv, policy: str) -> Iterator[str]:
    """Yield what the environment lacks and what a reader of the results must therefore know."""
    name = type(env).__name__
    if isinstance(env.tasks(), SeededFamily):
        yield f"{name} has no task family: its test tasks differ from its training tasks by the seed alone"
    lacks = type(env).random_action is TurnEnv.random_action and not env.tools
    if lacks and policy.partition(":")[0] in ("random", "mixed"):
        yield f"{name} has no random_action(rng), and random text was played; write random_action(rng)"
