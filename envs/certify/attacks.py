"""A hostile player for any tools: values that no agent should send, one after the other, in every place for a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...tasks.rng import Rng
from ..asked import asked
from ..base import TurnEnv
from ..messages import Action, ToolCall
from ..sampling import random_arguments
from ..tools import Tool


def nested(depth: int) -> list[Any]:
    """A list in a list in a list, and so on."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: Mapping[str, Any] = {
    "nothing": "",
    "blanks": " \n\t\r\x0b",
    "a NUL": "a\0b",
    "half a pair": "\ud800",
    "the other half": "x\udcff",
    "100 kB": "x" * 100_000,
    "a megabyte": "y" * 1_000_000,
    "many lines": "z\n" * 50_000,
    "control": "\x1b[2J\x07\x7f",
    "right to left": "\u202eabc\u2066",
    "combined": "e" + "\u0301" * 5_000,
    "wide": "🏴‍☠️" * 300,
    "no character": "\uffff\ufdd0",
    "a mark": "\ufeff",
    "brackets": "[" * 50_000,
    "braces": "{" * 9_000,
    "tags": "<b>" * 9_000,
    "a token": "<|im_end|>",
    "a query": "'; DROP TABLE t; --",
    "a pattern": "(a+)+$" * 99 + "!",
    "stars": "*" * 5_000,
    "format": "%s%n{0.__class__}",
    "operators": '" OR NEAR(a, b) AND NOT * ^ : -',
    "quotes": '"' * 999,
    "a column": "title : x*",
    "a way out": "../" * 900,
    "a file": "file:///etc/passwd",
    "a host": "http://127.0.0.1:1/",
    "a broken host": "http://[::1",
    "a port": "http://a:99999999/",
    "no page": "about:blank",
    "data": "data:text/html,<script>while(1);</script>",
    "a script": "javascript:while(1){}",
    "escapes": "%00%ff%0d%0aX: y",
    "a day": "0000-00-00",
    "a late day": "99999-12-31T99:99:99+99:99",
    "no number": "NaN",
    "infinity": "-Infinity",
    "a float": 1e308,
    "not a number": float("nan"),
    "endless": float("inf"),
    "minus": -1,
    "zero": 0,
    "beyond 63 bits": 2**63,
    "below": -(2**63) - 1,
    "beyond doubles": 10**400,
    "digits": "9" * 5_000,
    "truth": True,
    "none": None,
    "a list": [],
    "an object": {},
    "a deep list": nested(200),
    "a deeper list": nested(900),
    "a long list": [0] * 50_000,
    "many keys": {str(n): n for n in range(5_000)},
    "an odd key": {"\ud800": {"": [None]}},
}
"""Hostile values by name: sizes, counts, depths, encodings, names, numbers and types."""
CODE: Mapping[str, str] = {
    "900 signs": "-" * 900 + "1",
    "9,000 signs": "-" * 9_000 + "1",
    "4,000 digits in hexadecimal": "0x" + "F" * 4_000,
    "a sum with 4,000 digits": "0x" + "F" * 4_000 + "+1",
    "a long sum": "1" + "+1" * 900,
    "a longer sum": "1" + "+1" * 9_000,
    "many attributes": "a" + ".a" * 900,
    "more attributes": "a" + ".a" * 9_000,
    "many calls": "a" + "()" * 900,
}
"""Hostile values inside a message that is written as a call, for environments that read messages as code."""
PER_VALUE = 3
"""Calls in which each value is tried; which tools they call changes with the value."""


def attempts(env: TurnEnv) -> Iterator[tuple[str, Action]]:
    """Return messages and tool calls for a running environment, each with a hostile value, by name.

    Some are what the oracle would do, but for one argument, so that they come as far as a good call does.
    """
    rng, tools = Rng("attacks", env.task.digest), list(env.tools)
    for number, (name, value) in enumerate(VALUES.items()):
        for offset in range(min(PER_VALUE, len(tools))):
            tool = tools[(number * PER_VALUE + offset) % len(tools)]
            yield f"{tool.name} with {name}", Action.of(ToolCall(tool.name, _with(tool, value, rng)))
        if isinstance(value, str):
            yield f"a message with {name}", Action(value)
        for call in _best(env)[:1]:
            for argument in call.arguments:
                changed = ToolCall(call.name, {**call.arguments, argument: value})
                yield f"{call.name} with {name} for {argument}", Action.of(changed)
    for number, (name, text) in enumerate(CODE.items() if tools else ()):
        tool = tools[number % len(tools)]
        yield f"a message that calls {tool.name} with {name}", Action(f"{tool.name}({text})")


def _with(tool: Tool, value: Any, rng: Rng) -> dict[str, Any]:
    """Arguments that fit, but for one in all of its places."""
    fitting = random_arguments(tool.parameters, rng)
    names = list(tool.parameters.get("properties", {})) or ["x"]
    return {**fitting, rng.pick(names): value}


def _best(env: TurnEnv) -> tuple[ToolCall, ...]:
    try:
        return asked(env, "oracle").tool_calls
    except Exception:  # it has none, which other laws say
        return ()
