"""An evaluation: the episodes it plays into a store, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..agents.agent import Agent, Remarking
from ..envs.asked import refuse_missing_oracle
from ..envs.base import TurnEnv
from ..envs.registry import create
from ..envs.source import source_digest
from ..envs.tools import Tool
from ..errors import SpendingCapError
from ..loop_thread import refuse_running_loop
from ..rollouts.branching import refuse_unforkable
from ..rollouts.engine import pool_of
from ..rollouts.episode import Episode
from ..rollouts.options import RolloutsConfig
from ..rollouts.pool import EnvPool, EnvSource
from ..rollouts.progress import RunProgress
from ..rollouts.provenance import provenance
from ..rollouts.recording import record_episodes
from ..rollouts.stats import RunStats
from ..rollouts.store import load_episodes
from ..rollouts.unread import unread
from ..stop_signals import run_until_stopped
from ..tasks.family import SeededFamily
from .evaluation_store import check_store, evaluation_store
from .formatting import cut_note
from .sampling import Sample
from .settings import EvalConfig
from .summary import Summary, summarise

OnEpisode = Callable[[Episode], None]


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
        ContractError: ``search`` is set, and the environment cannot be forked.
    """
    plan = _plan(config, env)
    check_store(Path(store), plan.identity(config), resume=resume, overwrite=overwrite)
    if config.search is not None:
        run_until_stopped(_fork_once(config, env, plan))


async def _fork_once(config: EvalConfig, env: EnvSource | None, plan: _Plan) -> None:
    """Try the forks of a search in this process, wherever its episodes will be played."""
    async with _pool(config, env, RolloutsConfig()) as pool:
        await refuse_unforkable(pool, plan.sample.tasks[0], config)


def _pool(config: EvalConfig, env: EnvSource | None, place: RolloutsConfig) -> EnvPool:
    source = config.env if env is None else env
    return pool_of(place, source, isolation=config.isolation, env_kwargs=config.env_kwargs)


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
        run_until_stopped(_play(config, agent, plan, Path(store), env, resume, overwrite, on_episode, progress))
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
    episodes = load_episodes(store)
    remarks = agent.remarks(plan.tools) if isinstance(agent, Remarking) else ()
    settings = {**config.model_dump(mode="json"), **_acting(config, agent), "env_source": plan.source}
    summary = summarise(
        episodes,
        policy=config.policy or type(agent).__name__,
        confidence=config.confidence,
        planned=plan.planned,
        notes=[*plan.notes, *remarks, *notes],
        made=provenance(settings),
        failure_rate=config.failure_rate,
    )
    advice = unread(episodes, agent) or cut_note(summary)
    return replace(summary, notes=(*summary.notes, advice)) if advice else summary


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
        async with _pool(config, env, config.rollouts) as pool:
            if config.search is not None:
                await refuse_unforkable(pool, plan.sample.tasks[0], config)
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
        if config.policy.partition(":")[0] in ("oracle", "mixed"):
            refuse_missing_oracle(inner, config.env, "choose another policy")
        sample, remarks = config.sample(inner.tasks()), _remarks(inner, config)
        tools, source = tuple(inner.tools), source_digest(probe)
    finally:
        probe.close()
    planned, notes = len(sample.tasks) * config.group_size, (*remarks, *sample.notes)
    return _Plan(sample, planned, notes, tools, source)


def _remarks(env: TurnEnv, config: EvalConfig) -> Iterator[str]:
    """Yield remarks about the environment that a reader of the results must know."""
    name, policy = config.env or type(env).__name__, config.policy
    if isinstance(env.tasks(), SeededFamily):
        yield f"{name} has no task family: its test tasks differ from its training tasks by the seed alone"
    lacks = type(env).random_action is TurnEnv.random_action and not env.tools
    if lacks and policy.partition(":")[0] in ("random", "mixed"):
        yield f"{name} has no random_action(rng), and random text was played; write random_action(rng)"
