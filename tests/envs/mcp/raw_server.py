"""An MCP server in fifty lines, without the SDK: it starts at once, and does what no server of the SDK would.

python raw_server.py [--prefix P] [--slow] [--refuse] [--endless]
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TOOLS = ("add", "echo", "pid", "half", "junk", "hang", "die", "nonsense", "write", "count")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
counted = 0


def answer(id: Any, result: Any) -> None:
    # ASCII, so that half a surrogate pair goes over the wire as JavaScript's JSON.stringify writes it.
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")
    sys.stdout.flush()


def call(name: str, arguments: dict[str, Any]) -> Any:
    global counted
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


def main() -> None:
    if "--refuse" in sys.argv:
        sys.exit("I do not want to")
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
            answer(asked["id"], call(params["name"], params.get("arguments") or {}))
        elif "id" in asked:
            error = {"code": -32601, "message": "no such method"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)


if __name__ == "__main__":
    main()
