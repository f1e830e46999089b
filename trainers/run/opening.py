"""``open_run``: make everything that a training run consists of, and leave a state to resume from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import torch

from ...envs.registry import find
from ...errors import UsageError
from ...logs import tell
from ...rollouts.engine import pool_of
from ...rollouts.episode import Episode
from ...rollouts.options import RolloutsConfig
from ...rollouts.pool import EnvPool
from ...rollouts.store import load_episodes
from ..collect.async_rollouts import AsyncRollouts, OverlapConfig, Source
from ..collect.collector import Collector, StepCollector
from ..collect.sampler import TaskSampler, family_and_tools, held_out, round_seed
from ..learning.learner import Learner
from ..learning.main_process import StoppedByMain, hear_interrupt
from ..learning.parallel import ProcessGroup, process_group, processes, shard
from ..learning.rates import refuse_high_rate
from .actor import Actor, sampling_copy
from .checkpoint import Checkpoint
from .early_stop import EarlyStop
from .evaluation import Evaluation
from .generators import restore_generators, seed_generators
from .hardware import matrix_precision, refuse_absent
from .metrics import read_metrics
from .model_files import ModelFiles, Start
from .openings import openings
from .reports import Reports
from .run import Run
from .run_folder import RunFolder
from .settings import Plan, TrainConfig
from .state import RunState
from .uninterrupted import TornError
from .workload import refuse_too_large

LOG = logging.getLogger(__name__)


@asynccontextmanager
async def open_run(config: TrainConfig) -> AsyncIterator[Run]:
    """Open a run, new or resumed; every field of it is set here.

    Leaving the block by cancellation, which is what Ctrl-C becomes under ``asyncio.run``, writes a checkpoint: a step
    that is being learned is finished first, and of one that is being collected the finished episodes are kept. Where
    episodes are played in the background, a checkpoint also names the tasks that were drawn and not trained on, which
    a resumed run plays again.

    Under ``torchrun`` all processes open the run. Each learns its share; what plays, evaluates or writes happens in
    the main one alone.

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
    find(config.env)
    refuse_absent(config.hardware.profile, config.device)
    refuse_too_large(config)
    plan = config.plan()
    if processes() > 1 and not plan.many_processes:
        raise UsageError(f"{plan.algorithm} trains in one process; start it without torchrun")
    async with AsyncExitStack() as stack:
        world = stack.enter_context(process_group(config.device))
        folder = RunFolder(config.out, plan.algorithm, keep=config.keep_checkpoints)
        if world.is_main:
            stack.enter_context(folder.held())
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        if world.is_main:
            resumed = folder.entered(config, may_change=plan.may_change)
            world.broadcast(resumed.path if resumed is not None else Path())
        else:
            path = world.broadcast(Path())
            resumed = folder.checkpoints.load(path) if path != Path() else None
        stack.enter_context(matrix_precision(config.hardware))
        attention = config.hardware.attention
        files = ModelFiles(config.dtype, lora=config.lora, seed=config.seed, world=world, attention=attention)
        start = await config.start(files, resumed.model if resumed is not None else None)
        trained = sum(each.numel() for each in start.model.parameters() if each.requires_grad)
        usual = "about 1e-6 (cloning: 1e-5), or train adapters: lora.rank=16 optimizer.lr=5e-5"
        refuse_high_rate("optimizer.lr", config.optimizer.lr, trained, usual=usual)
        await hear_interrupt(
            world
        )  # before there is anything to save: a Ctrl-C while the model loads ends the run here
        yield await _opened(config, plan, world, folder, files, start, resumed, stack)


async def _opened(
    config: TrainConfig,
    plan: Plan,
    world: ProcessGroup,
    folder: RunFolder,
    files: ModelFiles,
    start: Start,
    resumed: Checkpoint | None,
    stack: AsyncExitStack,
) -> Run:
    own = sampling_copy(config, start.model, plan.overlap.enabled, world)
    model = shard(start.model, world)
    rollouts = config.rollouts if world.is_main else RolloutsConfig()  # only the main process plays
    pool = pool_of(rollouts, config.env, isolation=config.episodes.isolation, env_kwargs=config.episodes.env_kwargs)
    stack.push_async_callback(pool.close)
    family, tools = family_and_tools(config.env, config.episodes.env_kwargs)
    tasks = plan.family or family
    sampler = TaskSampler(tasks, split=config.split, levels=config.levels, max_tasks=config.max_tasks, seed=config.seed)
    levels = config.eval.levels or config.levels
    measured = held_out(family, config.eval.split, levels, config.eval.episodes)
    temperature, dump = config.agent.temperature, folder.dump
    learner = Learner(model, plan.optimizer, temperature=temperature, dump=dump, world=world)
    seed_generators(config.seed)
    pending = _restore(resumed, learner, sampler)
    step = resumed.step if resumed is not None else 0
    actor = Actor.of(config, model, start.tokenizer, own=own, version=step, files=files, scorer=learner.scorer)
    if world.is_main:
        for line in openings(config, model, actor.agent, tools, plan.correction):
            tell(LOG, "remark", line)
    options = config.episodes.options(seed=round_seed("train", config.seed))
    source = Source(pool, actor.agent, sampler, options, config.steps, config.seed)
    collector = _collector(plan.overlap, source, world, pending, resumed)
    reports = Reports.of(config, folder, world, step, stack)
    logged = world.broadcast(read_metrics(folder.metrics) if world.is_main else [])
    early = EarlyStop(patience=config.eval.patience, stop_at=config.eval.stop_at, logged=logged)
    evaluation = Evaluation(config.eval, source, actor.agent, measured, world)
    every = config.checkpoint_every
    state = RunState(folder.checkpoints, files, start, learner, sampler, collector, world, config.steps, every, resumed)
    await _guard(stack, actor, state, pool, collector)
    return Run(
        config=config,
        world=world,
        folder=folder,
        files=files,
        start=start,
        tools=tools,
        pool=pool,
        sampler=sampler,
        learner=learner,
        agent=actor.agent,
        weights=actor.weights,
        collector=collector,
        evaluation=evaluation,
        early=early,
        reports=reports,
        state=state,
    )


def _restore(resumed: Checkpoint | None, learner: Learner, sampler: TaskSampler) -> list[Episode]:
    """Restore what is not restored elsewhere, and return the episodes that were not trained on."""
    if resumed is None:
        return []
    sampler.cursor = int(resumed.progress["cursor"])
    learner.load_state_dict(resumed.tensors["learner"])
    restore_generators(resumed.tensors["generators"])
    return load_episodes(resumed.pending) if resumed.pending.is_dir() else []


def _collector(
    overlap: OverlapConfig, source: Source, world: ProcessGroup, pending: list[Episode], resumed: Checkpoint | None
) -> Collector:
    progress, version = (resumed.progress, resumed.step) if resumed is not None else ({}, 0)
    collector: Collector = StepCollector(source, world, pending)
    if overlap.enabled:
        drawn, bound = progress.get("overlap", {}).get("drawn", ()), overlap.max_staleness
        collector = AsyncRollouts(source, max_staleness=bound, pending=pending, version=version, drawn=drawn)
    collector.account.load_state_dict(progress.get("account", {}))
    return collector


async def _guard(stack: AsyncExitStack, actor: Actor, state: RunState, pool: EnvPool, collector: Collector) -> None:
    """Start servers, and say what happens at the end of the run, the last first."""
    await hear_interrupt(state.world)
    if actor.serving is not None:
        await actor.serving.open()
        stack.push_async_callback(actor.serving.close)

    stopped = False

    def note_why(kind: object, error: BaseException | None, trace: object) -> None:
        # Any other interruption may have come in the middle of learning, and a checkpoint would keep half of a step.
        # Only the error that left the block tells: a Ctrl-C while environments close would replace it.
        nonlocal stopped
        stopped = isinstance(error, asyncio.CancelledError | StoppedByMain) and not isinstance(error, TornError)

    def save_if_stopped(kind: object, error: BaseException | None, trace: object) -> None:
        if stopped:
            state.save()

    stack.push(save_if_stopped)
    stack.push_async_callback(pool.close)
    stack.push_async_callback(collector.close)
    stack.push(note_why)
