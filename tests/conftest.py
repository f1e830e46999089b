"""Rules for every test: no network, one thread per library, reproducible examples in CI, Ctrl-C works."""

from __future__ import annotations

import gc
import importlib.util
import os
import resource
import signal
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

# Before anything reads them. Two test processes on two cores: a library that starts its own threads only slows both.
os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    TRANSFORMERS_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    MPLBACKEND="Agg",
    COLUMNS="120",
)
os.environ.pop("FORCE_COLOR", None)

import hypothesis
import pytest

from turnwise.envs import registry

from . import seconds
from .shifts import CHOICES, Shifts

for interruption in (signal.SIGINT, signal.SIGHUP):  # ignored where tests run behind nohup or &, and inherited
    if signal.getsignal(interruption) is signal.SIG_IGN:
        signal.signal(interruption, signal.default_int_handler if interruption is signal.SIGINT else signal.SIG_DFL)

if TYPE_CHECKING:
    from turnwise.inference.serving.launch.process import VllmProcess

LOCAL = ("127.", "::1", "localhost", "0.0.0.0")

hypothesis.settings.register_profile(
    "dev", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=60
)
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("dev"), derandomize=True, max_examples=100)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run choose its shift, and write down its seconds."""
    text = "play the core and this shift: a number, the one of the commit, none (core), or all"
    parser.addoption("--shift", choices=CHOICES, default="all", help=text)
    parser.addoption("--seconds", metavar="FILE", help="append the seconds of each test and fixture to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Select by shift, and measure on request."""
    config.pluginmanager.register(Shifts(config.getoption("shift")), "shifts")
    seconds.register(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's name must be the same in every process, or they cannot share the work; without vLLM, none that needs it.

    They are deselected and not skipped: where they run is another environment (``scripts/test-vllm``), not this one.
    """
    for item in items:
        if " at 0x" in item.name:
            raise pytest.UsageError(f"{item.nodeid} is named by an address: give parametrize ids that say what it is")
    if importlib.util.find_spec("vllm") is None:
        elsewhere = [item for item in items if item.get_closest_marker("vllm")]
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the thousands of collected tests out of each later garbage collection: a tenth of a run's processor time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_registrations() -> Iterator[None]:
    """Remove a test's registrations after it: its ids are free for the next."""
    before = dict(registry._entries)
    yield
    registry._entries.clear()
    registry._entries.update(before)


@pytest.fixture(autouse=True)
def own_ctrl_c() -> Iterator[None]:
    """Restore what Ctrl-C does: a command that ends interrupted ignores it from then on, here for all later tests."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Any:
    """Make every connection out of this machine fail at once, with an error that says so."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def check(address: Any) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(LOCAL):
            raise RuntimeError(f"a test tried to reach the network: {address}")

    def guarded(self: socket.socket, address: Any) -> None:
        check(address)
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        check(address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setattr(socket.socket, "connect_ex", guarded_ex)
        yield


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmProcess]:
    """The real vLLM with a nano model, started once for all tests that ask: half a minute.

    It takes weights from files and adapters to rank 8, and counts what it samples; who changes something puts it back.
    Its model is in ``vllm_server.model``: byte tokens, context 512, float32, embeddings not tied.
    """
    from turnwise.inference.models import save_model
    from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
    from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess

    folder, tokenizer = tmp_path_factory.mktemp("vllm"), build_tokenizer("byte")
    shape = NanoConfig(tokenizer="byte", size="0.1M", context_length=512)
    save_model(build_model(shape, tokenizer), tokenizer, folder / "model")
    options = ServerOptions(context_length=512, transfer=FILES, max_rank=8, counts=True)
    with VllmProcess(folder / "model", options, log=folder / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def tied_vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmProcess]:
    """Serve a nano model whose input and output embeddings are tied, for tests in the shift ``vllm: tied``."""
    from turnwise.inference.models import save_model
    from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
    from turnwise.inference.serving.launch.process import FILES, ServerOptions, VllmProcess

    folder, tokenizer = tmp_path_factory.mktemp("tied"), build_tokenizer("byte")
    shape = NanoConfig(tokenizer="byte", size="0.1M", context_length=512, tie_embeddings=True)
    save_model(build_model(shape, tokenizer), tokenizer, folder / "model")
    options = ServerOptions(context_length=512, transfer=FILES)
    with VllmProcess(folder / "model", options, log=folder / "server.log") as server:
        yield server


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file grows beyond 8 KiB: what a full disk does to every library, without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
