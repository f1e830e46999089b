"""A training script on the command line: the options of ``turnwise train``, errors in one line, Ctrl-C resumable."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

from ..config import load_config
from ..envs.named import environment
from ..errors import TurnwiseError
from ..logs import FORMATS, LEVELS, as_json, event, log_to_stderr
from ..stop_signals import counted_as_ctrl_c
from .options import (
    arguments,
    described,
    overridden,
    refuse_other_run,
    refuse_unresumed,
    refuse_untrained_start,
    settled,
)
from .registry import ALGORITHMS, Entry, is_own, own
from .run.conclusion import RunResult
from .run.interrupts import INTERRUPTED, at_once
from .run.settings import TrainConfig

LOG = logging.getLogger(__name__)
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
        epilog="--settings lists every setting with its meaning and default.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", help="a TOML file of settings, a shipped one's name, or a run's config.json")
    parser.add_argument("--out", metavar="FOLDER", help="the run's folder")
    parser.add_argument("--resume", action="store_true", help="continue the run in out from its newest checkpoint")
    parser.add_argument("--settings", action="store_true", help="list every setting, and train nothing")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="log on standard error: text or json")
    parser.add_argument("--log-level", choices=LEVELS, help="lowest level (default: warning, and info for json)")
    parser.add_argument("words", nargs="*", metavar="WORD", help="an environment; settings, e.g. optimizer.lr=1e-4")
    given = parser.parse_intermixed_args(argv)
    entries = {word: entry for word, entry in ALGORITHMS.items() if entry.config == config_type.__name__}
    if given.settings:
        rule = overridden(settled(given.words), "algorithm.name")
        chosen = next((entry for entry in entries.values() if rule and entry.algorithm == rule), None)
        presets = chosen.presets if chosen else own(rule).presets if is_own(rule) else {}
        print(*described(config_type, presets), sep="\n")
        return 0
    with log_to_stderr(given.log_format, given.log_level):
        return _trained(config_type, train, given, entries)


def _trained(
    config_type: type[C], train: Callable[[C], RunResult], given: argparse.Namespace, entries: Mapping[str, Entry]
) -> int:
    """Train, say how it went, and return the process's exit code."""
    config: C | None = None
    leads = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started, one says how it went
    try:
        options = {"config": given.config, "out": given.out, "resume": given.resume}
        file, words = arguments(given.words, config_type=lambda: config_type, **options)
        if file is not None and file.suffix == ".json":
            accepted = {*entries, *(entry.algorithm for entry in entries.values())}
            if is_own(rule := overridden(words, "algorithm.name")):
                accepted.add(rule)
            refuse_other_run(next(iter(entries.values())).script, file, accepted=accepted)
        if file is None:
            refuse_unresumed(words)
        config = load_config(config_type, file, words)
        refuse_untrained_start(config)
        config = config.model_copy(update={"env": environment(config.env)})
        hint = f"stopped at once; the run in {config.out} continues from its newest checkpoint with --resume"
        # torchrun has its own use for SIGTERM, which ``ProcessGroup`` knows
        with nullcontext() if "RANK" in os.environ else counted_as_ctrl_c(), at_once(hint):
            result = train(config)
    except TurnwiseError as error:
        _complain("error", f"error: {error}")
        return 2
    except KeyboardInterrupt:
        where = f" in {config.out}" if config else ""
        if leads:
            _complain("interrupted", f"stopped; the run{where} continues with --resume")
        return INTERRUPTED if leads else 0  # torchrun would end process 0 while it still writes
    if leads:
        lines = [result.note, result.success, f"{result.steps} step{'s' * (result.steps != 1)}; model: {result.model}"]
        print(*filter(None, lines), sep="\n")
    return 0


def _complain(kind: str, text: str) -> None:
    if as_json():
        event(LOG, kind, text, level=logging.ERROR)
    else:
        print(text, file=sys.stderr)
