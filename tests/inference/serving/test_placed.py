"""A replica that a cluster places: it moves, joins late, is brought files, and never samples from old weights."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnwise import Sampling
from turnwise.errors import InfrastructureError, PolicyServerError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.serving.launch.host import HostState, HostStatus, Listing
from turnwise.inference.serving.launch.receiver import MODEL, Receiver
from turnwise.inference.serving.placed import PlacedServer
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.weights.adapter import Adapter
from turnwise.trainers.weights.canary_prompts import Questions
from turnwise.trainers.weights.reload import Reload
from turnwise.trainers.weights.replicas import Replicas
from turnwise.trainers.weights.shared_folder import SharedFolder
from turnwise.trainers.weights.vllm_transfer import Files, Native
from turnwise.trainers.weights.weight_sync import WeightSync

from ...trainers.weights.fake import nudge
from .fake_server import FakeServer
from .helpers import eventually

PROMPT = tuple(range(5, 25))
NOWHERE = {"path": "nowhere", "digest": ""}


class FakeHost:
    """A host whose machine and server a test moves.

    Args:
        server: the server, if it is up.
        receiver: receiver of its machine.
        sees: whether it sees the driver's files.
    """

    def __init__(self, server: FakeServer | None, receiver: Receiver, *, sees: bool) -> None:
        self.server, self.receiver, self.sees = server, receiver, sees
        self.state = HostState.READY
        self.asked: list[tuple[str, str]] = []

    async def status(self) -> HostStatus:
        if self.server is None and self.state is HostState.READY:
            raise InfrastructureError("its host has no place on the cluster yet, or does not answer")
        url = self.server.url if self.server is not None else ""
        return HostStatus(self.state, "", url, self.receiver.url, self.receiver.key, "there", 1, 1, 0, "0")

    async def find(self, folder: str, entry: str, listing: Listing) -> str:
        self.asked.append((folder, entry))
        if folder and self.sees:
            return folder
        found = self.receiver.entry(entry)
        return str(found) if found is not None else ""


class Cluster:
    """A learner, and replicas on machines of their own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.tokenizer = build_tokenizer("byte")
        shape = NanoConfig(tokenizer="byte", size="0.1M", layers=1, hidden=32, context_length=128)
        self.model = build_model(shape, self.tokenizer)
        self.initial = copy.deepcopy(self.model)
        self.hosts: list[FakeHost] = []
        self.servers: list[PlacedServer] = []

    def server(self) -> FakeServer:
        return self.stack.enter_context(FakeServer(self.initial, self.tokenizer))

    def add(self, server: FakeServer | None, *, sees: bool = True, push: bool = False) -> FakeHost:
        number = len(self.hosts)
        receiver = Receiver(self.folder / f"machine-{number}", "127.0.0.1", f"key-{number}")
        self.stack.callback(receiver.close)
        host = FakeHost(server, receiver, sees=sees)
        self.hosts.append(host)
        self.servers.append(PlacedServer(f"replica-{number}", host, self.folder / "model", push=push, timeout=60.0))
        return host

    def weights(self, how: str = "native", *, refresh: bool = False) -> WeightSync:
        self.policy = RemotePolicy(self.servers, patience=20.0, request_timeout=60.0, backoff=0.01)
        late: dict[Any, str] = {
            each: "no room" for each, host in zip(self.servers, self.hosts, strict=True) if host.server is None
        }
        self.policy.expect(late)
        exchange = SharedFolder(self.folder / "exchange")
        transport: Replicas
        if how == "adapter":
            self.model = attach(self.model, LoraConfig(rank=2))
            transport = Adapter(self.policy, exchange, self.model, rank=2, base=NOWHERE)
        elif how == "reload":
            transport = Reload(self.policy, exchange)
        else:
            transport = Native(self.policy, Files(exchange, keep=refresh))
        questions = Questions.of(self.tokenizer, context_length=128, temperature=0.7, dtypes=["float32"])
        sync = WeightSync(self.policy, transport, self.model, questions, refresh=refresh)
        self.sync = sync
        return sync

    async def located(self) -> None:
        for server, host in zip(self.servers, self.hosts, strict=True):
            if host.server is not None:
                await server.status()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
async def closing(cluster: Cluster) -> AsyncIterator[None]:
    yield
    await cluster.sync.close()
    await cluster.policy.close()


pytestmark = pytest.mark.usefixtures("closing")


async def sample(cluster: Cluster, count: int = 8, *, first: int = 0) -> list[Any]:
    asked, sessions = Sampling(max_tokens=4, seed=1), range(first, first + count)
    return await asyncio.gather(*(cluster.policy.generate(PROMPT, asked, session=str(each)) for each in sessions))


@pytest.mark.parametrize("how", ["native", "reload"])
async def test_weights_reach_a_machine_that_sees_nothing(cluster: Cluster, how: str) -> None:
    cluster.add(cluster.server())
    blind = cluster.add(cluster.server(), sees=False)
    sync = cluster.weights(how)
    await cluster.located()
    for version in range(2):
        await sync.send(version)  # the canary of each replica
        assert sync.metrics["sync/replicas"] == 2
        nudge(cluster.model, seed=version)
    assert [server.pushed for server in cluster.servers] == [0, 2], (
        "only the machine that sees no files needs them sent"
    )
    path = "/update_weights" if how == "native" else "/collective_rpc"
    assert blind.server is not None
    assert all(str(blind.receiver.folder) in str(body) for body in blind.server.calls(path) if "path" in str(body))


async def test_push_sends_files_also_where_they_are_seen(cluster: Cluster) -> None:
    cluster.add(cluster.server(), push=True)
    sync = cluster.weights()
    await cluster.located()
    await sync.send(0)
    assert cluster.servers[0].pushed == 1
    assert all(not folder for folder, _ in cluster.hosts[0].asked)


async def test_a_replica_that_joins_late_samples_only_after_it_has_the_weights(cluster: Cluster) -> None:
    cluster.add(cluster.server())
    late = cluster.add(None, sees=False)
    sync = cluster.weights()
    await cluster.located()
    await sync.send(1)
    assert sync.metrics["sync/replicas"] == 1
    await sample(cluster)
    late.server = server = cluster.server()
    assert {version for each in await sample(cluster, 16) for version in each.versions} == {1}
    prompts = [body for body in server.calls("/inference/v1/generate") if body["token_ids"] == list(PROMPT)]
    assert not prompts, "it sampled with the weights that it was started with"
    nudge(cluster.model)
    await sync.send(2)
    assert sync.metrics["sync/replicas"] == 2
    assert {version for each in await sample(cluster, 16) for version in each.versions} == {2}
    assert any(body["token_ids"] == list(PROMPT) for body in server.calls("/inference/v1/generate"))


async def test_a_replica_that_moves_loses_no_request_and_waits_for_weights(cluster: Cluster) -> None:
    cluster.add(cluster.server())
    moving = cluster.add(cluster.server())
    sync = cluster.weights()
    await cluster.located()
    await sync.send(1)
    before = moving.server
    assert before is not None
    before.delay = 0.5
    under_load = asyncio.create_task(sample(cluster, 12))
    await eventually(lambda: before.at_once > 0)
    before.kill()
    moving.server = cluster.server()
    assert {version for each in await under_load for version in each.versions} == {1}
    nudge(cluster.model)
    await sync.send(2)
    assert cluster.servers[1].address == "replica-1", "its name must survive the move"
    assert sync.metrics["sync/replicas"] == 2
    assert {version for each in await sample(cluster, 12) for version in each.versions} == {2}


async def synced(cluster: Cluster, how: str = "native") -> WeightSync:
    """Send version 1 of the weights; from then on, servers that join late are brought up to date."""
    sync = cluster.weights(how, refresh=True)
    await cluster.located()
    nudge(cluster.model)
    await sync.send(1)
    return sync


async def version_of(cluster: Cluster, number: int) -> None:
    """Sample until a replica takes part; all tokens must have the present version."""
    host = cluster.hosts[number]
    assert host.server is not None
    for again in range(100):  # further sessions each time, as of further episodes
        assert {version for each in await sample(cluster, first=8 * again) for version in each.versions} == {
            cluster.policy.version
        }
        if any(body["token_ids"] == list(PROMPT) for body in host.server.calls("/inference/v1/generate")):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"replica-{number} never took part: {cluster.policy._replicas.causes}")


@pytest.mark.parametrize("how", ["native", "reload", "adapter"])
async def test_a_replica_that_joins_between_two_transfers_is_brought_up_to_date(cluster: Cluster, how: str) -> None:
    cluster.add(cluster.server())
    late = cluster.add(None, sees=False)
    sync = await synced(cluster, how)
    nudge(cluster.model, seed=7)  # the learner goes on: its model cannot judge the late replica any more
    late.server = cluster.server()
    await version_of(cluster, 1)
    assert cluster.servers[1].pushed == 1, "the weights reached a machine that does not see them"
    same = [(await sample(cluster, 1))[0].logprobs for _ in range(2)]
    assert same[0] == same[1]
    await sync.send(2)
    assert sync.metrics["sync/replicas"] == 2
    assert {version for each in await sample(cluster, 16) for version in each.versions} == {2}


@pytest.mark.parametrize("how", ["native", "reload", "adapter"])
async def test_a_run_whose_servers_all_restart_between_two_transfers_goes_on(cluster: Cluster, how: str) -> None:
    for _ in range(2):
        cluster.add(cluster.server())
    await synced(cluster, how)
    before = (await sample(cluster, 1))[0]
    for host in cluster.hosts:
        assert host.server is not None
        host.server.kill()
        host.server = cluster.server()
    after = (await sample(cluster, 1))[0]
    assert (after.token_ids, after.versions) == (before.token_ids, before.versions)
    assert after.logprobs == pytest.approx(before.logprobs, abs=1e-5), (
        "it samples with the weights of the last transfer"
    )


async def test_a_server_is_resumed_after_a_refresh_that_failed_and_serves_after_the_next(cluster: Cluster) -> None:
    cluster.add(cluster.server())
    late = cluster.add(None)
    sync = await synced(cluster)
    give, tries = sync.transport.give, 0  # type: ignore[union-attr]

    async def failing(server: Any, version: int) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise InfrastructureError("a blip")
        await give(server, version)

    sync.transport.give = failing  # type: ignore[union-attr]
    late.server = cluster.server()
    await version_of(cluster, 1)
    assert tries == 2


async def test_a_server_without_a_start_time_gets_no_weights_between_transfers(cluster: Cluster) -> None:
    """Only the time of its start shows that the process which proved the weights is the one that samples with them."""
    for _ in range(2):
        cluster.add(cluster.server())
    await synced(cluster)
    replica = cluster.policy._replicas.members[1]
    probe = replica.server.probe

    async def timeless() -> Any:
        return replace(await probe(), started=None)

    replica.server.probe = timeless  # type: ignore[method-assign]
    replica.stale = True
    replicas = cluster.policy._replicas
    replicas.enter_loop()
    assert replicas.refresh is not None
    await replicas._refreshed(replica, replicas.refresh)
    assert replica.stale
    assert "restarted" in replica.cause


async def test_a_replica_that_refuses_the_weights_waits_for_the_next_transfer(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.add(cluster.server())
    sync = await synced(cluster)
    host = cluster.hosts[1]
    assert host.server is not None
    host.server.kill()
    host.server = server = cluster.server()
    server.sabotage.add("ignores updates")
    replica = cluster.policy._replicas.members[1]
    for again in range(100):
        assert {version for each in await sample(cluster, first=8 * again) for version in each.versions} == {1}
        if replica.refused:
            break
        await asyncio.sleep(0.02)
    assert replica.refused, (replica.cause, replica.stale, replica.down, replica.refreshing)
    tried = len(server.calls("/start_weight_update"))
    await sample(cluster, 16)
    assert len(server.calls("/start_weight_update")) == tried, "it is not asked again before the next transfer"
    assert not any(body["token_ids"] == list(PROMPT) for body in server.calls("/inference/v1/generate"))
    server.sabotage.clear()
    nudge(cluster.model)
    await sync.send(2)
    assert sync.metrics["sync/replicas"] == 2


@pytest.mark.parametrize(("size", "honest"), [(3e-6, False), (3e-6, True), (0.05, False)])
async def test_a_replica_with_the_weights_of_the_former_version_is_refused(
    cluster: Cluster, size: float, honest: bool
) -> None:
    """Also if the last step was far smaller than the noise that is allowed between a server and the learner."""
    for _ in range(2):
        cluster.add(cluster.server())
    sync = await synced(cluster)
    former = copy.deepcopy(cluster.model)
    nudge(cluster.model, size, seed=3)
    await sync.send(2)
    host, replica = cluster.hosts[1], cluster.policy._replicas.members[1]
    assert host.server is not None
    host.server.kill()
    host.server = server = cluster.stack.enter_context(FakeServer(former, cluster.tokenizer))
    if honest:
        await version_of(cluster, 1)
        return
    server.sabotage.add("ignores updates")  # and names the new version
    for again in range(100):
        assert {version for each in await sample(cluster, first=8 * again) for version in each.versions} == {2}
        if replica.refused:
            break
        await asyncio.sleep(0.02)
    assert replica.refused, (replica.cause, replica.stale)
    assert ("earlier version" in replica.cause) == (size < 0.01), replica.cause
    assert not any(body["token_ids"] == list(PROMPT) for body in server.calls("/inference/v1/generate"))


async def test_a_transfer_does_not_wait_for_a_replica_that_is_being_refreshed(cluster: Cluster) -> None:
    cluster.add(cluster.server())
    late = cluster.add(None)
    sync = await synced(cluster)
    started = asyncio.Event()
    give = sync.transport.refresh  # type: ignore[union-attr]

    async def slow(server: Any, version: int) -> None:
        started.set()
        await asyncio.sleep(3600)
        await give(server, version)

    sync.transport.refresh = slow  # type: ignore[union-attr, method-assign]
    late.server = cluster.server()
    async with asyncio.timeout(60):
        while not started.is_set():
            await sample(cluster)
        nudge(cluster.model)
        await sync.send(2)
    assert sync.metrics["sync/replicas"] == 2, "the transfer itself brings it up to date"
    assert {version for each in await sample(cluster, 16) for version in each.versions} == {2}


async def test_a_machine_that_lacks_the_model_is_sent_it_in_the_background(cluster: Cluster) -> None:
    from turnwise.inference.models import save_model

    cluster.add(cluster.server())
    cluster.weights()
    save_model(cluster.model, cluster.tokenizer, cluster.folder / "model")
    host = cluster.add(None, sees=False)
    host.state = HostState.LACKS_MODEL
    for _ in range(2):  # a second look does not send it twice
        with pytest.raises(InfrastructureError, match="lacks the model"):
            await cluster.servers[1].probe()
    await eventually(lambda: host.receiver.entry(MODEL) is not None)
    assert cluster.servers[1].pushed <= 1
    await cluster.servers[1].close()


async def test_without_any_replica_the_reason_is_named(cluster: Cluster) -> None:
    cluster.add(cluster.server())
    sync = cluster.weights()
    cluster.policy.limits = cluster.policy._replicas.limits = type(cluster.policy.limits)(60.0, 0.3)
    await cluster.located()
    await sync.send(1)
    host = cluster.hosts[0]
    assert host.server is not None
    host.server.kill()
    host.server = None
    with pytest.raises((InfrastructureError, PolicyServerError), match=r"replica-0|no place on the cluster"):
        await sample(cluster, 1)
