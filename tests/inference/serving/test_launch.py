"""A started server is stopped: by the process that started it, or together with it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest

from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.serving.launch.ports import HOST
from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess, healthy

STAND_IN = """\
import http.server, os, pathlib, signal, subprocess, sys, time
words, mode, notes = sys.argv[1:], os.environ["MODE"], pathlib.Path(os.environ["NOTES"])
port = int(words[words.index("--port") + 1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with notes.open("a") as file:
    print(os.getpid(), child.pid, port, file=file)
if mode == "dies":
    print("(Worker) ValueError: head_dim 7 is not supported", *80 * ["  at"], "RuntimeError: see above", sep="\\n")
    sys.exit(3)
if mode == "port" and len(notes.read_text().splitlines()) == 1:
    print("OSError: [Errno 98] Address already in use", flush=True)
    sys.exit(1)
if mode == "hangs":
    time.sleep(600)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass

http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""
"""The behavior of vLLM's server at start and stop, with a child of its own."""


class Bench:
    """A folder with a model, an interpreter that runs the stand-in, and what this noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{}")
        (folder / "stand_in.py").write_text(STAND_IN)
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/stand_in.py "$@"\n')
        self.python.chmod(0o755)
        self.notes = folder / "notes"

    def process(self, mode: str, port: int = 0, patience: float = 60.0, grace: float = 0.5) -> VllmProcess:
        options = ServerOptions(port=port, environment={"MODE": mode, "NOTES": str(self.notes)})
        log = self.folder / "log"
        return VllmProcess(self.folder / "model", options, python=self.python, log=log, patience=patience, grace=grace)

    def started(self) -> list[tuple[int, int, int]]:
        """Process, its child and port of every start."""
        found: list[tuple[int, int, int]] = []
        if not self.notes.exists():  # on a busy machine it was killed before it could note anything
            return found
        for line in self.notes.read_text().splitlines():
            process, child, port = map(int, line.split())
            found.append((process, child, port))
        return found

    def all_gone(self) -> bool:
        return not any(alive(pid) for process, child, _ in self.started() for pid in (process, child))


def alive(pid: int) -> bool:
    """Whether it runs; a zombie, which this process cannot reap, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_it_is_healthy_when_start_returns_and_gone_with_its_children_when_stop_does(bench: Bench) -> None:
    with bench.process("well") as server:
        assert healthy(server.port)
        assert server.url == f"http://{HOST}:{bench.started()[0][2]}", "it must be told the port it is asked at"
    assert not healthy(server.port)
    assert eventually(bench.all_gone), "a child of the server was left behind"


def test_a_server_that_will_not_stop_is_made_to(bench: Bench) -> None:
    with bench.process("stubborn"):
        assert not bench.all_gone()
    assert eventually(bench.all_gone)


def test_stop_is_safe_to_call_at_any_time(bench: Bench) -> None:
    server = bench.process("well")
    server.stop()
    server.start()
    server.stop()
    server.stop()
    server.kill()
    assert eventually(bench.all_gone)


def test_kill_is_a_crash_and_it_can_be_started_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="turnwise")
    with bench.process("stubborn") as server:
        server.kill()
        assert not healthy(server.port)
        assert eventually(bench.all_gone), "a crash takes the children along"
        server.start()
        assert healthy(server.port)
        assert len(bench.started()) == 2
        assert len({port for _, _, port in bench.started()}) == 1, "its clients know its address"
    assert [getattr(record, "event", "") for record in caplog.records] == ["start", "restart"]
    assert eventually(bench.all_gone)


def test_without_a_name_the_log_goes_when_it_stops_and_stays_when_it_fails(bench: Bench) -> None:
    options = ServerOptions(environment={"MODE": "well", "NOTES": str(bench.notes)})
    with VllmProcess(bench.folder / "model", options, python=bench.python, grace=0.5) as server:
        log = server.log
        assert log is not None
        assert log.exists()
    assert not log.exists()
    options = ServerOptions(environment={"MODE": "dies", "NOTES": str(bench.notes)})
    failing = VllmProcess(bench.folder / "model", options, python=bench.python)
    with pytest.raises(InfrastructureError) as caught:
        failing.start()
    assert failing.log is not None
    assert str(failing.log) in str(caught.value)
    assert "head_dim 7" in failing.log.read_text()
    failing.log.unlink()


def test_starting_twice_starts_once(bench: Bench) -> None:
    with bench.process("well") as server:
        server.start()
        assert len(bench.started()) == 1


def test_why_it_ended_while_starting_is_in_the_error(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match=r"(?s)exit code 3.*head_dim 7 is not supported.*see above"):
        bench.process("dies").start()
    assert eventually(bench.all_gone), "what it had started must not stay"


def test_a_server_that_never_gets_well_is_given_up(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match="was not healthy after 1 s"):
        bench.process("hangs", patience=1.0).start()
    assert eventually(bench.all_gone)


def test_a_port_lost_to_somebody_else_is_replaced(bench: Bench) -> None:
    with bench.process("port") as server:
        assert len(bench.started()) == 2
        assert server.port == bench.started()[1][2]


def test_whoever_is_at_a_port_already_is_not_taken_for_the_server(bench: Bench) -> None:
    with bench.process("well") as other:
        with pytest.raises(UsageError, match=f"port {other.port} is already in use"):
            bench.process("well", port=other.port).start()
        assert len(bench.started()) == 1
        assert healthy(other.port)
    with socket.create_server((HOST, 0)) as silent, pytest.raises(UsageError, match="is already in use"):
        bench.process("well", port=silent.getsockname()[1]).start()


def test_a_port_that_was_asked_for_is_not_replaced(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match="Address already in use"):
        bench.process("port", port=1).start()
    assert len(bench.started()) == 1


PARENT = """\
import sys, threading, time
from turnwise.inference.serving.launch.process import ServerOptions, VllmProcess
model, python, notes, mode = sys.argv[1:]
options = ServerOptions(environment={"MODE": mode, "NOTES": notes})
server = VllmProcess(model, options, python=python, grace=0.5)
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
assert server.running
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["well", "stubborn"])
def test_nothing_outlives_a_parent_that_is_killed(bench: Bench, mode: str) -> None:
    words = [sys.executable, "-c", PARENT, str(bench.folder / "model"), str(bench.python), str(bench.notes), mode]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n", "a server started in a thread that has ended must still be there"
        assert not bench.all_gone()
        parent.send_signal(signal.SIGKILL)
    assert eventually(bench.all_gone), "the server outlived the process that started it"


def test_a_watchdog_that_is_killed_takes_the_server_along(bench: Bench) -> None:
    with bench.process("well"):
        process = bench.started()[0][0]
        watchdog = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(watchdog, signal.SIGKILL)
        assert eventually(lambda: not alive(process))
        os.kill(bench.started()[0][1], signal.SIGKILL)


def test_what_is_no_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        VllmProcess(tmp_path)


def test_an_interpreter_that_is_not_there_is_named(bench: Bench) -> None:
    server = VllmProcess(bench.folder / "model", python="/nowhere/python", log=bench.folder / "log")
    with pytest.raises(InfrastructureError, match="/nowhere/python"):
        server.start()


def test_options_become_arguments() -> None:
    words = ServerOptions(transfer=FILES, max_rank=8, context_length=77, extra=("--dtype", "bfloat16")).command("m", 5)
    assert words[words.index("--max-model-len") + 1] == "77"
    assert words[words.index("--logprobs-mode") + 1] == "processed_logprobs", "recorded is what was sampled from"
    assert words[words.index("--generation-config") + 1] == "vllm", "the model's own would bring in top-p"
    assert words[words.index("--max-lora-rank") + 1] == "8"
    assert "turnwise_files" in words[words.index("--weight-transfer-config") + 1]
    small = ServerOptions(block=32).command("m", 5)
    assert small[small.index("--block-size") + 1] == "32"
    assert words[-2:] == ["--dtype", "bfloat16"], "more arguments come last and win"
    plain = ServerOptions().command("m", 5)
    assert not {"--enable-lora", "--weight-transfer-config", "--worker-extension-cls"} & set(plain)
    assert "--worker-extension-cls" not in ServerOptions(transfer="nccl").command("m", 5), "vLLM's own needs none"


def test_the_servers_environment() -> None:
    found = ServerOptions(environment={"OMP_NUM_THREADS": "7"}).variables({"PYTHONPATH": "/mine", "HOME": "/h"})
    assert found["OMP_NUM_THREADS"] == "7", "what is asked for wins"
    worker, mine = found["PYTHONPATH"].split(os.pathsep)
    assert (Path(worker) / "turnwise_vllm_worker.py").is_file()
    assert (mine, found["HOME"]) == ("/mine", "/h"), "what was there stays"
    assert found["VLLM_NO_USAGE_STATS"] == "1"
    assert found["TORCHDYNAMO_DISABLE"] == "1", "eager means that the sampler is not compiled either"
    assert "TORCHDYNAMO_DISABLE" not in ServerOptions(eager=False).variables({})


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(pydantic.ValidationError):
        ServerOptions.model_validate({"colour": "blue"})


@pytest.mark.slow
def test_importing_it_imports_no_model_library() -> None:
    program = "import sys, turnwise.inference.serving.launch.process; print({'torch', 'vllm'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
