"""The log: silent in a library, one record per event, valid JSON, no secrets, and never the end of a run."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import turnwise as tw
from turnwise.commands.terminal import complain, remark
from turnwise.errors import UsageError
from turnwise.logs import FORMATS, LEVELS, MASK, as_json, event, log_to_stderr, masked, shown, tell, without_secrets
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.runner import run_episodes
from turnwise.trainers.run.metrics import StepProgress

from .logged import events
from .shifts import core_sample

LOG = logging.getLogger("turnwise.tests")
KEY = "kx-93f7a2b64e-very-secret"


class Flaky(tw.TurnEnv):
    """Fails in the first step of its first instance."""

    blocking = False
    broken = True

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Say anything."

    def act(self, action: tw.Action) -> tw.Step:
        if Flaky.broken:
            Flaky.broken = False
            raise RuntimeError(f"the world is lost; it knew api_key={KEY}")
        return tw.success("Thanks.")

    def oracle(self) -> str:
        return "hello"


class Keeping(logging.Handler):
    """A program's handler that keeps all records."""

    def __init__(self, found: list[logging.LogRecord]) -> None:
        super().__init__()
        self.found = found

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """Records that a program's own handler gets."""
    found: list[logging.LogRecord] = []
    handler = Keeping(found)
    logger = logging.getLogger("turnwise")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(before)


def lines(text: str) -> list[dict[str, Any]]:
    """The objects of a text that has one per line."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_library_configures_nothing_and_says_nothing() -> None:
    code = """
import logging
root = list(logging.root.handlers), logging.root.level
import turnwise, turnwise.trainers
from turnwise.logs import event
event(logging.getLogger("turnwise.x"), "kind", "text", level=logging.ERROR)
assert (list(logging.root.handlers), logging.root.level) == root
handlers = logging.getLogger("turnwise").handlers
assert [type(one) for one in handlers] == [logging.NullHandler], handlers
assert logging.getLogger("turnwise").level == logging.NOTSET
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_a_retry_and_a_restart_are_logged_once_each(records: list[logging.LogRecord]) -> None:
    Flaky.broken = True
    from turnwise.agents import OracleAgent

    options = RunOptions(backoff=0, retries=1, concurrency=1)
    async with EnvPool.of(Flaky) as pool:
        played = run_episodes(pool, OracleAgent(), [tw.TaskSpec("Flaky")], options=options)
        episodes = [episode async for episode in played]
    assert [episode.success for episode in episodes] == [True]
    found = events(records)
    assert [kind for kind, _ in found] == ["environment failed", "retry", "restart"]
    fields = found[1][1]
    assert (fields["attempt"], fields["pause_seconds"], fields["episode"]) == (1, 0, episodes[0].episode_id)
    assert "the world is lost" in fields["reason"]
    said = [record for record in records if "event" in vars(record)]
    assert (said[1].name, said[1].levelname) == ("turnwise.rollouts.episode_request", "INFO")
    assert KEY not in str([vars(each) for each in said]), "an environment's error may repeat a key"


@pytest.mark.parametrize("form", FORMATS)
def test_by_default_only_warnings_and_with_json_events_too(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(form):
        event(LOG, "step", "step 1/2", {"step": 1, "return": float("nan"), "message": "not this"})
        event(LOG, "remark", "two\nlines", level=logging.WARNING)
        logging.getLogger("turnwise.else").warning("from %s", "elsewhere")
    event(LOG, "step", "after", level=logging.ERROR)
    found = capsys.readouterr()
    assert found.out == "", "standard output is for results"
    if form == "text":
        assert found.err == "turnwise: two\nlines\nturnwise: from elsewhere\n"
        return
    step, two, other = lines(found.err)
    assert step["time"].endswith("+00:00")
    del step["time"]
    assert step == {
        "level": "info", "logger": "turnwise.tests", "message": "step 1/2", "event": "step", "step": 1, "return": None,
    }  # fmt: skip
    assert (two["message"], two["level"]) == ("two\nlines", "warning"), "one object a line, whatever the message"
    assert (other["event"], other["message"]) == ("message", "from elsewhere")


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_shows_itself_and_what_is_worse(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr("json", level):
        for each in LEVELS:
            event(LOG, each, each, level=getattr(logging, each.upper()))
    assert [line["level"] for line in lines(capsys.readouterr().err)] == list(LEVELS[LEVELS.index(level) :])


def test_wrong_formats_and_levels_are_refused_with_the_right_ones() -> None:
    with pytest.raises(UsageError, match="unknown log format 'xml'; choose from text, json"), log_to_stderr("xml"):
        pass
    with pytest.raises(UsageError, match="unknown log level 'all'; choose from debug"), log_to_stderr("text", "all"):
        pass
    assert not as_json()


def test_an_exception_keeps_its_traceback_in_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr("json"):
        try:
            raise ValueError(f"password={KEY}")
        except ValueError:
            LOG.exception("it failed")
    (line,) = lines(capsys.readouterr().err)
    assert "ValueError" in line["traceback"]
    assert KEY not in line["traceback"]


class Hostile(logging.Handler):
    """A program's handler with a bug."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("this handler is broken")


def test_a_failing_handler_ends_nothing() -> None:
    handler = Hostile()
    LOG.addHandler(handler)
    try:
        event(LOG, "step", "step 1", level=logging.ERROR)
        event(LOG, "step", "step 1", {"odd": object()}, level=logging.ERROR)
    finally:
        LOG.removeHandler(handler)


@pytest.mark.parametrize("stream", ["closed", "full", "none"])
def test_a_standard_error_that_takes_nothing_ends_nothing(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    outlet: io.StringIO | None = {"closed": io.StringIO(), "full": Full(), "none": None}[stream]
    if stream == "closed" and outlet is not None:
        outlet.close()
    monkeypatch.setattr(sys, "stderr", outlet)
    for form in FORMATS:
        with log_to_stderr(form, "debug"):
            event(LOG, "step", "step 1")


def test_other_processes_of_torchrun_are_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    for form in FORMATS:
        with log_to_stderr(form, "debug"):
            event(LOG, "step", "step 1", level=logging.ERROR)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "text",
    [
        f"POST http://user:{KEY}@host:80/v1 failed",
        f"401: Authorization: Bearer {KEY}",
        f'{{"error": "wrong key", "api_key": "{KEY}"}}',
        f"OPENAI_API_KEY={KEY} turnwise eval",
        f"client_secret='{KEY}'",
        f"incorrect key provided: sk-{KEY}.",
        f"the server repeats {KEY} without any name",
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_no_key_gets_into_the_log(
    text: str, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    with log_to_stderr(form, "debug"):
        event(LOG, "retry", text, {"reason": text, "api_key": KEY, "servers": [text], "nested": {"token": KEY}})
        LOG.warning("%s", text)
        complain(text)
        remark().print(text)
    said = capsys.readouterr().err
    if form == "text":  # a command's own remarks are not the log
        said = "\n".join(said.splitlines()[:2])
    assert said
    assert KEY not in said


def test_what_is_no_secret_stays() -> None:
    for text in ("12 tokens, max_tokens=512", "http://localhost:8000/v1", "basic block 7", "step 3/50  loss 0.3"):
        assert without_secrets(text) == text


@given(st.text(), st.dictionaries(st.text(), st.floats() | st.text() | st.integers() | st.none()))
def test_every_event_is_one_line_of_json(text: str, fields: dict[str, Any]) -> None:
    outlet = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", outlet)
        with log_to_stderr("json"):
            event(LOG, "step", text, fields)
    (line,) = outlet.getvalue().splitlines()
    found = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert {"time", "level", "logger", "message", "event"} <= set(found)


def test_what_a_handler_shows_is_not_printed_again(
    records: list[logging.LogRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    tell(LOG, "remark", "shown by the handler")
    assert [record.getMessage() for record in records] == ["shown by the handler"]
    assert capsys.readouterr().err == ""


def test_what_no_handler_shows_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(logging.getLogger("turnwise"), "propagate", False)  # pytest's own handlers take everything
    assert not shown(LOG, logging.ERROR)
    tell(LOG, "remark", f"look, password={KEY}")
    assert capsys.readouterr().err == f"turnwise: look, {MASK}\n"


@pytest.mark.parametrize("level", [None, "info"])
def test_steps_are_a_bar_lines_or_events_and_never_two_of_them(
    level: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_to_stderr("text", level), StepProgress("loop", 2) as progress:
        progress.show({"loss": 0.5}, advance=True)
    assert capsys.readouterr().err == ("loop 1/2  loss 0.5\n" if level is None else ""), "the log has the step itself"
    screen = Console(file=io.StringIO(), force_terminal=True)
    with log_to_stderr(), StepProgress("loop", 2, console=screen) as progress:
        progress.show({"loss": 0.5}, advance=True)
        event(LOG, "retry", "not beside a bar")
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("form", core_sample(FORMATS, 1, key="form of a warning"))
def test_a_deprecated_setting_on_the_command_line_names_no_line_of_the_command(form: str) -> None:
    command = [sys.executable, "-m", "turnwise", "train", "loop", "env=turnwise/Maze-v0", "k=2"]
    done = subprocess.run([*command, "--log-format", form], capture_output=True, text=True, check=False, timeout=120)
    cure = "warning: setting 'k' is deprecated: write group_size"
    said = [line["message"] for line in lines(done.stderr)] if form == "json" else done.stderr.splitlines()
    assert (cure if form == "json" else f"turnwise: {cure}") in said
    assert "main()" not in done.stderr


def test_other_warnings_are_json_too_and_a_program_gets_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr("json"), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("look out", RuntimeWarning, stacklevel=1)
    (line,) = lines(capsys.readouterr().err)
    assert line["message"].endswith("RuntimeWarning: look out")
    with log_to_stderr("text"), pytest.warns(RuntimeWarning, match="look out"):
        warnings.warn("look out", RuntimeWarning, stacklevel=1)


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--log-format", "json"), ("--log-format=json", "--log-level=error")])
def test_the_options_of_a_command(words: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnwise", "replay", str(tmp_path), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    if not words:
        assert done.stderr.startswith("turnwise: there are no episodes at")
        return
    (line,) = lines(done.stderr)
    assert (line["level"], line["event"]) == ("error", "error")
    assert line["message"].startswith("there are no episodes at")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--log-format",), "--log-format needs a value"),
        (("--log-format", "xml"), "unknown log format 'xml'; choose from text, json"),
        (("--log-level", "loud"), "unknown log level 'loud'; choose from debug, info, warning, error"),
    ],
)
def test_wrong_options_are_one_line(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "turnwise", "version", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"turnwise: {said}\n")


@pytest.mark.parametrize("text", ["Authorization: ApiKey abcdefghij1", "my-api_key=abcdefghij", "secret: 'abcdefghij'"])
def test_credentials_of_many_forms_are_masked(text: str) -> None:
    assert "abcdefghij" not in without_secrets(f"POST failed, {text}")


def test_a_long_text_that_an_agent_wrote_is_masked_in_linear_time() -> None:
    for hostile in ("a-" * 200_000, "api-key" * 50_000, "sk-" * 100_000):  # by backtracking, hours
        without_secrets(hostile)


def test_the_value_of_a_secret_option_in_a_command_is_masked() -> None:
    assert masked({"command": ["run", "--api-key", "abc", "--steps", "3"]}) == {
        "command": ["run", "--api-key", "***", "--steps", "3"]
    }


def test_everything_below_a_secret_name_is_masked() -> None:
    assert masked({"secret": {"value": "abc", "other": ["d"]}, "name": "kept"}) == {
        "secret": {"value": "***", "other": ["***"]},
        "name": "kept",
    }
