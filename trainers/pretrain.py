"""Pre-training: a small causal language model learns from text that the task generators and scripted agents write.

The text has pages of fictional wikis, transcripts of every family of environments with their feedback, and exercises
on spelling, lists and hints. Run it with ``turnwise pretrain --config pretrain-2m``.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

import torch

from .pretraining.corpus import Kind, kinds, shards
from .pretraining.pretraining import Pretraining
from .pretraining.settings import MAY_CHANGE, PretrainConfig
from .run.conclusion import RunResult
from .run.interrupts import deferred
from .run.metrics import MetricsLog, StepProgress, read_metrics
from .run.run_folder import RunFolder
from .tracking.trackers import Trackers

TEXT = "text"
"""Folder of the transcripts, in the run's folder."""


def pretrain(config: PretrainConfig) -> RunResult:
    """Pre-train a model to the last step, or until Ctrl-C, which leaves a checkpoint to resume from.

    Args:
        config: settings of the run.

    Raises:
        UsageError: the folder is taken, or a setting is wrong.
        CheckpointError: there is no run to resume, or it has other settings.
        DivergedError: a loss or gradient was not finite.
        KeyboardInterrupt: after Ctrl-C, once the checkpoint is written.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    folder = RunFolder(config.out, "pretrain", keep=config.keep_checkpoints)
    files = shards(config, folder.path / TEXT)  # an unknown environment is refused before there is a folder
    with folder.lock():
        resumed = folder.entered(config, may_change=MAY_CHANGE)
        with folder.record_end():
            training, held_out = _texts(config, folder.path / TEXT, files)
            run = Pretraining(config, training, held_out, resumed)
            _train(run, folder)
            run.export(folder.model)
    last = {name: value for name, value in _last(folder).items() if isinstance(value, float)}
    return RunResult(folder.path, folder.model, run.step, last, note=spoken(last))


def _texts(config: PretrainConfig, folder: Path, files: int) -> tuple[list[Kind], list[Kind]]:
    """Return training and held-out text, after playing the transcripts that are not there yet."""
    with StepProgress("transcripts", files, enabled=config.progress and files > 0) as progress:

        def done() -> None:
            progress.show({}, advance=True)

        return kinds(config, folder, done=done), kinds(config, folder, held_out=True, done=done)


def _train(run: Pretraining, folder: RunFolder) -> None:
    config = run.config
    with (
        Trackers.start(config.tracking, folder.path, config.model_dump(mode="json"), resume_at=run.step) as trackers,
        MetricsLog(folder.path, resume_at=run.step, trackers=trackers) as log,
        StepProgress("pretrain", config.steps, done=run.step, enabled=config.progress) as progress,
        deferred() as interrupt,
    ):
        saved = run.step
        recent = deque[float](maxlen=max(1, config.long_every))  # long rows are slower: a round of them and short ones
        while True:
            due = run.step in (0, config.steps) or (config.eval.every and run.step % config.eval.every == 0)
            if due and not log.has(run.step, "probe/copy"):
                found = run.evaluate()
                log.write(run.step, found)
                progress.say(f"step {run.step}: {spoken(found)}")
            if interrupt.requested and saved != run.step:  # pressed during an evaluation
                run.save(folder.checkpoints)
            if interrupt.requested or run.step == config.steps:
                break
            start = time.perf_counter()
            numbers = run.learn()
            recent.append(time.perf_counter() - start)
            numbers["tokens_per_second"] = config.batch_tokens / recent[-1]
            log.write(run.step, numbers)
            rate = config.batch_tokens * len(recent) / sum(recent)
            progress.show(numbers | {"tokens_per_second": rate}, advance=True)
            if run.step % config.checkpoint_every == 0 or run.step == config.steps or interrupt.requested:
                run.save(folder.checkpoints)
                saved = run.step
    if interrupt.requested and run.step < config.steps:
        raise KeyboardInterrupt


def _last(folder: RunFolder) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in read_metrics(folder.metrics):
        found |= line
    return found


def spoken(metrics: dict[str, float]) -> str:
    """Return the probes of an evaluation in words: ``"copy 12 %, spell 3 %"``; empty without any."""
    shares = {name.removeprefix("probe/"): share for name, share in metrics.items() if name.startswith("probe/")}
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
