"""Planted regressions: limits removed one by one, and the hostile player finds each."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.base import TurnEnv
from turnwise.envs.mcp import connection
from turnwise.envs.mcp.tools import McpTools
from turnwise.envs.messages import ActionLike
from turnwise.envs.miniwob import chromium as miniwob
from turnwise.envs.program import tools as program
from turnwise.envs.search.retrieval import tokenize
from turnwise.envs.web import actions, browser
from turnwise.envs.web.chromium import snapshot
from turnwise.errors import SandboxUnavailableError, UsageError
from turnwise.tasks.apps.simulators import app
from turnwise.tasks.rows.database import Database
from turnwise.tasks.search import document
from turnwise.tasks.web.simulators import http
from turnwise.tasks.web.simulators.site import Site

from ..hostile import all_attempts, unscored
from ..mcp.around import Around, raw
from ..mcp.attacks import on_the_raw_server
from ..program.worlds import Bookshops


@dataclass(frozen=True)
class Regression:
    """A limit that is removed.

    Args:
        limit: limit that it bounds.
        function: function that contains it.
        old: text of the function, once in it.
        new: text that replaces it.
        env: name of the environment that then fails, in ``BEGIN``.
        attempt: part of the names of the attempts that find it.
    """

    limit: str
    function: Any
    old: str
    new: str
    env: str
    attempt: str


NEVER = "except ZeroDivisionError"
REGRESSIONS = (
    Regression("bytes of rows", Database.whole, "sqlite3.SQLITE_FULL", "None", "apps",
               "mail forwards what it has forwarded"),
    Regression("times", app.moment, "except ValueError", NEVER, "apps", "calendar names odd times"),
    Regression("days", app.day, "except ValueError", NEVER, "apps", "mail searches for odd words"),
    Regression("patterns to find", document.phrase, "re.escape(word)", "word", "search", "finds patterns"),
    Regression("words of a query", tokenize.query_words, "WORD.findall(text)", "text.split()", "search",
               "searches for what is a language elsewhere"),
    Regression("digits", http.number, "text.isascii() and text.isdecimal()", "text.isdigit()", "html",
               "names odd numbers of pages"),
    Regression("fields of a form", http.Values.of, "except ValueError", NEVER, "html", "opens odd paths"),
    Regression("URLs", browser.way_out, "except ValueError", NEVER, "html", "opens odd URLs"),
    Regression("rows that a page names", Site.answer, "except Refused", NEVER, "html", "opens every page"),
    Regression("depth of actions as text", actions.read, "ValueError, RecursionError, MemoryError", "", "html",
               "with 9,000 signs"),
    Regression("requests of programs", program._call_in, "except (ValueError, RecursionError)", NEVER, "program",
               "a program that sends what is no JSON"),
    Regression("depth of requests", program._call_in, "(ValueError, RecursionError)", "ValueError", "program",
               "a program that sends brackets"),
    Regression("names of tools", program._call_in, 'not isinstance(read.get("tool"), str)', "False", "program",
               "a program that names no tool"),
    Regression("seconds of a server's answer", connection.Connection._late, "except Exception", NEVER, "mcp",
               "hangs after other calls"),
    Regression("deaths of a server", McpTools._lost_again, "return True", "return False", "mcp", "dies after"),
)  # fmt: skip
IN_CHROMIUM = (
    Regression("characters of a page", snapshot.nodes_of, 'UNREADABLE.sub("\\ufffd", snapshot)', "snapshot", "chromium",
               "fills forms with no characters"),
    Regression("keys of a page", miniwob.run_action, "except Error", NEVER, "miniwob", "presses every key"),
)  # fmt: skip


def _made(id: str, **options: Any) -> Callable[[], TurnEnv]:
    def begin() -> TurnEnv:
        env: TurnEnv = tw.make(id).unwrapped  # type: ignore[assignment]
        env.reset(seed=1, options=options or None)
        return env

    return begin


def _bookshops() -> TurnEnv:
    env = Bookshops(actions="python", seconds=2.0)
    env.reset(seed=0)
    return env


class Breakable(Around):
    """Tools of a server that an agent can break."""

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        return on_the_raw_server()


def _server() -> TurnEnv:
    env = Breakable(servers=[raw(timeout=1.0)])
    env.reset(seed=0)
    return env


BEGIN: dict[str, Callable[[], TurnEnv]] = {
    "apps": _made("turnwise/Apps-v2", level=3),
    "search": _made("turnwise/Search-v1", level=2),
    "html": _made("turnwise/WebHTML-v1", level=2),
    "chromium": _made("turnwise/Web-v1", level=2),
    "miniwob": _made("turnwise/MiniWoB-EnterText-v1"),
    "program": _bookshops,
    "mcp": _server,
}


@contextmanager
def started(name: str) -> Iterator[TurnEnv]:
    """Begin an episode, and close it at the end."""
    try:
        env = BEGIN[name]()
    except (SandboxUnavailableError, UsageError) as error:
        pytest.skip(f"NOT TESTED: {error}")
    try:
        yield env
    finally:
        env.close()


def plant(monkeypatch: pytest.MonkeyPatch, one: Regression) -> None:
    """Replace the code of a function, for everything that has imported it."""
    function = inspect.unwrap(one.function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(one.old) == 1, f"{one.limit}: {one.old!r} is not once in its function; update the table"
    names = dict(vars(sys.modules[function.__module__]))
    exec(source.replace(one.old, one.new), names)
    again = names[function.__name__]
    again = inspect.unwrap(again.__func__ if isinstance(again, classmethod) else again)
    monkeypatch.setattr(getattr(function, "__func__", function), "__code__", again.__code__)


def found(monkeypatch: pytest.MonkeyPatch, one: Regression) -> None:
    """Check that attempts are scored with a limit, and that one of them is not without it."""
    monkeypatch.setattr(connection, "PROBE", 0.2)  # no server answers a probe in these attempts
    with started(one.env) as env:
        tries = {name: play for name, play in all_attempts(env).items() if one.attempt in name}
        assert tries, f"there is no attempt {one.attempt!r}"
        assert unscored(env, tries) == {}
        plant(monkeypatch, one)
        assert unscored(env, tries), f"{one.limit} can be removed, and no attempt finds it"


@pytest.mark.slow
@pytest.mark.parametrize("one", REGRESSIONS, ids=[one.limit for one in REGRESSIONS])
def test_a_limit_that_was_removed_is_found(monkeypatch: pytest.MonkeyPatch, one: Regression) -> None:
    found(monkeypatch, one)


@pytest.mark.slow
@pytest.mark.parametrize("one", IN_CHROMIUM, ids=[one.limit for one in IN_CHROMIUM])
def test_a_limit_that_was_removed_is_found_in_chromium(monkeypatch: pytest.MonkeyPatch, one: Regression) -> None:
    found(monkeypatch, one)
