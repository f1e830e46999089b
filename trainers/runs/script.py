"""A training script on the command line: ``--config FILE key=value …``, errors in one line, Ctrl-C resumable."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...config import Config, load_config
from ...errors import TurnwiseError
from .setup import RunResult, TrainConfig

C = TypeVar("C", bound=TrainConfig)

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


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
    parser.add_argument("--config", metavar="FILE", help="a TOML file of settings")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings, e.g. optimizer.lr=1e-4")
    words = parser.parse_args(argv)
    config: C | None = None
    try:
        config = load_config(config_type, words.config, words.overrides)
        result = train(config)
    except TurnwiseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        where = f" in {config.out}" if config else ""
        print(f"stopped; the run{where} continues with resume=true", file=sys.stderr)
        return INTERRUPTED
    if result.note:
        print(result.note)
    print(f"{result.steps} steps; model: {result.model}")
    return 0


def describe(config_type: type[Config], prefix: str = "") -> list[str]:
    """One line per setting: its name, its default and what it does."""
    lines: list[str] = []
    for name, field in config_type.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, Config):
            lines += describe(kind, f"{prefix}{name}.")
            continue
        default = "(needed)" if field.is_required() else f"[{field.get_default(call_default_factory=True)}]"
        lines.append(f"  {prefix}{name} {default}  {field.description or ''}".replace("\n", " "))
    return lines
