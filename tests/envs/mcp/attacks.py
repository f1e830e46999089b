"""Ways to break an MCP server, and through it an episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import turnwise as tw
from turnwise.envs.certify.attacks import nested
from turnwise.envs.messages import ActionLike

from .raw_server import NOTICES, REQUESTS, WRITTEN

Attempts = dict[str, Sequence[ActionLike]]
COUNT, ECHO, HANG, DIE, STOP = (tw.ToolCall(name) for name in ("count", "echo", "hang", "die", "stop"))
OTHERWISE = (
    *(f"signal {number}" for number in (3, 6, 9, 11, 13, 15, 19)),
    *(f"exit {code}" for code in (0, 1, 255)),
    *(f"close {streams}" for streams in ("0", "1", "01", "012")),
    *(f"endless {what}" for what in ("bytes", "lines", "brackets")),
    *("leave a child", "become deaf", "raise", "complain", "delete its folder", "nothing of this"),
)
"""Further actions of the server without the SDK, on request."""
HANGS = ("close 0", "close 012", "endless", "leave a child", "become deaf", "signal 19", "hangs")
"""Parts of the names of attempts that wait for their time limit."""


def calls(*made: tw.ToolCall) -> tw.Action:
    """One message with several calls."""
    return tw.Action(tool_calls=made)


def misbehaving(how: str) -> tw.ToolCall:
    """The call that makes the server misbehave."""
    return tw.ToolCall("misbehave", {"how": how})


def on_the_raw_server() -> Attempts:
    """Attempts on the server without the SDK: what it is made to do, and what is sent to it."""
    big = tw.ToolCall("echo", {"text": "x" * 999_000})
    return {
        **{f"makes it write {how}": [misbehaving(how), COUNT] for how in WRITTEN},
        **{f"makes it ask for {how}": [misbehaving(how), COUNT] for how in REQUESTS},
        **{f"makes it tell {how}": [misbehaving(how), COUNT] for how in NOTICES},
        **{f"makes it do: {how}": [misbehaving(how), COUNT] for how in OTHERWISE},
        "hangs": [HANG],
        "hangs after other calls": [COUNT, COUNT, HANG],
        "hangs in the middle of a message": [calls(COUNT, HANG, STOP)],
        "hangs while it is asked again": [calls(*[HANG] * 3)],
        "dies": [DIE],
        "dies after other calls": [COUNT, COUNT, DIE],
        "dies in the middle of a message": [calls(COUNT, DIE, STOP)],
        "dies at the end of a message": [calls(*[COUNT] * 15, DIE)],
        "answers nonsense": [tw.ToolCall("nonsense"), tw.ToolCall("half"), tw.ToolCall("junk"), COUNT],
        "sends a lot to a deaf server": [ECHO, misbehaving("become deaf"), big, big],
        "many calls in a message": [calls(*[ECHO] * 500)],
        "large calls in a message": [calls(*[big] * 16)],
        "no such tool": [tw.ToolCall(name) for name in ("", "no", "ECHO", "echo ", "raw", "tools/call")],
        "odd names": [tw.ToolCall(name) for name in ("a\0b", "\x1b[2J", "\ud800", "e" * 1_000_000, "../echo")],
        "odd ids": [tw.ToolCall("echo", {}, id) for id in ("", "\0", "\ud800", "i" * 1_000_000)],
        "arguments that are none": [tw.ToolCall("echo", odd) for odd in ([], "x", None, 7, nested(900))],  # type: ignore[arg-type]
        "odd arguments": [tw.ToolCall("echo", {key: value}) for key, value in ODD],
    }


ODD: tuple[tuple[str, Any], ...] = (
    ("n", "one"),
    ("n", 10**400),
    ("n", float("nan")),
    ("n", True),
    ("", ""),
    ("\0", "\0"),
    ("\ud800", 1),
    ("a", "\udfff"),
    ("__proto__", {"constructor": {}}),
    ("_meta", {"progressToken": 1}),
    ("a", nested(200)),
    ("a", nested(900)),
    ("a", {str(number): number for number in range(50_000)}),
    ("a", "x" * 1_000_000),
    ("path", "/episode/../../../../dev/zero"),
    ("a" * 500_000, 1),
)
"""Arguments that no agent should send."""
FILES: Attempts = {
    "reads what is no file": [
        tw.ToolCall("read_text_file", {"path": path})
        for path in ("", "/", "/episode", "/episode/a\0b", "/dev/zero", "/proc/self/mem", "x" * 5_000, "\ud800", "..")
    ],
    "writes odd files": [
        tw.ToolCall("write_file", {"path": path, "content": "x"})
        for path in ("/episode", "/episode/" + "a" * 300, "/episode/\n", "/episode/a/b/c", "/etc/x", "/episode/\x7f")
    ],
    "writes much and reads it": [
        tw.ToolCall("write_file", {"path": "/episode/big", "content": "x" * 990_000}),
        calls(*[tw.ToolCall("read_text_file", {"path": "/episode/big"})] * 16),
        tw.ToolCall("read_multiple_files", {"paths": ["/episode/big"] * 40}),
        tw.ToolCall("read_text_file", {"path": "/episode/big", "head": 10**9}),
        tw.ToolCall("read_text_file", {"path": "/episode/big", "head": -1, "tail": -1}),
    ],
    "edits oddly": [
        tw.ToolCall("write_file", {"path": "/episode/a", "content": "a" * 50_000}),
        tw.ToolCall("edit_file", {"path": "/episode/a", "edits": [{"oldText": "", "newText": "b"}]}),
        tw.ToolCall("edit_file", {"path": "/episode/a", "edits": [{"oldText": "a", "newText": "aa"}] * 500}),
        tw.ToolCall("edit_file", {"path": "/episode/a", "edits": []}),
    ],
    "searches by patterns": [
        tw.ToolCall("search_files", {"path": "/episode", "pattern": pattern})
        for pattern in ("**/" * 500 + "*", "{" * 900, "[", "{a,b}" * 30, "(" * 999, "!" * 999, "{1..99999999}")
    ],
    "makes a deep tree": [
        tw.ToolCall("create_directory", {"path": "/episode/" + "d/" * 900}),
        tw.ToolCall("directory_tree", {"path": "/episode"}),
    ],
}
"""Attempts on the file server."""
MEMORY: Attempts = {
    "keeps much": [
        tw.ToolCall(
            "create_entities",
            {"entities": [{"name": str(number), "entityType": "x", "observations": []} for number in range(9_000)]},
        ),
        tw.ToolCall("read_graph"),
        tw.ToolCall("search_nodes", {"query": ""}),
    ],
    "keeps odd names": [
        tw.ToolCall("create_entities", {"entities": [{"name": name, "entityType": name, "observations": [name]}]})
        for name in ("", "__proto__", "a\nb", "\0", "\ud800", "x" * 300_000, "🏴‍☠️" * 999)
    ],
    "relates what is not there": [
        tw.ToolCall("create_relations", {"relations": [{"from": "a", "to": "a", "relationType": "is"}] * 2_000}),
        tw.ToolCall("delete_entities", {"entityNames": ["b"] * 2_000}),
        tw.ToolCall("open_nodes", {"names": [""]}),
        tw.ToolCall("add_observations", {"observations": [{"entityName": "nobody", "contents": ["x"]}]}),
    ],
}
"""Attempts on the memory server."""
EVERYTHING: Attempts = {
    "takes long": [tw.ToolCall("trigger-long-running-operation", {"duration": 3600, "steps": 2}), COUNT],
    "takes many steps": [tw.ToolCall("trigger-long-running-operation", {"duration": 1, "steps": 5_000})],
    "takes no time": [
        tw.ToolCall("trigger-long-running-operation", {"duration": odd, "steps": odd}) for odd in (0, -1, 1e308)
    ],
    "asks the client": [tw.ToolCall("trigger-sampling-request", {"prompt": "x" * 9_000, "maxTokens": 10**12})],
    "adds numbers": [tw.ToolCall("get-sum", {"a": a, "b": b}) for a, b in ((1e308, 1e308), (10**400, 1), (-0.0, 0))],
    "asks for resources": [tw.ToolCall("get-resource-links", {"count": odd}) for odd in (0, -1, 10**9)],
    "packs files": [
        tw.ToolCall("gzip-file-as-resource", {"name": "x", "data": url})
        for url in ("data:,", "data:text/plain," + "x" * 900_000, "http://127.0.0.1:1/", "file:///dev/zero", "x")
    ],
    "switches logging on": [tw.ToolCall("toggle-simulated-logging"), tw.ToolCall("toggle-subscriber-updates")],
}
"""Attempts on the server that has everything."""
TIME: Attempts = {
    "asks for odd zones": [
        tw.ToolCall("get_current_time", {"timezone": zone})
        for zone in ("", "/etc/passwd", "../../etc", "\0", "a\ud800", "x" * 9_000, "Etc/GMT+99", "localtime")
    ],
    "converts odd times": [
        tw.ToolCall("convert_time", {"source_timezone": "UTC", "time": time, "target_timezone": "UTC"})
        for time in ("", "99:99", "-1:00", "٣:٠٠", "NaN", "0" * 9_000, "24:00", "12:00\n")
    ],
}
"""Attempts on the server of times."""
