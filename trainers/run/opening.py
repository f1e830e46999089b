"""``open_run``: make everything that a training run consists of, and leave a state to resume from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import torch

from ...envs.registry import find
from ...envs.tools import Tool
from ...errors import UsageError
from ...logs import tell
from ...rollouts.engine import pool_of, require_ray
from ...rollouts.episode import Episode
from ...rollouts.options import RolloutsConfig
from ...rollouts.pool import EnvPool
from ...rollouts.store import load_episodes
from ...tasks.family import TaskFamily
from ..collect.async_rollouts import AsyncRollouts, OverlapConfig, Source
from ..collect.collector import Collector, StepCollector
from ..collect.curriculum import CurriculumSampler
from ..collect.sampler import TaskSampler, family_and_tools, held_out, round_seed
from ..learning.joint_calls import JointCalls
from ..learning.learner import Learner
from ..learning.main_process import hear_interrupt
from ..learning.parallel import ProcessGroup, process_group, processes, shard
from ..learning.rates import refuse_high_rate
from ..learning.sharding import materialize
from ..learning.uninterrupted import TornError
from .actor import Actor, sampling_copy
from .background import Background
from .checkpoint import Checkpoint
from .early_stop import EarlyStop
from .evaluation import Evaluation
from .generators import restore_generators, seed_generators
from .hardware import matrix_precision, refuse_absent
from .may_change import changeable
from .metrics import read_metrics
from .model_files import ModelFiles, Start
from .openings import openings
from .performance import PROFILES, Performance
from .reports import Reports
from .run import Run
from .run_folder import RunFolder
from .server_meter import ServerMeter
from .server_settings import refuse_sleep
from .settings import Plan, PolicyConfig, TrainConfig
from .shards import read_shards
from .state import RunState
from .workload import refuse_too_large

LOG = logging.getLogger(__name__)


@asynccontextmanager
async def open_run(config: TrainConfig) -> AsyncIterator[Run]:
    """Open a run, new or resumed; every field of it is set here.

    Leaving the block by cancellation, which is what Ctrl-C becomes under ``asyncio.run``, writes a checkpoint: a step
    that is being learned is finished first, and of one that is being collected the finished episodes are kept. Where
    episodes are played in the background, a checkpoint also names the tasks that were drawn and not trained on, which
    a resumed run plays again.

    Under ``torchrun`` all processes open the run. Then the main one runs the script, and the others follow it: each
    computes its share of what the script learns.

    Args:
        config: the settings of the script.

    Raises:
        UnknownEnvironmentError: There is no such environment; nothing is written.
        UsageError: A setting, the demonstrations or the run's folder is not usable, the learning rate would destroy
            the model, the hardware profile is for another device, or the model cannot
            fit the GPU.
        CheckpointError: The run cannot be resumed.
        ModelError: There is no such model.
    """
    plan = _plan(config)
    async with AsyncExitStack() as stack:
        world = stack.enter_context(process_group(config.device, timeout=config.parallel.timeout))
        folder = RunFolder(config.out, plan.algorithm, keep=config.keep_checkpoints)
        if world.is_main:
            stack.enter_context(folder.lock())
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        resumed = _entered(config, plan, world, folder)
        if world.is_main:
            stack.enter_context(folder.record_end())  # only now: a refused start says nothing about the run in there
        stack.enter_context(matrix_precision(config.hardware))
        attention = config.hardware.attention
        files = ModelFiles(config.dtype, lora=config.lora, seed=config.seed, world=world, attention=attention)
        start = await config.start(files, resumed.model if resumed is not None else None)
        trained = sum(each.numel() for each in start.model.parameters() if each.requires_grad)
        usual = "about 1e-6 (cloning: 1e-5), or train adapters: lora.rank=16 optimizer.lr=5e-5"
        refuse_high_rate("optimizer.lr", config.optimizer.lr, trained, usual=usual)
        # Before there is anything to save: a Ctrl-C while the model loads ends the run here.
        await hear_interrupt(world)
        together = JointCalls(world)
        stack.callback(together.leave)  # after all else that the end of a run does
        yield await _opened(config, plan, together, folder, files, start, resumed, stack)


def _plan(config: TrainConfig) -> Plan:
    """Refuse what can be refused without a model: a typo must not cost the minutes that loading takes."""
    find(config.env)
    refuse_absent(config.hardware.profile, config.device)
    refuse_too_large(config)
    plan = config.plan()
    if processes() > 1 and not plan.many_processes:
        raise UsageError(f"{plan.algorithm} trains in one process; start it without torchrun")
    config.parallel.check(processes(), config.optimizer.autocast, config.optimizer.kind)
    always = "overlap.enabled keeps playing" if plan.overlap.enabled else ""
    if plan.samples_in_learning:
        always = f"{plan.algorithm} samples utterances to learn from"
    refuse_sleep(config.server, samples_always=always)
    return plan


def _entered(config: TrainConfig, plan: Plan, world: ProcessGroup, folder: RunFolder) -> Checkpoint | None:
    """Enter the run's folder, and return the checkpoint to continue from."""
    # Process 0 chooses the checkpoint and names it to the others. If each looked for the newest itself, a slow file
    # system could show them different ones, and they would continue from different steps.
    if world.is_main:
        judged = config.eval.patience is not None or config.eval.keep_best
        resumed = folder.entered(config, may_change=changeable(plan.may_change, judged=judged))
        world.broadcast(resumed.path if resumed is not None else Path())
        return resumed
    path = world.broadcast(Path())
    return folder.checkpoints.load(path, verify=False) if path != Path() else None


def _shared(state: RunState, together: JointCalls) -> RunState:
    """Complete what checkpoints keep, and let all processes write them together."""
    if isinstance(state.sampler, CurriculumSampler):
        state.keep("curriculum", state.sampler)
    return together.lead("state", state, "finish_step", "save", "save_if_due")


async def _opened(
    config: TrainConfig,
    plan: Plan,
    together: JointCalls,
    folder: RunFolder,
    files: ModelFiles,
    start: Start,
    resumed: Checkpoint | None,
    stack: AsyncExitStack,
) -> Run:
    world = together.world
    model, own = _sharded(config, plan, start, world)
    pool = _pool(stack, config, world)
    family, tools = family_and_tools(config.env, config.episodes.env_kwargs)
    sampler = _sampler(config, plan.family or family)
    measured = held_out(family, config.eval.split, config.eval.levels or config.levels, config.eval.episodes)
    learner = Learner(model, plan.optimizer, temperature=config.agent.temperature, dump=folder.dump, world=world)
    seed_generators(config.seed)
    step = 0 if resumed is None else resumed.step
    actor = _actor(config, plan, files, start, own, learner, tools, step)
    options = config.episodes.options(seed=round_seed("train", config.seed))
    source = Source(pool, actor.agent, sampler, options, config.steps, config.seed)
    await _open_servers(stack, actor, world)  # vLLM measures what is free: before the optimizer's state fills the GPU
    # After the model, its adapters and the optimizer were created, which may draw random numbers.
    pending = _restore(resumed, learner, sampler, world)
    collector = _collector(plan.overlap, source, pending, resumed)
    reports = Reports.of(config, folder, world, step, stack)
    logged = read_metrics(folder.metrics) if world.is_main else []
    early = EarlyStop(patience=config.eval.patience, stop_at=config.eval.stop_at, logged=logged)
    evaluation = Evaluation(config.eval, source, actor.agent, measured)
    every, background = config.checkpoint_every, Background(enabled=config.checkpoint_in_background)
    parts = (folder.checkpoints, files, start, learner, sampler, collector, world)
    state = _shared(RunState(*parts, config.steps, every, background, resumed), together)
    stack.callback(background.close)  # before the processes part, and the folder is free for another run
    _guard(stack, state, pool, collector)
    run = Run(
        config=config,
        world=world,
        together=together,
        folder=folder,
        files=files,
        start=start,
        tools=tools,
        pool=pool,
        sampler=sampler,
        learner=together.lead("learner", learner, "logprobs", "recompute_old", "step", "clone"),
        agent=actor.agent,
        weights=together.lead("weights", actor.weights, "send"),
        collector=collector,
        evaluation=evaluation,
        early=early,
        reports=reports,
        performance=Performance.of(config, model, learner.scorer.meter, folder.path / PROFILES),
        servers=ServerMeter(actor.serving.clients if actor.serving is not None and world.is_main else ()),
        state=state,
    )
    together.lead("run", run)
    return run


def _sharded(config: TrainConfig, plan: Plan, start: Start, world: ProcessGroup) -> tuple[Any, Any]:
    """Return the learner's model, and the copy that samples, if it needs one."""
    # Copied before it is sharded: a policy samples from whole weights.
    own = sampling_copy(config, start.model, plan.overlap.enabled, world)
    if own is not None:
        materialize(own, world.device)
    return shard(start.model, world, config.parallel), own


def _actor(
    config: TrainConfig,
    plan: Plan,
    files: ModelFiles,
    start: Start,
    own: Any,
    learner: Learner,
    tools: tuple[Tool, ...],
    version: int,
) -> Actor:
    """Build the agent and the transfer of weights to it, and tell what a user may not expect of them."""
    # The actor takes the learner's scorer: in another precision, a token would have two log-probabilities before any
    # update, and the correction for the sampler would work on rounding.
    how: dict[str, Any] = {"own": own, "overlaps": plan.overlap.enabled, "version": version, "files": files}
    actor = Actor.of(config, learner.model, start.tokenizer, scorer=learner.scorer, **how)
    if files.world.is_main:
        for line in openings(config, learner.model, actor.agent, tools, plan.correction):
            tell(LOG, "remark", line)
    return actor


def _sampler(config: TrainConfig, family: TaskFamily[Any]) -> TaskSampler:
    how: dict[str, Any] = {"split": config.split, "levels": config.levels, "max_tasks": config.max_tasks}
    if isinstance(config, PolicyConfig) and config.curriculum is not None:
        return CurriculumSampler(family, config.curriculum, **how, seed=config.seed)
    return TaskSampler(family, **how, seed=config.seed)


def _restore(resumed: Checkpoint | None, learner: Learner, sampler: TaskSampler, world: ProcessGroup) -> list[Episode]:
    """Restore what is not restored elsewhere, and return the episodes that were not trained on."""
    if resumed is None:
        return []
    sampler.cursor = int(resumed.progress["cursor"])
    learned = dict(resumed.tensors["learner"])
    if resumed.shards is not None:
        moments = read_shards(resumed.shards, learner.model, learner.parameters, alone=world.size == 1)
        learned["optimizer"] = {**learned["optimizer"], "state": moments}
    learner.load_state_dict(learned)
    restore_generators(resumed.tensors["generators"])
    return load_episodes(resumed.pending) if resumed.pending.is_dir() else []


def _collector(overlap: OverlapConfig, source: Source, pending: list[Episode], resumed: Checkpoint | None) -> Collector:
    progress, version = (resumed.progress, resumed.step) if resumed is not None else ({}, 0)
    collector: Collector = StepCollector(source, pending)
    if overlap.enabled:
        drawn, bound = progress.get("overlap", {}).get("drawn", ()), overlap.max_staleness
        collector = AsyncRollouts(source, max_staleness=bound, pending=pending, version=version, drawn=drawn)
    collector.account.load_state_dict(progress.get("account", {}))
    return collector


async def _open_servers(stack: AsyncExitStack, actor: Actor, world: ProcessGroup) -> None:
    """Start or check the servers, if any, and leave them at the end of the run."""
    await hear_interrupt(world)
    if actor.serving is not None:
        await actor.serving.open()
        stack.push_async_callback(actor.serving.close)


def _pool(stack: AsyncExitStack, config: TrainConfig, world: ProcessGroup) -> EnvPool:
    """Return the place of episodes, on the cluster that the run joins if it needs one."""
    _join_cluster(stack, config, world)
    rollouts = config.rollouts if world.is_main else RolloutsConfig()  # only the main process plays
    pool = pool_of(rollouts, config.env, isolation=config.episodes.isolation, env_kwargs=config.episodes.env_kwargs)
    stack.push_async_callback(pool.close)
    return pool


def _join_cluster(stack: AsyncExitStack, config: TrainConfig, world: ProcessGroup) -> None:
    """Connect to the cluster on which servers are placed; workers use the same connection, and servers end last."""
    servers = config.server.ray if config.server is not None else None
    if servers is None or not world.is_main:
        return
    require_ray("server.ray")
    from ...rollouts.cluster.connection import ClusterConnection, Needs  # Ray, which nothing else needs

    needs = [Needs("server", "server.ray", servers.resources, servers.replicas)]
    if config.rollouts.engine == "ray":
        needs.append(Needs.of_workers(config.rollouts))
    stack.callback(ClusterConnection(servers.address, *needs, object_store=config.rollouts.object_store).close)


def _guard(stack: AsyncExitStack, state: RunState, pool: EnvPool, collector: Collector) -> None:
    """Say what happens at the end of the run, the last first."""
    stopped = False

    def note_why(kind: object, error: BaseException | None, trace: object) -> None:
        # Any other interruption may have come in the middle of learning, and a checkpoint would keep half of a step.
        # Only the error that left the block tells: a Ctrl-C while environments close would replace it.
        nonlocal stopped
        stopped = isinstance(error, asyncio.CancelledError) and not isinstance(error, TornError)

    def save_if_stopped(kind: object, error: BaseException | None, trace: object) -> None:
        if stopped:
            state.save()

    # Exits run in reverse: first the reason is noted, then play and environments end, then the state is saved, in which
    # nothing runs any more, and servers end last.
    stack.push(save_if_stopped)
    stack.push_async_callback(pool.close)
    stack.push_async_callback(collector.close)
    stack.push(note_why)
