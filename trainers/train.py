"""``turnwise.train``: what ``turnwise train`` does, for Python programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..envs.named import environment
from ..errors import UsageError
from ..loop_thread import refuse_running_loop
from .options import arguments, configured, named
from .registry import ALGORITHMS

if TYPE_CHECKING:
    from .run.conclusion import RunResult
    from .run.settings import TrainConfig


@overload
def train(config: TrainConfig, /) -> RunResult: ...


@overload
def train(
    algorithm: str,
    /,
    env: str | None = None,
    *,
    config: Path | str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    **settings: Any,
) -> RunResult: ...


def train(
    algorithm: TrainConfig | str,
    /,
    env: str | None = None,
    *,
    config: Path | str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    **settings: Any,
) -> RunResult:
    """Train a model on an environment, to the last step or until Ctrl-C, which leaves a checkpoint to resume from.

    ::

        turnwise.train("bc", "turnwise/MazeFO-v0", out="runs/bc", steps=50)
        turnwise.train("loop", config="loop-maze", optimizer={"lr": 1e-4}, out="runs/loop")
        turnwise.train("loop", out="runs/loop", resume=True)

    Args:
        algorithm: The name of an algorithm, as after ``turnwise train``; or complete settings, such as a
            ``turnwise.trainers.LoopConfig``, and then no other argument.
        env: An environment's id, or a Python file that registers one.
        config: A TOML file of settings, the name of a configuration in Turnwise, or a run's ``config.json``.
        out: The folder of the run, for metrics, checkpoints and the model.
        resume: Resume the run in ``out`` from its newest complete checkpoint.
        **settings: Settings of the algorithm, which take precedence over ``config``; tables are mappings.
            ``turnwise train ALGORITHM --settings`` lists them.

    Raises:
        UsageError: The environment, the algorithm or a setting is wrong; training needs ``turnwise[train]``; or an
            event loop is already running.
        DivergedError: A loss or gradient was not finite.
        KeyboardInterrupt: After Ctrl-C, once the checkpoint is written.
    """
    refuse_running_loop(
        "train() cannot run inside an event loop, such as a notebook's; start `turnwise train` in a terminal or a cell"
    )
    if not isinstance(algorithm, str):
        if env is not None or config is not None or out is not None or resume or settings:
            raise UsageError(f"set these in {type(algorithm).__name__}, which has all settings of the run")
        return _train_configured(algorithm)
    if not isinstance(env, str | None):
        raise UsageError(f"env must be an environment's id, or a Python file that registers it; got {env!r:.80}")
    words = [] if env is None else [environment(env)]  # before torch is imported, which takes seconds
    chosen = named(algorithm)
    name = None if config is None else str(config)
    file, overrides = arguments(words, config_type=lambda: chosen.load()[0], config=name, out=out, resume=resume)
    wanted = configured(algorithm, file, overrides, settings)
    return _train_configured(wanted)


def _train_configured(config: TrainConfig) -> RunResult:
    """Start the script whose settings these are."""
    kinds = {kind.__name__ for kind in type(config).__mro__}
    entry = next((entry for entry in ALGORITHMS.values() if entry.config in kinds), None)
    if entry is None:
        raise UsageError(f"{type(config).__name__} belongs to no algorithm in Turnwise; call its own train function")
    result: RunResult = entry.load()[1](config.model_copy(update={"env": environment(config.env)}))
    return result
