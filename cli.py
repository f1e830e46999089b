"""The ``turnwise`` command: the list of subcommands, and the mapping from errors to exit codes."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .commands.terminal import INCONCLUSIVE, INTERRUPTED, complain
from .config_errors import rule_of
from .errors import ConfigError, NothingScoredError, TurnwiseError, UsageError
from .logs import FORMATS, LEVELS, log_to_stderr

COMMANDS: dict[str, str] = {
    "envs": "envs",
    "new": "new",
    "certify": "certify",
    "eval": "evaluate",
    "data": "data",
    "export": "export",
    "export-harbor": "export_harbor",
    "export-nemo": "export_nemo",
    "push": "push",
    "import": "import_chats",
    "pretrain": "pretrain",
    "train": "train",
    "plan": "plan",
    "cluster": "cluster",
    "serve": "serve",
    "endpoint": "endpoint",
    "mcp": "mcp",
    "retrieve": "retrieve",
    "report": "report",
    "view": "view",
    "compare": "compare",
    "leaderboard": "leaderboard",
    "replay": "replay",
    "audit": "audit",
    "sandbox": "sandbox",
    "bench": "bench",
    "tasks": "tasks",
    "version": "version",
}
"""Each command's module in ``commands/``, which has a function of that name. Imported only when the command runs."""

ALIASES = {"watch": "view"}
"""Second names of commands, which the help does not list."""

OPTIONS = ("split", "level", "template", "seed")
"""Options that an error names, since commands set them where the message has another word or none."""

PASSES_ON = {"bench": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}}
"""Settings of commands that pass unknown arguments on to another program."""


class ValueNamingCommand(TyperCommand):
    """A command that names a refused value, and what stands for ``--overwrite``; Typer's message has the rule alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See ``TyperCommand``."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError  # here, since completion and help need no validation

            if isinstance(error.__cause__, ValidationError):
                problem = error.__cause__.errors()[0]
                reason = problem.get("ctx", {})
                rule = rule_of(problem["type"], problem["msg"], reason).strip()
                # A choice's own message has the value.
                error.message = str(reason["error"]) if "error" in reason else f"{rule}; got {problem['input']!r}"
            raise
        except Exception as error:  # of an unknown option; its class is in no public module
            resumes = any("--resume" in parameter.opts for parameter in self.params)
            if resumes and getattr(error, "option_name", "") == "--overwrite":
                text = (
                    "No such option: --overwrite, since nothing replaces a run; add --resume to continue it, or choose"
                )
                vars(error).update(message=f"{text} another --out.", possibilities=None)
            raise


def build_app(command: str | None = None) -> typer.Typer:
    """Build the command line.

    Args:
        command: name of the only command to import; the others are listed but cannot run. ``None`` imports all.
    """
    app = typer.Typer(
        name="turnwise",
        epilog="Exit codes: 0 success, 1 failure, 2 wrong input, 3 inconclusive, 130 interrupted.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    for name, module in COMMANDS.items():
        if command is None or name == command:
            app.command(name, cls=ValueNamingCommand, context_settings=PASSES_ON.get(name))(_imported(module))
        else:
            app.command(name, help="" if command in COMMANDS else _docstring(module))(_not_imported)
    for alias, name in ALIASES.items():
        if command in (None, alias):
            app.command(alias, cls=ValueNamingCommand, hidden=True)(_imported(COMMANDS[name]))
    return app


def _imported(module: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(importlib.import_module(f".commands.{module}", __package__), module)
    return function


def _docstring(module: str) -> str:
    """Read the docstring of a command without importing it, since its imports take seconds."""
    source = (Path(__file__).resolve().parent / "commands" / f"{module}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == module)
    return ast.get_docstring(next(functions)) or ""


def _not_imported() -> None:
    raise AssertionError("this command was listed, not imported")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"turnwise {importlib.metadata.version('turnwise')}")
        raise typer.Exit


def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; accepted anywhere on the line.")] = False,
    log_format: Annotated[
        str, typer.Option(help=f"Log on standard error: {' or '.join(FORMATS)}; accepted anywhere on the line.")
    ] = "text",
    log_level: Annotated[
        str | None,
        typer.Option(
            help=f"Lowest level of the log: {', '.join(LEVELS)} (default: warning, and info for json).",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Train and evaluate language-model agents by reinforcement learning over many turns."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in ``SystemExit``.

    A Turnwise error becomes one line on standard error, or one for each wrong setting, with exit code 2 if the user's
    input is wrong and 1 otherwise. Any other exception keeps its traceback, since it is a defect worth reporting.

    Args:
        arguments: words after ``turnwise``; by default those of the process.
    """
    # Read when a model is loaded: progress bars of other libraries would clutter standard error.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    _outlets()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    log = ExitStack()  # what ends the command is logged, too
    try:
        words = [word for word in words if word != "--debug"]
        form, level = _taken(words, "--log-format"), _taken(words, "--log-level")
        log.enter_context(log_to_stderr(form or "text", level or ("debug" if debug else None)))
        named = (word for word in _completed() or words if not word.startswith("-"))
        build_app(next(named, ""))(words, prog_name="turnwise")
    except TurnwiseError as error:
        if debug:
            raise
        text = _named_option(error, words) + str(error)
        for line in text.splitlines() if isinstance(error, ConfigError) else [text]:
            complain(line)
        code = INCONCLUSIVE if isinstance(error, NothingScoredError) else 2 if isinstance(error, UsageError) else 1
        sys.exit(code)
    except OSError as error:
        if debug:
            raise
        complain(f"{error.strerror or error}: {error.filename}" if error.filename else f"{error.strerror or error}")
        sys.exit(1)
    except KeyboardInterrupt:
        complain("interrupted.")
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a further Ctrl-C would add a traceback
            if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
                complain("interrupted.")  # Typer turned Ctrl-C into an exit; no command has printed anything
        raise
    finally:
        log.close()


def _named_option(error: TurnwiseError, words: Sequence[str]) -> str:
    """Return the option that a message is about, in front of it, if the command has that option."""
    option = getattr(error, "option", "")
    command = next((word for word in words if word in COMMANDS), "")
    if not command or option not in OPTIONS:
        return ""
    if option not in inspect.signature(_imported(COMMANDS[command])).parameters:
        return ""
    return f"--{option}: "


def _completed() -> list[str]:
    """Return the words after ``turnwise`` that a shell wants completed; empty in an ordinary call."""
    if "_TURNWISE_COMPLETE" not in os.environ:
        return []
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]


def _taken(words: list[str], option: str) -> str | None:
    """Remove an option and its value from the words of a command line, and return the value.

    Raises:
        UsageError: The value is missing.
    """
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            if not equals and at + 1 == len(words):
                raise UsageError(f"{option} needs a value")
            value = value if equals else words[at + 1]
            del words[at : at + (1 if equals else 2)]
            return value
    return None


def _outlets() -> None:
    """Make printing safe if an output stream is closed or supports only ASCII, so that no result is lost."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
