"""Events in the standard ``logging`` module: one record each, without secrets, shown as text or as JSON lines.

Modules log to ``logging.getLogger(__name__)`` through ``event``. As a library, Turnwise configures nothing: what is
logged goes where the program's own handlers send it. The command lines show it with ``log_to_stderr``.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from .errors import UsageError

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
ROOT = logging.getLogger(__name__.rpartition(".")[0])
"""The logger above all others of Turnwise."""
SECRET = re.compile(
    r"(^|[._-])(key|api_?key|token|secret|passw(or)?d|passphrase|authorization|credentials?)$", re.IGNORECASE
)
"""Names of settings and environment variables whose values are never recorded."""
USER = re.compile(r"(?<=://)[^/@\s]+@")
MASK = "***"
CREDENTIALS = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+(?!\*)[\w.~+/=-]{6,}"),
    re.compile(r"\b(?:sk|hf|gh[pousr]|xox[abp]|AKIA)[-_]?[\w-]{12,}"),
    re.compile(r"""(?i)\bauthorization["']?\s*[:=]\s*["']?(?:[\w-]+\s+)?[^\s"',;&]{6,}"""),
    # At a beginning and of bounded length, so that the time is linear in a text that an agent may have written.
    re.compile(
        r"""(?i)(?<![\w-])(?:[\w-]{0,64}(?:api[_-]?key|secret)|password|passphrase)["']?\s*[:=]\s*["']?[^\s"',;&]{6,}"""
    ),
)
"""Texts that look like credentials, wherever they come from, such as the error of a server that repeats a request."""


Fields = Mapping[str, Any]
"""Numbers and names of an event, for programs that read the log."""


def event(
    logger: logging.Logger, kind: str, text: str, fields: Fields | None = None, *, level: int = logging.INFO
) -> None:
    """Log one event, and never raise: no handler, and no closed standard error, ends a run.

    Args:
        logger: The logger of the module.
        kind: The kind of event in a word or two, such as ``"retry"``; ``record.event`` for handlers.
        text: The message, one line, for readers.
        fields: Numbers and names for programs; ``record.fields`` for handlers.
        level: A level of ``logging``.
    """
    _log(logger, kind, text, fields, level)


def tell(
    logger: logging.Logger,
    kind: str,
    text: str,
    fields: Fields | None = None,
    *,
    level: int = logging.WARNING,
    otherwise: Callable[[str], object] | None = None,
) -> None:
    """Log an event, as ``event`` does; if no handler shows it, call ``otherwise`` or print it on standard error."""
    _log(logger, kind, text, fields, level)
    if not shown(logger, level):
        (otherwise or _print)(without_secrets(text))


def _log(logger: logging.Logger, kind: str, text: str, fields: Fields | None, level: int) -> None:
    if logger.isEnabledFor(level):
        with suppress(Exception):
            known = {key: masked(value, key) for key, value in (fields or {}).items()}
            extra = {"event": kind, "fields": known}
            logger.log(level, "%s", without_secrets(text), extra=extra, stacklevel=3)  # the line of event's caller


def _print(text: str) -> None:
    with suppress(Exception):
        print(f"{ROOT.name}: {text}", file=sys.stderr)


def shown(logger: logging.Logger, level: int) -> bool:
    """Return whether some handler takes this logger's records of a level, or standard error is for JSON alone."""
    if as_json():
        return True
    above: logging.Logger | None = logger
    while above is not None and logger.isEnabledFor(level):
        if any(level >= one.level for one in above.handlers if not isinstance(one, logging.NullHandler)):
            return True
        above = above.parent if above.propagate else None
    return False


def as_json() -> bool:
    """Return whether standard error has nothing but JSON lines."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in ROOT.handlers)


def without_secrets(text: str) -> str:
    """Replace credentials in a text: of URLs, of headers, and the values of this process's secret variables."""
    values = [value for name, value in os.environ.items() if len(value) >= 6 and SECRET.search(name)]
    for value in sorted(values, key=len, reverse=True):  # one may contain another
        text = text.replace(value, MASK)
    text = USER.sub(f"{MASK}@", text)
    for pattern in CREDENTIALS:
        text = pattern.sub(MASK, text)
    return text


def masked(value: Any, name: str = "") -> Any:
    """Return a copy of nested settings or fields whose secrets, by name or by form, are ``***``."""
    if isinstance(value, Mapping):
        within = name if SECRET.search(name) else ""  # everything below a secret name is one
        return {str(key): masked(inner, within or str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner, own) for own, inner in zip(item_names(value, name), value, strict=True)]
    if value is None or isinstance(value, bool | int | float):
        return value
    return MASK if SECRET.search(name) else without_secrets(str(value))


def item_names(items: Sequence[Any], name: str) -> list[str]:
    """Return a name for each item of a list: the list's own, or an option before it, such as ``--api-key``."""
    options = [word if isinstance(word, str) and word.startswith("--") else "" for word in ("", *items)]
    return [name if SECRET.search(name) else option for option, _ in zip(options, items, strict=False)]


class TextFormatter(logging.Formatter):
    """Warnings as commands print them, ``turnwise: …``; everything below with time and logger."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        text = without_secrets(record.getMessage())
        if record.exc_info:
            text = f"{text}\n{without_secrets(self.formatException(record.exc_info))}"
        if record.levelno >= logging.WARNING:
            return f"{ROOT.name}: {text}"
        return f"{datetime.fromtimestamp(record.created):%H:%M:%S} {record.name}: {text}"


class JsonFormatter(logging.Formatter):
    """One JSON object per record: ``time``, ``level``, ``logger``, ``message``, ``event``, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            "event": getattr(record, "event", "message"),
        }
        if record.exc_info:
            line["traceback"] = without_secrets(self.formatException(record.exc_info))
        fields = {key: value for key, value in getattr(record, "fields", {}).items() if key not in line}
        return json.dumps(_finite({**line, **fields}), default=str)


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by null."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _warnings_logged() -> Iterator[None]:
    """Log Python's warnings where their own form says nothing, or is not JSON.

    The line of a deprecated setting from the command line is that of the program's start, ``sys.exit(main())``.
    """
    before, program = warnings.showwarning, getattr(sys.modules.get("__main__"), "__file__", None)

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, DeprecationWarning) and filename == program:
            event(ROOT, "remark", f"warning: {message}", level=logging.WARNING)
        elif as_json():
            text = f"warning: {filename}, line {lineno}: {category.__name__}: {message}"
            event(ROOT, "remark", text, level=logging.WARNING)
        else:
            before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


class _StderrHandler(logging.Handler):
    """Writes to standard error as it is at the moment, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


@contextmanager
def log_to_stderr(form: str = "text", level: str | None = None) -> Iterator[None]:
    """Show Turnwise's log on standard error inside the block; for command lines, which own the process.

    Of the processes that ``torchrun`` started, only the first one shows anything.

    Args:
        form: ``"text"`` or ``"json"``.
        level: The lowest level; by default ``"warning"`` for text, and ``"info"`` for JSON.

    Raises:
        UsageError: There is no such format or level.
    """
    if form not in FORMATS:
        raise UsageError(f"unknown log format {form!r}; choose from {', '.join(FORMATS)}")
    if level is not None and level not in LEVELS:
        raise UsageError(f"unknown log level {level!r}; choose from {', '.join(LEVELS)}")
    handler: logging.Handler = _StderrHandler() if os.environ.get("RANK", "0") == "0" else logging.NullHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    level_before, propagated = ROOT.level, ROOT.propagate
    ROOT.addHandler(handler)
    ROOT.setLevel((level or ("info" if form == "json" else "warning")).upper())
    ROOT.propagate = False  # other libraries may have given the root logger a handler, which would show it twice
    try:
        with _warnings_logged():
            yield
    finally:
        ROOT.removeHandler(handler)
        ROOT.setLevel(level_before)
        ROOT.propagate = propagated
