"""Forgeries of the reward: in the agent's container, and by the submitted program while the tests run it.

None scores above 0. Some leave the tests without a valid reward, and such an episode has no score.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from turnwise.envs.code.backends import shared_backend
from turnwise.envs.code.workspace import Entry
from turnwise.envs.harbor.env import SUBMIT, HarborEnv
from turnwise.envs.harbor.grading import LATE, Verdict, graded
from turnwise.envs.harbor.images import engine as engine_of
from turnwise.envs.harbor.images import places_of
from turnwise.envs.harbor.submission import packed
from turnwise.envs.harbor.task import read_task
from turnwise.envs.messages import ToolCall
from turnwise.errors import EnvironmentFailedError

from .worlds import task_folder

pytestmark = [pytest.mark.slow, pytest.mark.shift]

FORGE = "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json"
IN_THE_CONTAINER: Mapping[str, str] = {
    "reward files of its own": f"{FORGE}; mkdir -p logs/verifier; cp /logs/verifier/* logs/verifier",
    "a daemon": f"setsid nohup sh -c 'while :; do {FORGE}; done' >/dev/null 2>&1 &",
    "a daemon that python starts": "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: "
    "time.sleep(600)' & cp /bin/sleep s 2>/dev/null; nohup ./s 600 &",
    "a link to the reward": "ln -sf /logs/verifier/reward.txt answer.txt; ln -sf /logs/verifier logs",
    "a link to the tests": "ln -sf /tests/compare.py answer.txt; ln -sfn /tests t; ln -sf t/../tests/test.sh solve.py",
    "a link through /proc": "ln -sf /proc/self/root/tests/test.sh answer.txt; ln -sf /proc/self/fd/1 solve.py",
    "pipes instead of files": "rm -f answer.txt; mkfifo answer.txt reward.txt",
    "replaced tools": "for f in bash sh python3 timeout cat; do for d in /usr/local/bin /usr/bin /bin; do "
    "printf '#!/bin/sh\\necho 12' > $d/$f; done; printf '#!/bin/sh\\necho 12' > $f; chmod +x $f; done; "
    "printf '#!/bin/sh\\nexit 0' > pytest; chmod +x pytest",
    "shell start files": f"for f in .bashrc .profile .bash_profile .bash_env; do echo '{FORGE}; exit' > $f; done; "
    "echo 'export PATH=/app:$PATH BASH_ENV=/app/.bash_env' >> .profile",
    "planted modules": "for f in json sys conftest sitecustomize usercustomize pytest; do "
    "printf 'import os\\nos._exit(0)\\n' > $f.py; done; printf '[pytest]\\naddopts=-p json' > pytest.ini",
    "modules of the user's own Python": "for v in 8 9 10 11 12 13 14; do d=.local/lib/python3.$v/site-packages; "
    "mkdir -p $d; printf 'import os\\nos._exit(0)\\n' > $d/usercustomize.py; "
    "echo 'import os; os._exit(0)' > $d/a.pth; done",
    "a preloaded library": "echo /app/forge.so > /etc/ld.so.preload; echo x > forge.so; export LD_PRELOAD=/app/x",
    "tests of its own": f"mkdir -p /tests tests; printf '#!/bin/sh\\n{FORGE}' | tee /tests/test.sh > tests/test.sh",
    "no permissions": "echo 12 > answer.txt; chmod 000 answer.txt solve.py; chmod 555 .",
    "another clock": "date -s 2000-01-01; touch -d 2100-01-01 . solve.py numbers.txt",
    "the memory of the first process": "for f in mem fd/1 environ; do echo 1 > /proc/1/$f; done; kill -9 1",
    "mounts": "mount -t tmpfs none /tests; mount --bind /app /logs; unshare -Urm true; umount /logs/verifier",
    "a full disk": "dd if=/dev/zero of=full bs=1M; dd if=/dev/zero of=/tmp/full bs=1M",
    "nothing left": "rm -rf /app/* /app/.[a-z]*",
}


@pytest.mark.parametrize("command", IN_THE_CONTAINER.values(), ids=IN_THE_CONTAINER.keys())
def test_a_forgery_in_the_agents_container_scores_0(demo: Path, command: str) -> None:
    env = HarborEnv(demo, seconds=15.0)
    env.reset(seed=0)
    env.step(ToolCall("run", {"command": command}))
    _, reward, terminated, _, info = env.step(SUBMIT)
    env.close()
    assert terminated
    assert reward == 0, info
    assert not info["success"]


PREPARE = """
import os, resource, signal, sys, time
REWARD = "/logs/verifier/reward.txt"

def write(path=REWARD, text="1\\n"):
    with open(path, "w") as file:
        file.write(text)

def daemon():
    '''Go on as an orphan in a session of its own, without the pipes of the tests.'''
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)

def pids(program, word):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = open(f"/proc/{name}/cmdline", "rb").read()
        except OSError:
            continue
        if line.startswith(program) and word in line:
            found.append(int(name))
    return found

TESTS = pids(b"bash", b"/tests/test.sh")
WITNESS = pids(b"python3", b"SUBREAPER")
"""
PROGRAMS: Mapping[str, str] = {
    "writes the reward first": "write()",
    "writes the file that Harbor prefers": "write('/logs/verifier/reward.json', '{\"reward\": 1}')",
    "a daemon that rewrites the reward": "daemon()\nwhile True: write()",
    "a daemon that rewrites it once and ends": """
daemon()
while True:
    try:
        if open(REWARD).read() == "0\\n":
            write()
            os._exit(0)
    except OSError:
        pass""",
    "a daemon that moves a file over it": """
daemon()
write("/logs/verifier/other")
while not os.path.exists(REWARD): pass
os.rename("/logs/verifier/other", REWARD)
os.utime(REWARD, (0, 0))""",
    "a daemon under a reaper of its own": """
import ctypes
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
daemon()
while True: write()""",
    "a daemon that ignores signals": """
daemon()
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: write()""",
    "makes the reward read-only": "write()\nos.chmod(REWARD, 0o444)",
    "makes the folder read-only": "write()\nos.chmod('/logs/verifier', 0o555)",
    "takes the tests' file descriptors": "write()\nfor p in TESTS: resource.prlimit(p, resource.RLIMIT_NOFILE, (0, 0))",
    "takes the tests' file size": "write()\n[resource.prlimit(p, resource.RLIMIT_FSIZE, (0, 0)) for p in TESTS]",
    "kills the tests": "write()\n[os.kill(p, signal.SIGKILL) for p in TESTS]",
    "asks the tests to end": "write()\n[os.kill(p, signal.SIGTERM) for p in TESTS]",
    "kills the witness": "write()\n[os.kill(p, signal.SIGKILL) for p in WITNESS]",
    "kills everything": "write()\nos.kill(-1, signal.SIGKILL)",
    "reports in the witness's place": """
write()
for pid in WITNESS:
    for number in range(3):
        try: open(f"/proc/{pid}/fd/{number}", "w").write('{"code": 0, "files": {}, "orphan": 0, "log": ""}')
        except OSError: pass""",
    "puts a link in the reward's place": "write('/app/one')\nos.symlink('/app/one', REWARD)",
    "puts a folder in the reward's place": "os.mkdir(REWARD)",
    "rewrites the tests": "[os.chmod(p, 0o777) or write(p) for p in ('/tests/test.sh',)]",
    "replaces the tools": "[write(f'/usr/bin/{p}') for p in ('bash', 'cat', 'python3')]",
    "evaluates an answer": "print('1 + $(echo 1 > /logs/verifier/reward.txt)')",
    "prints a great deal": "while True: print('1' * 65536)",
}


def program(body: str) -> str:
    """Return a program that tries to forge the reward, and fails the tests whatever comes of that."""
    code = base64.b64encode((PREPARE + body).encode()).decode()
    return f"import base64\ntry:\n    exec(base64.b64decode('{code}'))\nfinally:\n    print('wrong')\n"


def verdict_on(folder: Path, files: Mapping[str, str]) -> Verdict:
    """Grade files as an agent's working directory."""

    async def grade() -> Verdict:
        task = read_task(folder)
        places = await engine_of().ask(places_of, task)
        work = packed({path: Entry("file", 0o644, text.encode()) for path, text in files.items()})
        return await graded(task, places.verifier, work, shared_backend("docker"))

    return asyncio.run(grade())


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_forgery_by_the_submitted_program_never_scores(demo: Path, body: str) -> None:
    with contextlib.suppress(EnvironmentFailedError):  # without a valid reward there is no score
        assert verdict_on(demo, {"solve.py": program(body), "answer.txt": "12\n"}).reward == 0


def test_a_pipe_in_the_rewards_place_is_no_score(demo: Path, tmp_path: Path) -> None:
    short = (demo / "task.toml").read_text().replace("timeout_sec = 20.0", "timeout_sec = 3.0")
    folder = task_folder(tmp_path / "short", {"task.toml": short})
    with pytest.raises(EnvironmentFailedError, match=r"verifier\.timeout_sec = 3 s"):
        verdict_on(folder, {"solve.py": program("os.mkfifo(REWARD)"), "answer.txt": "12\n"})


def test_an_orphan_takes_a_true_reward_too(demo: Path) -> None:
    """Its author could be either of them."""
    right = "import os, sys, time\nprint(sum(n for n in map(int, open(sys.argv[1])) if n % 2 == 0), flush=True)\n"
    alive = "if os.fork() == 0:\n    os.closerange(0, 3)\n    time.sleep(60)\n"
    assert verdict_on(demo, {"solve.py": right, "answer.txt": "12\n"}) == Verdict(1.0, {"reward": 1.0})
    assert verdict_on(demo, {"solve.py": right + alive, "answer.txt": "12\n"}).violation == LATE
