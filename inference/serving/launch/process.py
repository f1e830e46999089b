"""Start, monitor and stop a vLLM server on this machine; it never outlives the process that started it."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import pydantic

from ....config import Config
from ....errors import InfrastructureError, UsageError
from ....logs import event
from .installed import installed_version, knows, refuse_version
from .ports import HOST, free_port, in_use

LOG = logging.getLogger(__name__)
FILES = "turnwise_files"
"""Weight-transfer backend of ``worker/turnwise_vllm_worker.py``: safetensors in a folder that both sides see."""
IPC = "ipc"
"""vLLM's backend for a trainer on the same GPU: handles of CUDA memory instead of copies."""
UNCOMPILED = {"TORCHDYNAMO_DISABLE": "1"}
"""Variables that ``eager`` sets in addition to vLLM's own switch, under which vLLM still compiles parts of its sampler:
with a C++ compiler, for up to a minute, while the first requests wait."""
PORT_ATTEMPTS = 3
HERE = Path(__file__).resolve().parent
WORKER = HERE.parent / "worker"
MODULE = "vllm.entrypoints.openai.api_server"  # `vllm serve` of the CPU build cannot find its own version


class ServerOptions(Config):
    """Options of a vLLM server: those that ``RemotePolicy`` and weight transfer need, and few others."""

    name: str = "policy"
    """Name of the base model."""
    port: int = pydantic.Field(default=0, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""
    host: str = HOST
    """Address to listen on; by default, this machine only. Any client that reaches the server can change its weights,
    so open it (e.g. with ``0.0.0.0``) only to a trusted network."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """Type of weights and activations; if it differs from the trainer's, so do the log-probabilities."""
    context_length: int = pydantic.Field(default=1024, ge=2)
    """Maximum tokens of prompt plus action."""
    max_seqs: int = pydantic.Field(default=64, ge=1)
    """Maximum number of requests that are decoded together; more wait."""
    batched_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Tokens of one step (default: enough that no prompt is read in parts, because vLLM 0.32 then dies on a CPU if
    requests have seeds, as Turnwise's do: "CPU Generator does not use offset"). On a GPU, 8192 saves memory."""
    kv_megabytes: int | None = pydantic.Field(default=None, ge=1)
    """Memory for cached keys and values, in megabytes (default: 100, or what is left of ``memory_share``)."""
    memory_share: float | None = pydantic.Field(default=None, gt=0, lt=1)
    """Share of a GPU's memory for weights, activations, keys and values; all shares on a GPU add up to less than 1."""
    block: int | None = pydantic.Field(default=None, ge=1)
    """Tokens per block of the cache; prefixes are shared in whole blocks (default: vLLM's own, 128 on a CPU, where
    multiples of 32 work)."""
    transfer: str | None = None
    """Backend of native weight transfer: ``turnwise_files``, or one of vLLM's own on GPUs: ``nccl``, or ``ipc`` on the
    learner's GPU."""
    sleep: bool = False
    """Let it free its GPU's memory between two steps (``server.sleep`` of a run); vLLM can do this on GPUs only."""
    max_rank: int = pydantic.Field(default=0, ge=0)
    """Largest rank of LoRA adapters, which can be loaded and unloaded while it runs; 0 disables adapters."""
    max_adapters: int = pydantic.Field(default=2, ge=1)
    """Maximum number of loaded adapters; two, so that the old one serves while the new one is loaded."""
    eager: bool = True
    """Start at once, without compiling; on a GPU ``false`` is faster later."""
    threads: int = pydantic.Field(default=1, ge=1)
    """OpenMP threads on a CPU; more threads than idle cores are very much slower."""
    seed: int = 0
    """Seed of requests that have none."""
    counts: bool = False
    """Count requests and tokens in ``/metrics``, for dashboards; costs a little in every step."""
    extra: tuple[str, ...] = ()
    """More arguments of vLLM, as on its command line; the last one wins."""
    environment: dict[str, str] = pydantic.Field(default_factory=dict)
    """More environment variables; they take precedence over all others."""

    @property
    def most_tokens(self) -> int:
        """Tokens of one step."""
        return self.batched_tokens or self.max_seqs * self.context_length

    @property
    def cache_megabytes(self) -> int | None:
        """Memory for cached keys and values, in megabytes; ``None`` for what is left of ``memory_share``."""
        return self.kv_megabytes or (100 if self.memory_share is None else None)

    def command(self, model: Path | str, port: int, version: tuple[int, int] | None = None) -> list[str]:
        """Return the arguments of vLLM's server, for a version of it (default: the newest)."""
        words = ["-m", MODULE, "--model", str(model), "--served-model-name", self.name]
        words += ["--host", self.host, "--port", str(port), "--dtype", self.dtype, "--seed", str(self.seed)]
        words += ["--max-model-len", str(self.context_length), "--max-num-seqs", str(self.max_seqs)]
        words += ["--max-num-batched-tokens", str(self.most_tokens)]
        share, megabytes = self.memory_share, self.cache_megabytes
        words += [] if share is None else ["--gpu-memory-utilization", f"{share:g}"]
        words += [] if megabytes is None else ["--kv-cache-memory-bytes", f"{megabytes}M"]
        words += ["--enable-scale-out"] if knows("--enable-scale-out", version) else []
        # By default vLLM returns log-probabilities before the temperature is applied.
        words += ["--logprobs-mode", "processed_logprobs"]
        words += ["--generation-config", "vllm"]  # the model's own would filter (top-p) silently
        words += ["--disable-uvicorn-access-log", "--enable-prompt-tokens-details"]
        if not self.counts:
            words.append("--disable-log-stats")
        words += ["--block-size", str(self.block)] if self.block else []
        words += ["--enforce-eager"] if self.eager else []
        words += ["--enable-sleep-mode"] if self.sleep else []
        if self.max_rank:
            words += ["--enable-lora", "--max-lora-rank", str(self.max_rank)]
            words += ["--max-loras", str(self.max_adapters), "--max-cpu-loras", str(self.max_adapters)]
        if self.transfer:
            words += ["--weight-transfer-config", json.dumps({"backend": self.transfer})]
        if self.transfer == FILES:
            words += ["--worker-extension-cls", "turnwise_vllm_worker.Reporting"]
        return [*words, *self.extra]

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of the server.

        Args:
            inherited: variables of this process, usually ``os.environ``.
        """
        path = [str(WORKER), *filter(None, [inherited.get("PYTHONPATH", "")])]
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(path),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_SERVER_DEV_MODE": "1",  # pausing, cache reset and weight transfer are behind it
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "OMP_NUM_THREADS": str(self.threads),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # bound, two servers share one core
            # Run the model in the engine's process. In a separate one, vLLM's default on a CPU, each of the two spins
            # for a second after every message: the same requests then cost two to three times the CPU time.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            # Handles of memory on the same GPU travel pickled, which vLLM reads with this permission only.
            **({"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"} if self.transfer == IPC else {}),
            **(UNCOMPILED if self.eager else {}),
            **self.environment,
        }


class VllmProcess:
    """A vLLM server as a child process; a context manager that starts and stops it.

    A watchdog (``watchdog.py``) stops the server when this object stops it, and also when this process is killed.

    ::

        with VllmProcess("runs/bc/model", ServerOptions(transfer=FILES)) as server:
            client = ServerClient(server.url)

    Args:
        model: folder of a model.
        options: options of the server.
        python: interpreter that has vLLM; this one by default.
        log: file for its output; by default one that ``stop`` removes, and that remains if the server does not start.
        patience: seconds to become healthy.
        grace: seconds to stop by itself; after that it is killed.

    Raises:
        UsageError: there is no model in that folder.
    """

    def __init__(
        self,
        model: Path | str,
        options: ServerOptions | None = None,
        *,
        python: Path | str | None = None,
        log: Path | str | None = None,
        patience: float = 300.0,
        grace: float = 15.0,
    ) -> None:
        self.model = Path(model).expanduser().resolve()
        if not (self.model / "config.json").is_file():
            raise UsageError(f"cannot serve {model}: it has no config.json; name the folder of a model")
        self.options = options or ServerOptions()
        self.python = str(python or sys.executable)
        self._version = installed_version(self.python)
        self.patience = patience
        self.grace = grace
        self.port = self.options.port
        everywhere = self.options.host in ("0.0.0.0", "::", "localhost")
        self._reached = HOST if everywhere else self.options.host
        self.log = None if log is None else Path(log)
        self._owns_log = log is None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._started = False

    @property
    def url(self) -> str:
        """Base URL of the server."""
        return f"http://{self._reached}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the process is running; it may still be starting."""
        return self._watchdog is not None and self._watchdog.poll() is None

    def start(self) -> Self:
        """Start it and wait until it is healthy; after ``kill``, at the same address again.

        Raises:
            InfrastructureError: it ended or was not healthy in time; the message has the end of its log.
            UsageError: the port is in use, or Turnwise does not support this vLLM.
        """
        if self.running:
            return self
        refuse_version(self._version, self.python)
        if self.options.port and in_use(self.options.port, self.options.host):
            raise UsageError(
                f"port {self.options.port} is already in use, perhaps by another server; choose another, or 0 for any"
            )
        for attempt in range(PORT_ATTEMPTS):
            self.port = self.options.port or (self.port if attempt == 0 else 0) or free_port()
            self._spawn()
            try:
                trouble = self._wait_until_healthy()
            except BaseException:
                self.kill()
                raise
            if trouble is None:
                kind = "restart" if self._started else "start"
                event(LOG, kind, f"the vLLM server for {self.model} answers at {self.url}", {"server": self.url})
                self._started = True
                return self
            self.kill()
            log = self._read_log()
            if "address already in use" not in log.lower() or self.options.port or attempt + 1 == PORT_ATTEMPTS:
                raise InfrastructureError(
                    f"the vLLM server for {self.model} {trouble}{_cause(log)}; the end of its log ({self.log}):\n"
                    + self.tail()
                )
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stop(self) -> None:
        """Ask it and its children to stop, and kill them after a while; does nothing if it is not running."""
        if self._watchdog is None:
            return
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        try:
            self._watchdog.wait(self.grace + 5)
        except subprocess.TimeoutExpired:
            self.kill()
        self._watchdog = None
        if self._owns_log and self.log is not None:
            self.log.unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill it at once, like a crash; ``start`` starts it again."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None:
            return
        with contextlib.suppress(ProcessLookupError):
            watchdog.terminate()
        watchdog.wait()
        if watchdog.stdin is not None:
            watchdog.stdin.close()

    def tail(self, lines: int = 25) -> str:
        """Return the end of its log."""
        return "\n".join(self._read_log().splitlines()[-lines:])

    def _read_log(self) -> str:
        try:
            return self.log.read_text(encoding="utf-8", errors="replace") if self.log else ""
        except OSError:
            return ""

    def _spawn(self) -> None:
        command = [self.python, *self.options.command(self.model, self.port, self._version)]
        watchdog = [sys.executable, "-I", "-S", str(HERE / "watchdog.py"), str(self.grace), *command]
        if self.log is None:
            handle, name = tempfile.mkstemp(prefix="turnwise-vllm-", suffix=".log")
            os.close(handle)
            self.log = Path(name)
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("wb") as log:
                self._watchdog = subprocess.Popen(
                    watchdog,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.options.variables(os.environ),
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(f"cannot start the vLLM server for {self.model}: {error}") from None

    def _wait_until_healthy(self) -> str | None:
        """Wait until it is healthy; otherwise return what is wrong."""
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            if not self.running:  # it ended, or another thread killed it
                code = self._watchdog.returncode if self._watchdog else None
                return f"ended while starting (exit code {code})"
            if healthy(self.port, self._reached):
                return None
            time.sleep(0.2)
        return f"was not healthy after {self.patience:.0f} s"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def healthy(port: int, host: str = HOST, timeout: float = 5.0) -> bool:
    """Return whether a server at this port reports that it is healthy."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _cause(log: str) -> str:
    """Return the first exception in a log; the last comes from another process and only reports that one failed."""
    found = re.search(r"\b(\w*(?:Error|Exception): .+)", log)
    return f" ({found[1].strip()})" if found else ""
