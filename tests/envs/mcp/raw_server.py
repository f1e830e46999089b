"""An MCP server in fifty lines, without the SDK: it starts at once, and does what no server of the SDK would.

python raw_server.py [--prefix P] [--slow] [--refuse] [--endless] [--until FILE]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

TOOLS = ("add", "echo", "pid", "half", "junk", "hang", "die", "nonsense", "write", "count", "misbehave")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
counted = 0
doomed = ""
"""The action at the next count."""


def answer(id: Any, result: Any) -> None:
    # ASCII, so that half a surrogate pair goes over the wire as JavaScript's JSON.stringify writes it.
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")
    sys.stdout.flush()


def call(id: Any, name: str, arguments: dict[str, Any]) -> Any:
    global counted
    if name == "misbehave":
        return misbehave(id, str(arguments.get("how")))
    if name == "count" and doomed == "die":
        os._exit(3)
    if name == "count" and doomed:
        return misbehave(id, "17 MiB")
    text = json.dumps(arguments, sort_keys=True)
    if name == "pid":
        text = str(os.getpid())
    elif name == "half":
        text = "half a smile: \ud83d"
    elif name == "junk":
        print("a line that is no JSON", flush=True)
        print(json.dumps({"some": "other JSON"}), flush=True)
    elif name == "hang":
        time.sleep(3600)
    elif name == "die":
        print("famous last words", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "nonsense":
        return {"content": "this should have been a list"}
    elif name == "write":
        with open("left.txt", "w") as file:
            file.write("by the server")
    elif name == "count":
        counted += 1
        text = str(counted)
    return {"content": [{"type": "text", "text": text}]}


def misbehave(id: Any, how: str) -> Any:
    """Do what no server should, and return an answer where there is one."""
    done = {"content": [{"type": "text", "text": "done"}]}
    line = json.dumps({"jsonrpc": "2.0", "id": id, "result": done}).encode()
    out = sys.stdout.buffer
    if how in WRITTEN:
        out.write(WRITTEN[how](line))
        out.flush()
        return None
    if how in REQUESTS:
        out.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": how, "params": {}}).encode() + b"\n")
        return done
    if how in NOTICES:
        notice = json.dumps({"jsonrpc": "2.0", "method": f"notifications/{how}", "params": NOTICES[how]}).encode()
        out.write((notice + b"\n") * 2_000)
        return done
    if how.startswith("signal "):
        os.kill(os.getpid(), int(how.split()[1]))
    elif how.startswith("exit "):
        os._exit(int(how.split()[1]))
    elif how.startswith("endless "):
        while True:
            out.write({"bytes": b"x" * 65_536, "lines": b"x\n" * 4_096, "brackets": b"[" * 65_536}[how.split()[1]])
    elif how.startswith("close "):
        for stream in how.split()[1]:
            os.close(int(stream))
        time.sleep(3600)
    elif how == "leave a child":
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    elif how == "become deaf":
        print(line.decode(), flush=True)
        time.sleep(3600)
    elif how == "raise":
        raise ZeroDivisionError
    elif how == "last words":
        print("famous last words", file=sys.stderr, flush=True)
    elif how == "complain":
        sys.stderr.write("oh no\n" * 1_000_000)
    elif how.endswith(" the next count"):
        globals()["doomed"] = how.split()[0]
    elif how == "delete its folder":
        os.rmdir(os.getcwd())
    return done


BIG = 17 * 2**20
WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "17 MiB": lambda line: line.replace(b"done", b"x" * BIG) + b"\n",
    "17 MiB of junk, then an answer": lambda line: b"x" * BIG + b"\n" + line + b"\n",
    "15 MiB": lambda line: line.replace(b"done", b"x" * 15 * 2**20) + b"\n",
    "no UTF-8": lambda line: line.replace(b"done", b"\xff\xc0\x80") + b"\n",
    "a NUL": lambda line: line.replace(b"done", b"\0") + b"\n",
    "deep": lambda line: line.replace(b'"done"', b"[" * 100_000 + b"]" * 100_000) + b"\n",
    "deep, elsewhere": lambda line: (
        line.replace(b'"text": "done"', b'"text": "a", "more": ' + b"[" * 500 + b"]" * 500) + b"\n"
    ),
    "a number": lambda line: line.replace(b'"done"', b"1e999") + b"\n",
    "many digits": lambda line: line.replace(b'"done"', b"9" * 50_000) + b"\n",
    "half an answer": lambda line: line[:-9] + b"\n",
    "two halves": lambda line: line[:20] + b"\n" + line[20:] + b"\n",
    "junk before": lambda line: b"Loading... " + line + b"\n",
    "twice": lambda line: (line + b"\n") * 2,
    "another id": lambda line: line.replace(b'"id": ', b'"id": 9') + b"\n",
    "no id": lambda line: b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}\n',
    "an id that is a list": lambda line: b'{"jsonrpc": "2.0", "id": [1], "result": {}}\n',
    "a list of answers": lambda line: b"[" + line + b"]\n",
    "no result": lambda line: b'{"jsonrpc": "2.0", "id": 1}\n',
    "a mark, then an answer": lambda line: b"\xef\xbb\xbf" + line + b"\n",
    "carriage returns": lambda line: line.replace(b" ", b"\r") + b"\r\n",
    "10,000 empty lines": lambda line: b"\n" * 10_000 + line + b"\n",
}
"""Answers to write, made from the right one."""
REQUESTS = ("sampling/createMessage", "roots/list", "elicitation/create", "ping", "no/such")
"""Requests that a server may send its client."""
NOTICES: dict[str, Any] = {
    "progress": {"progressToken": 1, "progress": 1},
    "message": {"level": "error", "data": "x"},
    "tools/list_changed": {},
    "cancelled": {"requestId": 1},
    "nonsense": {"no": "such"},
}
"""Notifications that a server may send its client, 2,000 times."""


def main() -> None:
    if "--refuse" in sys.argv:
        sys.exit("I do not want to")
    if "--until" in sys.argv and os.path.exists(sys.argv[sys.argv.index("--until") + 1]):
        sys.exit("it is too late to start")
    if "--slow" in sys.argv:
        time.sleep(3600)
    for line in sys.stdin:
        asked = json.loads(line)
        params = asked.get("params") or {}
        if asked.get("method") == "initialize":
            version, info = params["protocolVersion"], {"name": "raw", "version": "1"}
            answer(asked["id"], {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif asked.get("method") == "tools/list":
            tools = [{"name": name, "description": name, "inputSchema": SCHEMA} for name in TOOLS]
            answer(asked["id"], {"tools": tools} | ({"nextCursor": "again"} if "--endless" in sys.argv else {}))
        elif asked.get("method") == "tools/call":
            found = call(asked["id"], params["name"], params.get("arguments") or {})
            if found is not None:
                answer(asked["id"], found)
        elif "id" in asked:
            error = {"code": -32601, "message": "no such method"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)


if __name__ == "__main__":
    main()
