"""A policy on several servers: the contract of a policy, sessions, failures, and weights that change meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import ContractError, InfrastructureError, PromptTooLongError, UsageError
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.inference.policy_checks import PolicyContract, Subject
from turnwise.inference.serving import remote_policy
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.limits import TimeLimits
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Pause, adapter_host, pausable, weight_receiver

from .conftest import CONTEXT
from .fake_server import FakeServer
from .helpers import adapter, eventually, merged, scores

Serve = Callable[..., FakeServer]
PROMPT = [3, 1, 4, 1, 5]
LONG = Sampling(max_tokens=100, seed=3)


def policy_of(*servers: FakeServer, **settings: Any) -> RemotePolicy:
    settings = {"patience": 60.0, "backoff": 0.01, **settings}
    return RemotePolicy([ServerClient(server.url) for server in servers], **settings)


def prompts(count: int = 5, longest: int = 30) -> list[list[int]]:
    rng = random.Random(4)
    return [[rng.randrange(256) for _ in range(rng.randint(2, longest))] for _ in range(count)]


class TestContract(PolicyContract):
    @pytest.fixture(autouse=True)
    def _over(self, standing: FakeServer, models: list[Any]) -> None:
        self.url, self.score = standing.url, scores(models[0])

    def subject(self) -> Subject:
        return Subject(RemotePolicy([ServerClient(self.url)]), prompts(), CONTEXT, self.score, tolerance=1e-4)


class TestContractWithoutTheNativeRoute(PolicyContract):
    @pytest.fixture(autouse=True)
    def _over(self, serve: Serve, models: list[Any]) -> None:
        self.url, self.score = serve(native=False, development=False, version="0.27.1").url, scores(models[0])

    def subject(self) -> Subject:
        return Subject(RemotePolicy([ServerClient(self.url)]), prompts(3), CONTEXT, self.score, tolerance=1e-4)


NUMBERS, STOP = "log_probabilities_are_those_of_the_distribution_sampled", "the_stop_id_is_kept"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sabotage", "law"),
    [
        ("wrong log-probabilities", NUMBERS),
        ("noisy log-probabilities", NUMBERS),
        ("retokenizes silently", NUMBERS),
        ("strips the stop", STOP),
    ],
)
async def test_what_only_a_forward_pass_can_tell_breaks_a_law(
    fake: FakeServer, models: list[Any], sabotage: str, law: str
) -> None:
    policy = policy_of(fake)
    drifting = [[97, 98, 99, 97, 98], [97, 97, 97, 97, 98, 99]]

    class Contract(PolicyContract):
        def subject(self) -> Subject:
            return Subject(policy, drifting, CONTEXT, scores(models[0]), tolerance=1e-3)

    await getattr(Contract(), f"test_{law}")()
    fake.sabotage.add(sabotage)
    with pytest.raises((AssertionError, InfrastructureError, UsageError)):
        await getattr(Contract(), f"test_{law}")()


# -- replicas ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_session_keeps_to_one_replica_and_sessions_spread(serve: Serve) -> None:
    servers = [serve() for _ in range(3)]
    policy = policy_of(*servers)
    await policy.open()
    for server in servers:
        server.asked.clear()
    sessions = [f"episode-{i}" for i in range(30)]
    for _ in range(3):
        await asyncio.gather(*(policy.generate(PROMPT, Sampling(max_tokens=1), session=s) for s in sessions))
    homes: dict[str, set[str]] = {session: set() for session in sessions}
    for server in servers:
        for asked in server.asked:
            homes[asked.headers["x-session-id"]].add(server.url)
    assert all(len(home) == 1 for home in homes.values()), "a session went to several replicas"
    assert all(len(server.asked) >= 9 for server in servers), "sessions do not spread"
    # The first session finds every replica below the bound, so it is where its hash says; later ones may have moved on.
    other = policy_of(*reversed(servers))
    await other.generate(PROMPT, Sampling(max_tokens=1), session="episode-0")
    again = next(server for server in servers if server.url in homes["episode-0"])
    assert again.asked[-1].headers["x-session-id"] == "episode-0", "another process sends a session elsewhere"


@pytest.mark.slow
async def test_only_the_sessions_of_a_lost_replica_move(serve: Serve) -> None:
    servers = [serve() for _ in range(3)]
    policy = policy_of(*servers)
    sessions = [f"episode-{i}" for i in range(24)]

    async def homes() -> dict[str, str]:
        for server in servers:
            server.asked.clear()
        await asyncio.gather(*(policy.generate(PROMPT, Sampling(max_tokens=1), session=s) for s in sessions))
        return {
            asked.headers["x-session-id"]: server.url
            for server in servers
            for asked in server.asked
            if "x-session-id" in asked.headers
        }

    before = await homes()
    servers[1].kill()
    after = await homes()
    moved = {session for session in sessions if after[session] != before[session]}
    assert moved == {session for session in sessions if before[session] == servers[1].url}


async def test_requests_without_a_session_go_where_the_least_is_under_way(serve: Serve) -> None:
    servers = [serve(), serve()]
    policy = policy_of(*servers)
    await policy.open()
    for server in servers:
        server.asked.clear()
    await asyncio.gather(*(policy.generate(PROMPT, Sampling(max_tokens=1)) for _ in range(8)))
    assert [len(server.asked) for server in servers] == [4, 4]


async def test_a_replica_carries_no_more_than_it_may(serve: Serve) -> None:
    server = serve(delay=0.05)
    policy = policy_of(server, max_in_flight=3)
    many = await asyncio.gather(*(policy.generate(PROMPT, Sampling(max_tokens=2)) for _ in range(12)))
    assert len(many) == 12
    assert 1 < server.most_at_once <= 3


@pytest.mark.slow
async def test_a_request_whose_replica_dies_is_answered_by_another_with_the_same_ids(serve: Serve) -> None:
    servers = [serve(), serve()]
    policy, alone = policy_of(*servers), policy_of(serve())
    expected = await alone.generate(PROMPT, LONG, session="s")
    await policy.open()
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG, session="s"))
    await eventually(lambda: any(server.under_way > 3 for server in servers))
    next(server for server in servers if server.under_way).kill()
    assert (await task).token_ids == expected.token_ids, "the same seed must give the same ids anywhere"


@pytest.mark.slow
@pytest.mark.parametrize("sabotage", ["fails", "hangs up"])
async def test_a_replica_that_fails_is_left_alone_and_taken_back(serve: Serve, sabotage: str) -> None:
    servers = [serve(), serve()]
    policy = policy_of(*servers)
    await policy.open()
    servers[0].sabotage.add(sabotage)
    answers = await asyncio.gather(*(policy.generate(PROMPT, Sampling(max_tokens=2), session=str(i)) for i in range(8)))
    assert len(answers) == 8
    servers[0].sabotage.clear()
    servers[1].kill()
    assert (await policy.generate(PROMPT, Sampling(max_tokens=2))).token_ids


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [({"name": "other"}, "came back with 'other'"), ({"version": "0.20.0"}, r"runs vLLM 0\.20\.0")],
)
async def test_a_replica_that_comes_back_as_another_takes_no_part_and_stops_nobody(
    serve: Serve, change: dict[str, str], message: str
) -> None:
    servers = [serve(), serve()]
    policy = policy_of(*servers, patience=0.5)
    await policy.open()
    await asyncio.to_thread(servers[0].kill)
    for back in (False, True):
        for session in range(8):
            assert (await policy.generate(PROMPT, Sampling(max_tokens=2), session=str(session))).token_ids
        if not back:
            vars(servers[0]).update(change)
            await asyncio.to_thread(servers[0].start)
    await asyncio.to_thread(servers[1].kill)
    with pytest.raises(InfrastructureError, match=message):
        await policy.generate(PROMPT, Sampling(max_tokens=2))


@pytest.mark.slow
async def test_a_server_that_comes_back_in_time_is_waited_for(fake: FakeServer) -> None:
    policy = policy_of(fake)
    expected = await policy.generate(PROMPT, LONG)
    fake.kill()
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await asyncio.sleep(0.05)
    assert not task.done()
    await asyncio.to_thread(fake.start)
    assert (await task).token_ids == expected.token_ids


async def test_when_no_server_answers_the_error_names_all_with_their_causes(serve: Serve) -> None:
    servers = [serve(), serve()]
    policy = policy_of(*servers, patience=0.3)
    await policy.open()
    servers[0].sabotage.add("fails")
    servers[1].kill()
    with pytest.raises(InfrastructureError, match=r"no server of the policy answers for 0\.3 s") as caught:
        await policy.generate(PROMPT, Sampling())
    assert all(server.url in str(caught.value) for server in servers)
    assert "cannot be reached" in str(caught.value)
    assert "EngineCore" in str(caught.value)


@pytest.mark.slow
async def test_a_wrong_answer_is_asked_for_again_and_elsewhere(serve: Serve) -> None:
    servers = [serve(), serve()]
    policy = policy_of(*servers)
    await policy.open()
    servers[0].sabotage.add("truncates")
    for session in range(4):
        assert (await policy.generate(PROMPT, Sampling(max_tokens=2), session=str(session))).token_ids, "the other can"
    for server in servers:
        server.sabotage.add("truncates")
    policy._replicas.limits = TimeLimits(60.0, 0.3)
    with pytest.raises(InfrastructureError, match="truncated the prompt") as caught:
        await policy.generate(PROMPT, Sampling(max_tokens=2), session="s")
    assert "\n" not in str(caught.value)


async def test_replicas_must_be_alike(serve: Serve, models: list[Any]) -> None:
    with pytest.raises(UsageError, match="replicas of one policy must be alike"):
        await policy_of(serve(), serve(name="other")).open()


async def test_control_is_asked_for_when_a_run_begins(serve: Serve) -> None:
    with pytest.raises(UsageError, match="without its development mode"):
        await policy_of(serve(), serve(development=False)).open(control=True)


async def test_a_server_that_a_killed_run_left_paused_goes_on(fake: FakeServer) -> None:
    await ServerClient(fake.url).pause(Pause.KEEP)
    policy = policy_of(fake)
    await policy.open(control=True)
    assert (await policy.generate(PROMPT, Sampling(max_tokens=2))).token_ids


async def test_two_trainers_on_one_server_are_told_so(fake: FakeServer) -> None:
    """Each canary asks right after its own sync, and would not notice."""
    one, other = policy_of(fake, patience=0.3), policy_of(fake)
    await one.open(control=True)
    assert (await one.generate(PROMPT, Sampling(max_tokens=2))).versions == (0, 0)
    await other.open(control=True)
    with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1.*: another run named its weights .*two trainers"):
        await one.generate(PROMPT, Sampling(max_tokens=2))
    assert (await other.generate(PROMPT, Sampling(max_tokens=2))).versions == (0, 0)


async def test_whoever_only_evaluates_changes_nothing_at_the_server(fake: FakeServer) -> None:
    await ServerClient(fake.url).name_version(41)
    policy = policy_of(fake)
    completion = await policy.generate(PROMPT, Sampling(max_tokens=2))
    assert completion.versions == (41, 41), "the server knows best which weights it has"
    (named,) = [body for asked in fake.asked if (body := asked.body) and "new_version" in body]
    assert named["new_version"].endswith(":41")
    assert not fake.calls("/resume")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"max_in_flight": 0}, "must be at least 1; got 0"), ({"servers": []}, "at least one")],
)
def test_limits_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RemotePolicy(**{"servers": [ServerClient("http://127.0.0.1:9")], **settings})


def test_one_policy_serves_one_loop_after_another(fake: FakeServer) -> None:
    policy = policy_of(fake, max_in_flight=2)

    async def leave_something_behind() -> list[Completion]:
        tasks = [asyncio.ensure_future(policy.generate(PROMPT, LONG)) for _ in range(5)]
        await eventually(lambda: fake.under_way > 3)
        return [await policy.generate(PROMPT, Sampling(max_tokens=4, seed=1))] if len(tasks) < 2 else []

    asyncio.run(leave_something_behind())
    one, two = (asyncio.run(policy.generate(PROMPT, Sampling(max_tokens=4, seed=1))) for _ in range(2))
    assert one.token_ids == two.token_ids


async def test_a_long_prompt_is_refused_before_anybody_is_asked(fake: FakeServer) -> None:
    policy = policy_of(fake)
    await policy.open()
    fake.asked.clear()
    with pytest.raises(PromptTooLongError, match=f"holds {CONTEXT}"):
        await policy.generate([1] * CONTEXT, Sampling())
    assert not fake.asked


# -- weights ------------------------------------------------------------------------------------------------------


async def change(policy: RemotePolicy, mode: Pause, folder: Path, version: int) -> None:
    """A weight transfer in its simplest form."""
    await policy.pause(mode)
    await change_paused(policy, folder, version)


async def change_paused(policy: RemotePolicy, folder: Path, version: int) -> None:
    """New weights for servers that are paused, which then go on."""
    for server in policy.live:
        await weight_receiver(server).reload(folder)
        await pausable(server).reset_prefix_cache()
    await policy.begin_version(version)
    await policy.resume()


def pieces(completion: Completion) -> Counter[int]:
    return Counter(completion.versions)


def agrees(completion: Completion, prompt: list[int], models: dict[int, Any]) -> None:
    """Each token has the log-probability that the weights of its own version give it."""
    for version, model in models.items():
        expected = scores(model)(prompt, completion.token_ids, 1.0)
        own = [
            (a, b) for a, b, v in zip(completion.logprobs, expected, completion.versions, strict=True) if v == version
        ]
        assert own, f"no token of version {version}"
        assert max(abs(a - b) for a, b in own) < 1e-3, f"tokens stamped {version} are not of these weights"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.26.0", "0.32.0"])
async def test_what_abort_cut_off_goes_on_with_the_new_weights(
    serve: Serve, models: list[Any], folders: list[Path], version: str
) -> None:
    server = serve(version=version)
    policy = policy_of(server)
    await policy.open(control=True)
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await eventually(lambda: server.under_way > 5)
    await change(policy, Pause.ABORT, folders[1], 1)
    completion = await task
    assert (len(completion.token_ids), completion.finish) == (100, Finish.LENGTH), "max_tokens is of the whole action"
    assert list(completion.versions) == sorted(completion.versions)
    assert set(completion.versions) == {0, 1}
    agrees(completion, PROMPT, {0: models[0], 1: models[1]})
    first, second = [body for body in server.calls("/inference/v1/generate") if len(str(body)) > 0][-2:]
    assert second["token_ids"][: len(PROMPT)] == first["token_ids"] == PROMPT
    partial = pieces(completion)[0]
    assert second["token_ids"] == [*PROMPT, *completion.token_ids[:partial]]
    assert second["sampling_params"]["max_tokens"] == 100 - partial
    assert second["sampling_params"]["seed"] != first["sampling_params"]["seed"], "numbers drawn are not drawn again"


@pytest.mark.slow
async def test_an_action_that_was_cut_twice_stops_where_it_should(
    fake: FakeServer, models: list[Any], folders: list[Path]
) -> None:
    policy = policy_of(fake)
    await policy.open(control=True)
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    for version in (1, 2):
        await eventually(lambda: fake.under_way > 5)
        await change(policy, Pause.ABORT, folders[version], version)
    completion = await task
    assert set(completion.versions) == {0, 1, 2}
    agrees(completion, PROMPT, dict(enumerate(models)))
    stops = Sampling(max_tokens=100, seed=3, stop_ids=tuple(range(0, 270, 2)))
    stopped = await policy.generate(PROMPT, stops)
    assert stopped.finish is Finish.STOP
    assert [token % 2 for token in stopped.token_ids] == [1] * (len(stopped.token_ids) - 1) + [0]


@pytest.mark.slow
async def test_wait_lets_what_is_under_way_finish_with_the_old_weights(
    fake: FakeServer, models: list[Any], folders: list[Path]
) -> None:
    policy = policy_of(fake)
    await policy.open(control=True)
    before = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await eventually(lambda: fake.under_way > 5)
    pausing = asyncio.ensure_future(policy.pause(Pause.WAIT))
    await asyncio.sleep(0)
    late = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await pausing
    assert before.done()
    assert not late.done()
    assert set((await before).versions) == {0}
    await change_paused(policy, folders[1], 1)
    assert set((await late).versions) == {1}
    agrees(await before, PROMPT, {0: models[0]})
    agrees(await late, PROMPT, {1: models[1]})


@pytest.mark.slow
async def test_keep_freezes_and_the_server_says_which_weights_sampled_what(
    fake: FakeServer, models: list[Any], folders: list[Path]
) -> None:
    policy = policy_of(fake)
    await policy.open(control=True)
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await eventually(lambda: fake.under_way > 5)
    await policy.pause(Pause.KEEP)
    frozen = fake.under_way
    await asyncio.sleep(0.05)
    assert 5 < fake.under_way == frozen < 100, "a paused server went on"
    await change_paused(policy, folders[1], 1)
    completion = await task
    assert pieces(completion)[0] == frozen
    agrees(completion, PROMPT, {0: models[0]})
    assert pieces(completion)[1] == 100 - frozen
    assert len(fake.calls("/inference/v1/generate")) == 4, (
        "one request, after three of the probe: nothing was asked again"
    )


@pytest.mark.parametrize("settings", [{"version": "0.31.0"}, {"native": False}], ids=["old", "text"])
async def test_keep_is_refused_where_nobody_could_tell_the_versions(serve: Serve, settings: dict[str, Any]) -> None:
    server = serve(**settings)
    policy = policy_of(server)
    await policy.open(control=True)
    with pytest.raises(UsageError, match=r"'keep' freezes .* does not report which weights"):
        await policy.pause(Pause.KEEP)
    assert not server.calls("/pause")
    assert (await policy.generate(PROMPT, Sampling(max_tokens=1))).versions == (0,)


async def test_a_request_that_reaches_a_paused_server_late_is_asked_again(
    serve: Serve, models: list[Any], folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be sampled with the new weights and stamped with the old version."""
    monkeypatch.setattr(remote_policy, "GRACE", 0.1)
    server = serve(version="0.26.0", delay=0.05)
    policy = policy_of(server)
    await policy.open(control=True)
    task = asyncio.ensure_future(policy.generate(PROMPT, Sampling(max_tokens=5, seed=1)))
    await eventually(lambda: server.at_once == 1)
    await change(policy, Pause.ABORT, folders[1], 1)
    completion = await task
    agrees(completion, PROMPT, {completion.versions[0]: models[completion.versions[0]]})
    assert set(completion.versions) == {1}
    assert server.aborted == 1


async def test_weights_that_change_under_requests_without_a_pause_are_refused(fake: FakeServer) -> None:
    policy = policy_of(fake)
    await policy.open(control=True)
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await eventually(lambda: fake.under_way > 0)
    with pytest.raises(ContractError, match="pause the policy first"):
        await policy.begin_version(1)
    task.cancel()


@pytest.mark.slow
async def test_an_adapter_takes_over_without_a_pause(fake: FakeServer, models: list[Any], tmp_path: Path) -> None:
    policy = policy_of(fake)
    await policy.open(control=True)
    folder = adapter(models[0], tmp_path / "a")
    await adapter_host(policy.live[0]).load_adapter("v1", folder)
    before = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await eventually(lambda: fake.under_way > 5)
    await policy.begin_version(1, adapter="v1")
    after = await policy.generate(PROMPT, Sampling(max_tokens=5, seed=1))
    assert (policy.version, policy.adapter) == (1, "v1")
    await policy.drain()
    assert before.done(), "drain waits for what the earlier weights sample"
    agrees(await before, PROMPT, {0: models[0]})
    agrees(after, PROMPT, {1: merged(models[0], folder)})


# -- what a restart loses -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.26.0", "0.32.0"])
async def test_a_server_that_was_restarted_with_its_first_weights_takes_no_part_until_it_is_sent_the_policys(
    serve: Serve, models: list[Any], folders: list[Path], version: str
) -> None:
    servers = [serve(version=version), serve(version=version)]
    policy = policy_of(*servers)
    await policy.open(control=True)
    await change(policy, Pause.ABORT, folders[1], 1)
    task = asyncio.ensure_future(policy.generate(PROMPT, LONG))
    await eventually(lambda: any(server.under_way > 3 for server in servers))
    victim = next(server for server in servers if server.under_way)
    await asyncio.to_thread(victim.kill)
    await asyncio.to_thread(victim.start)
    await task
    many = [policy.generate(PROMPT, Sampling(max_tokens=3), session=str(i)) for i in range(12)]
    for completion in await asyncio.gather(*many):
        agrees(completion, PROMPT, {1: models[1]})
    await change(policy, Pause.ABORT, folders[2], 2)
    assert len(policy.live) == 2
    victim.asked.clear()
    many = [policy.generate(PROMPT, Sampling(max_tokens=3), session=str(i)) for i in range(12)]
    for completion in await asyncio.gather(*many):
        agrees(completion, PROMPT, {2: models[2]})
    assert victim.calls("/inference/v1/generate"), "it has the weights again, and takes part"


async def test_a_restart_that_nobody_saw_is_seen_by_what_the_server_calls_its_weights(
    fake: FakeServer, folders: list[Path]
) -> None:
    policy = policy_of(fake)
    await policy.open(control=True)
    await change(policy, Pause.ABORT, folders[1], 1)
    await asyncio.to_thread(fake.kill)
    await asyncio.to_thread(fake.start)
    await policy.close()  # so that no broken connection tells it
    with pytest.raises(InfrastructureError, match=r"was restarted.*weights it was started with"):
        await policy.generate(PROMPT, Sampling(max_tokens=3))


@pytest.mark.slow
async def test_a_replica_that_is_down_during_a_transfer_is_sent_the_next_one(
    serve: Serve, models: list[Any], folders: list[Path]
) -> None:
    servers = [serve(), serve()]
    policy = policy_of(*servers)
    await policy.open(control=True)
    await asyncio.to_thread(servers[0].kill)
    await change(policy, Pause.ABORT, folders[1], 1)
    assert [server.address for server in policy.live] == [servers[1].url]
    await asyncio.to_thread(servers[0].start)
    answers = await asyncio.gather(*(policy.generate(PROMPT, Sampling(max_tokens=3), session=str(i)) for i in range(8)))
    for completion in answers:
        agrees(completion, PROMPT, {1: models[1]})
    await change(policy, Pause.ABORT, folders[2], 2)
    assert len(policy.live) == 2


async def test_a_transfer_to_nobody_says_so(fake: FakeServer) -> None:
    policy = policy_of(fake, patience=0.1)
    await policy.open(control=True)
    await asyncio.to_thread(fake.kill)
    with pytest.raises(InfrastructureError, match=r"answers for 0\.1 s"):
        await policy.generate(PROMPT, Sampling())
    with pytest.raises(InfrastructureError, match="no server of the policy is available"):
        await policy.pause(Pause.ABORT)
