"""Hostile inputs for code environments: sizes, counts, depths, time, encodings, names, signals and open descriptors.

None may end an episode as a failure of the infrastructure: what exceeds a bound is the agent's own failure, scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tasks.code.task import Attempt, CodeTask
from ..messages import Action, ActionLike, ToolCall
from .answers import actions_of

MB = 1_000_000
COMMANDS: Mapping[str, str] = {
    "fills the disk": "head -c 100000000 /dev/zero > {target}",
    "fills /tmp and /dev/shm": "head -c 99999999 /dev/zero > /tmp/x; head -c 99999999 /dev/zero > /dev/shm/x",
    "leaves a sparse file of a terabyte": "truncate -s 1T {target}",
    "leaves a sparse file of the whole disk": "truncate -s 16777216 {target}",
    "leaves small files and a sparse one": "for i in $(seq 3000); do echo x > f$i; done; truncate -s 15M large",
    "makes a directory of its file": "rm -f {target}; mkdir -p {target}/x",
    "links its file to a secret": "ln -sf /etc/passwd {target}",
    "links its file to itself": "ln -sf {target} {target}",
    "makes a pipe of its file": "rm -f {target}; mkfifo {target}",
    "makes its file unreadable": "chmod 000 {target}; chmod 000 .",
    "removes everything": "rm -rf ./* .[a-z]*; cd ..; rmdir work",
    "moves the directory away": "mkdir a; mv * a; ln -s a b; chmod 111 a",
    "kills everything": "kill -9 -1; kill -9 1",
    "stops everything": "kill -STOP -1; kill -STOP 1; sleep 99",
    "floods its output": "yes | head -c 300000000; yes >&2",
    "writes bytes that are no text": "head -c 3000000 /dev/urandom; printf '\\377\\000\\033[2J'",
    "never ends": "trap '' TERM INT HUP; while :; do :; done",
    "leaves a daemon": "setsid sh -c 'trap \"\" TERM; while :; do :; done' & setsid sleep 999 & echo left",
    "forks without end": "f() {{ f | f & }}; f; sleep 3",
    "closes its streams": "exec 0<&- 1>&- 2>&-; sleep 99",
    "is a command of a megabyte": "echo " + "x" * MB,
    "is a command of 100 kB": "echo " + "x" * 100_000,
    "has half of a surrogate pair": "echo \ud800",
}
"""Commands of the shell; ``{target}`` is the file that is graded."""
SCRIPTS: Mapping[str, str] = {
    "makes empty files without end": "i = 0\nwhile 1:\n    open(f'{i}', 'w').close(); i += 1",
    "makes empty files elsewhere": "i = 0\nwhile 1:\n    os.mknod(f'/tmp/{i}'); os.mknod(f'/dev/shm/{i}'); i += 1",
    "makes directories 4,000 deep": "for _ in range(4000):\n    os.mkdir('d' * 200); os.chdir('d' * 200)",
    "makes names that are no text": "for n in (b'\\xff', b'a\\nb', b'a=b', b' ', b'-rf', b'%s'): open(n, 'w')",
    "makes names that are long": "for i in range(9000): open(f'{i:05}' * 51, 'w').close()",
    "makes links with long targets": "for i in range(3000): os.symlink('/x' * 2000, f'l{i}')",
    "makes hard links without end": "open('a', 'w')\nfor i in range(10**6): os.link('a', f'h{i}')",
    "makes sockets": "import socket\nfor i in range(999): socket.socket(socket.AF_UNIX).bind(f's{i}')",
    "takes all memory": "x = []\nwhile 1: x.append(bytearray(1 << 20))",
    "takes all descriptors": "x = [os.open('/dev/null', 0) for _ in range(10**7)]",
    "fills pipes and sockets": "import socket\nx = [socket.socketpair() for _ in range(400)]\n"
    "for a, b in x:\n    a.setblocking(0)\n    try:\n        while 1: a.send(bytes(65536))\n    except OSError: pass",
    "shares memory that outlives it": "import ctypes\nl = ctypes.CDLL(None)\nl.shmat.restype = ctypes.c_void_p\n"
    "for _ in range(99): ctypes.memset(l.shmat(l.shmget(0, 4 << 20, 0o1600), None, 0), 1, 4 << 20)",
    "maps all memory": "import mmap\nfor x in [mmap.mmap(-1, 1 << 20) for _ in range(500)]: x.write(bytes(1 << 20))",
}
"""Python programs, with ``os`` imported, that a command runs."""
SOURCES: Mapping[str, str] = {
    "is 24 MB": "#" * 24 * MB,
    "is a comment of a megabyte": "#" * MB,
    "has half a million statements": "a\n" * 120_000,
    "nests brackets": "(" * 100_000,
    "nests attributes": "a" + ".a" * 60_000,
    "nests signs": "-" * 60_000 + "1",
    "nests blocks": "".join(" " * depth + "if 1:\n" for depth in range(150)),
    "has a number of 200,000 digits": "x = " + "9" * 200_000,
    "is written in rot13": "# coding: rot13\ncevag(1)\n",
    "is written in an unknown encoding": "# coding: nowhere\n",
    "has NUL bytes": "\0" * 1000,
    "begins with a mark": "\ufeff\ufeffx = 1\n",
    "loops": "while True:\n    pass\n",
    "loops in C": "x = 10 ** 10 ** 8\ny = str(x)\n",
    "takes all memory": "x = [bytes(1 << 20) for _ in range(10 ** 6)]\n",
    "calls itself": "def f():\n    return f()\nf()\n",
    "ends its process": "import os\nos._exit(0)\n",
    "kills what checks it": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "stops what checks it": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\n",
    "kills everything": "import os, signal\nos.kill(-1, signal.SIGKILL)\n",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
    "forks without end": "import os\nwhile True:\n    os.fork()\n",
    "leaves a child with its pipe": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(999)\n",
    "closes all descriptors": "import os\nos.closerange(0, 256)\n",
    "floods all descriptors": "import os\nfor n in range(3, 64):\n    try:\n        while True:\n"
    "            os.write(n, bytes(65536))\n    except OSError:\n        pass\n",
    "reports nonsense": "import os\nfor n in range(3, 64):\n    try:\n        os.write(n, b'[' * 99999 + b'\\n')\n"
    "    except OSError:\n        pass\n",
    "crashes": "import ctypes\nctypes.string_at(0)\n",
    "raises what has no text": "class E(BaseException):\n    def __str__(self):\n        raise self\nraise E\n",
    "fills the disk while it is graded": "open('/tmp/x', 'wb').write(bytes(1 << 28))\n",
    "makes empty files while it is graded": "i = 0\nwhile True:\n    open(f'x{i}', 'w').close()\n    i += 1\n",
    "removes what checks it": "import shutil\nshutil.rmtree('.', ignore_errors=True)\n",
    "hides from its parent": "import signal, time\nfor n in range(1, 32):\n    try:\n        signal.signal(n, "
    "signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\ntime.sleep(9999)\n",
}
"""Contents of the file that is graded."""

SESSIONS: Mapping[str, str] = {
    "ends": "import os; os._exit(3)",
    "stops": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "spins in threads": "import threading\ndef f():\n    while 1: pass\n"
    "for _ in range(30): threading.Thread(target=f, daemon=True).start()",
    "writes on in a thread": "import os, threading\ndef f():\n    while 1:\n        open('x', 'a').write('x' * 999)\n"
    "        if os.path.getsize('x') > 10**6: os.remove('x')\nthreading.Thread(target=f, daemon=True).start()",
    "closes descriptors": "import os; os.closerange(0, 64)",
    "floods descriptors": "import os\nfor n in range(3, 10):\n    try: os.write(n, b'1 0\\n' * 9999)\n"
    "    except OSError: pass",
    "has no streams": "import sys; sys.stdout = sys.stderr = sys.displayhook = None; 1",
    "leaves children that spin": "import os\nfor _ in range(20):\n    if not os.fork():\n        while 1: pass",
    "hides": "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile 1: pass",
    "shows what has no repr": "class E:\n    def __repr__(self): raise SystemExit\nE()",
    "is no Python": "(" * 50_000,
}
"""Code for a Python session, played twice."""


def calls(target: str) -> dict[str, Sequence[ActionLike]]:
    """Odd calls of tools."""
    odd = {
        "nothing": "",
        "a NUL": "a\0b",
        "a way out": "../" * 500 + "etc/passwd",
        "an absolute one": "/etc/shadow",
        "a long one": "x" * 100_000,
        "a deep one": "x/" * 5000 + "x",
        "half a pair": "\udcff",
        "itself": ".",
    }
    one = "@@ -1,1 +1,1 @@\n"
    return {
        **{
            f"{tool} with {name} as its path": [
                ToolCall(tool, {"path": path, "content": "x"} if tool == "write" else {"path": path})
            ]
            for name, path in odd.items()
            for tool in ("read", "write", "list")
        },
        "reads lines beyond number": [ToolCall("read", {"path": target, "first_line": 10**30, "lines": 10**30})],
        "searches for a megabyte": [ToolCall("search", {"text": "x" * MB})],
        "patches with endless hunks": [ToolCall("patch", {"path": target, "diff": (one + "-a\n+b\n") * 20_000})],
        "patches beyond number": [ToolCall("patch", {"path": target, "diff": f"@@ -{10**30},1 +1,1 @@\n a\n"})],
        "patches at 5,000 digits": [ToolCall("patch", {"path": target, "diff": f"@@ -{'9' * 5000},1 +1,1 @@\n-a\n"})],
        "patches to 5,000 digits": [ToolCall("patch", {"path": target, "diff": f"@@ -1 +1,{'9' * 5000} @@\n-a\n"})],
        "patches what is everywhere": [ToolCall("patch", {"path": target, "old": " ", "new": "x" * MB})],
        "calls too much": [Action(tool_calls=(ToolCall("test"),) * 400)],
    }


def attacks_on(work: CodeTask, how: str) -> dict[str, Sequence[ActionLike]]:
    """Return ways to break an episode of a task, by name.

    Args:
        work: the task.
        how: the way to act: ``tools``, ``python`` or ``text``.
    """
    target = work.taken[0] if work.taken else "answer.txt"
    plays = {f"a command that {n}": Attempt(commands=(text.format(target=target),)) for n, text in COMMANDS.items()}
    for name, script in SCRIPTS.items():
        program = {"attack.py": f"import os\n{script}\n".encode()}
        plays[f"a program that {name}"] = Attempt(program, ("python3 attack.py",))
    for name, source in SOURCES.items():
        plays[f"a submission that {name}"] = Attempt({target: source.encode()})
    found: dict[str, Sequence[ActionLike]] = dict(calls(target)) if how == "tools" else {}
    if how == "python":
        found |= {f"a session that {name}": [ToolCall("python", {"code": code})] * 2 for name, code in SESSIONS.items()}
    return found | {name: actions for name, play in plays.items() if (actions := actions_of(work, play, how))}
