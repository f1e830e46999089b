"""A training script on the command line: ``--config FILE key=value …``, errors in one line, Ctrl-C resumable."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...config import describe, load_config
from ...envs.named import environment
from ...errors import TurnwiseError
from .conclusion import RunResult
from .interrupts import INTERRUPTED, at_once
from .settings import TrainConfig

C = TypeVar("C", bound=TrainConfig)


def script(config_type: type[C], train: Callable[[C], RunResult], argv: Sequence[str] | None = None) -> int:
    """Run a training function from command-line words; the process's exit code.

    Args:
        config_type: its configuration.
        train: runs it.
        argv: the words; those of the process when omitted.
    """
    parser = argparse.ArgumentParser(
        description=(config_type.__doc__ or "").splitlines()[0],
        epilog="settings:\n" + "\n".join(describe(config_type)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="a TOML file of settings, or a run's config.json")
    parser.add_argument("--resume", action="store_true", help="continue the run in out from its newest checkpoint")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings, e.g. optimizer.lr=1e-4")
    words = parser.parse_args(argv)
    words.overrides += ["resume=true"] if words.resume else []
    config: C | None = None
    leads = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, one says how it went
    try:
        config = load_config(config_type, words.config, words.overrides)
        config = config.model_copy(update={"env": environment(config.env)})
        with at_once(f"stopped at once; the run in {config.out} continues from its newest checkpoint with --resume"):
            result = train(config)
    except TurnwiseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        where = f" in {config.out}" if config else ""
        if leads:
            print(f"stopped; the run{where} continues with --resume", file=sys.stderr)
        return INTERRUPTED
    if leads:
        lines = [result.note, result.success, f"{result.steps} steps; model: {result.model}"]
        print(*filter(None, lines), sep="\n")
    return 0
