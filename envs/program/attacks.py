"""Hostile inputs for programs: attacks on their session, and on the protocol of their tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..code.attacks import SESSIONS
from ..messages import Action, ActionLike, ToolCall

PROTOCOL: Mapping[str, str] = {
    "sends what is no JSON": "host.ask(b'\\xff\\x00{')",
    "sends nothing": "host.ask(b'')",
    "sends no bytes": "host.ask(None)",
    "sends 100 MB": "host.ask(b'[' + b'0,' * 50_000_000 + b'0]')",
    "sends brackets": "host.ask(b'[' * 100_000)",
    "sends a number of a million digits": "host.ask(b'9' * 1_000_000)",
    "sends NaN": "host.ask(b'{\"tool\": \"x\", \"arguments\": {\"a\": NaN}}')",
    "names no tool": "host.ask(json.dumps({'tool': None}).encode())",
    "names a tool of a megabyte": "host.ask(json.dumps({'tool': 'x' * 1_000_000}).encode())",
    "names half of a surrogate pair": "host.ask(json.dumps({'tool': '\\ud800', 'arguments': {'\\udcff': 1}}).encode())",
    "gives arguments that are none": "host.ask(json.dumps({'tool': TOOL, 'arguments': [[]] * 9}).encode())",
    "gives thousands of arguments": "host.ask(json.dumps({'tool': TOOL, 'arguments': dict.fromkeys(map(str, "
    "range(100_000)))}).encode())",
    "gives numbers beyond everything": "host.ask(json.dumps({'tool': TOOL, 'arguments': {'x': 10 ** 4000}}).encode())",
    "calls without end": "while True:\n    try: host.ask(b'{}')\n    except Exception: pass",
    "calls from many threads": "import threading\nfor _ in range(30):\n"
    "    threading.Thread(target=host.ask, args=(b'{}',)).start()",
    "calls from a child": "import os\nos.fork()\nhost.ask(json.dumps({'tool': TOOL, 'arguments': {}}).encode())",
    "calls and ends": "import os, threading\nthreading.Thread(target=host.ask, args=(b'{}',)).start()\nos._exit(0)",
    "calls and stops": "import os, signal, threading\nthreading.Thread(target=host.ask, args=(b'{}',)).start()\n"
    "os.kill(os.getpid(), signal.SIGSTOP)",
    "breaks what it calls with": "json.dumps = json.loads = None\napis.__dict__.clear()\n"
    "import builtins; del builtins.len",
    "prints without end": "while True: print('x' * 100_000)",
    "prints what is no text": "import os\nos.write(1, bytes(range(256)) * 10_000)",
    "raises what has no text": "class E(BaseException):\n    def __str__(self): raise self\nraise E",
    "takes all memory": "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "fills its disk": "open('x', 'wb').write(bytes(1 << 28))",
    "replaces the standard library": "import os\nfor name in ('json', 'types', 'sys'):\n"
    "    open(name + '.py', 'w').write('1/0')\nos._exit(1)",
    "never ends": "while True: pass",
}  # fmt: skip
"""Programs that attack; ``host`` is the module by which calls leave the sandbox, ``TOOL`` the name of a tool."""


def attacks_on(tool: str) -> dict[str, Sequence[ActionLike]]:
    """Return ways to break an episode, by name.

    Args:
        tool: name of a tool that programs may call.
    """
    begin = f"import json, apis\nimport turnwise_host as host\nTOOL = {tool!r}\n"
    plays = {name: [begin + code] * 2 for name, code in PROTOCOL.items()}
    plays |= {f"has a session that {name}": [code] * 2 for name, code in SESSIONS.items()}
    found: dict[str, Sequence[ActionLike]] = {
        f"a program that {name}": [*map(_python, codes), _python("print(1)")] for name, codes in plays.items()
    }
    endless = Action(tool_calls=(ToolCall("python", {"code": "while True: pass"}),) * 16)
    return {**found, "a message of programs that never end": [endless]}


def _python(code: str) -> ToolCall:
    return ToolCall("python", {"code": code})
