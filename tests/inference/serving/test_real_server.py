"""The real vLLM under the same laws as the stand-in. Where the two differ, the stand-in is wrong."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.agents.named import agent_from
from turnwise.errors import InfrastructureError, ModelError, PolicyServerError, PromptTooLongError, UsageError
from turnwise.inference.models import load_model
from turnwise.inference.policy import Finish, Sampling
from turnwise.inference.policy_checks import PolicyContract, Subject
from turnwise.inference.serving.http import probing, reading, routes
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.http.vocabulary import check_tokenizer
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.inference.serving.server import Capabilities, Pause, adapter_host, pausable, weight_receiver
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes

from ...agents.fakes import tokenizer as merging_tokenizer
from ...rollouts.fakes import Count, tasks
from .helpers import adapter, merged, sampled, scores, until_sampled

if TYPE_CHECKING:
    from turnwise.inference.serving.launch.process import VllmProcess

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

CONTEXT = 512
TOLERANCE = 5e-5
"""Between vLLM and transformers, both in float32, on nano models: 1e-6 on most tokens, 1e-5 on improbable ones."""
LONG = Sampling(max_tokens=400, seed=3)
ATTEMPTS = 10
"""Most changes of weights until one meets a running request: on a busy machine requests may have ended."""


@pytest.fixture(scope="session")
def plain(vllm_server: VllmProcess) -> tuple[Any, Any]:
    """The model and tokenizer that are served, in this process."""
    return load_model(vllm_server.model)


def prompts(count: int = 5, longest: int = 60) -> list[list[int]]:
    rng = random.Random(4)
    return [[rng.randrange(256) for _ in range(rng.randint(2, longest))] for _ in range(count)]


class _OnlyText(ServerClient):
    """Speaks ``/v1/completions`` alone, as to a server without ``--enable-scale-out``."""

    async def probe(self) -> Capabilities:
        known = await super().probe()
        self._native = False
        return replace(known, version_spans=False)


class TestContract(PolicyContract):
    @pytest.fixture(autouse=True)
    def _over(self, vllm_server: VllmProcess, plain: tuple[Any, Any]) -> None:
        self.url, self.score = vllm_server.url, scores(plain[0])

    def subject(self) -> Subject:
        return Subject(RemotePolicy([ServerClient(self.url)]), prompts(), CONTEXT, self.score, TOLERANCE)


@pytest.mark.shift("vllm: other ways")
class TestContractWithoutTheNativeRoute(TestContract):
    def subject(self) -> Subject:
        return Subject(RemotePolicy([_OnlyText(self.url)]), prompts(), CONTEXT, self.score, TOLERANCE)


async def test_a_probe_of_the_real_one(vllm_server: VllmProcess) -> None:
    found = await ServerClient(vllm_server.url).probe()
    assert found.version.startswith(reading.TESTED), (
        f"vLLM {found.version} is not among those that are said to be tested"
    )
    assert (found.model, found.context_length) == ("policy", CONTEXT)
    assert (found.control, found.reload, found.version_spans, found.adapters) == (True,) * 4
    assert (found.transfer, found.max_rank) == ("turnwise_files", 8)
    assert found.started is not None


async def test_a_paused_server_says_so(vllm_server: VllmProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ServerClient(vllm_server.url)
    await client.pause(Pause.KEEP)
    monkeypatch.setattr(probing, "PAUSED_SECONDS", 0.1)
    with pytest.raises(UsageError, match="is paused and sends no answers"):
        await client.probe()
    await client.resume()
    assert (await client.probe()).control
    await client.close()


@pytest.mark.parametrize("kind", [ServerClient, _OnlyText], ids=["native", "completions"])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_ids_sampled_are_ids_served_and_recorded_whatever_their_text(
    vllm_server: VllmProcess, plain: tuple[Any, Any], kind: type[ServerClient], data: st.DataObject
) -> None:
    """Random bytes are not text: decoded and encoded again, nearly all of these prompts are other ids."""
    model, tokenizer = plain
    prompt = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), min_size=1, max_size=60))
    sampling = Sampling(max_tokens=8, seed=data.draw(st.integers(0, 2**56 - 1)))

    async def ask() -> Any:
        return await kind(vllm_server.url).generate(prompt, sampling)

    served = asyncio.run(ask())
    ids = served.completion.token_ids
    assert served.prompt_ids == tuple(prompt)
    assert served.completion.logprobs == pytest.approx(scores(model)(prompt, ids), abs=TOLERANCE), (
        "the ids recorded are not those that were sampled after this prompt"
    )


async def test_ids_out_of_the_vocabulary_and_prompts_too_long(vllm_server: VllmProcess) -> None:
    client = ServerClient(vllm_server.url)
    with pytest.raises(PolicyServerError, match="Token id 9999 is out of vocabulary"):
        await client.generate([1, 9999], Sampling())
    for length in (CONTEXT, CONTEXT + 50):
        with pytest.raises(PromptTooLongError, match=f"the prompt has {length} tokens"):
            await client.generate([1] * length, Sampling())
    known = await client.probe()
    client._known = type(known)(**{**{n: getattr(known, n) for n in known.__slots__}, "context_length": 10**6})
    with pytest.raises(PolicyServerError, match="maximum model length"):
        await client.generate([1] * CONTEXT, Sampling())  # it had reported a larger context: its fault, not an outage


async def test_cancelling_a_call_aborts_it_on_the_server(vllm_server: VllmProcess) -> None:
    """Afterwards nothing is under way there: waiting for the rest takes no time at all."""
    client = ServerClient(vllm_server.url)
    before = await sampled(vllm_server.url)
    tasks = [asyncio.ensure_future(client.generate([1, 2, place], LONG)) for place in range(16)]
    await until_sampled(vllm_server.url, before + len(tasks))
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert any(isinstance(end, asyncio.CancelledError) for end in ended), "none was under way any more"
    await client.pause(Pause.KEEP)
    info = await client._wire.send(routes.Call("/load"))
    await client.resume()
    assert info.content["server_load"] == 0


async def test_prefixes_are_cached_and_the_cache_is_forgotten(vllm_server: VllmProcess) -> None:
    client, rng = ServerClient(vllm_server.url), random.Random(11)
    prompt = [rng.randrange(256) for _ in range(300)]
    first, second = [await client.generate(prompt, Sampling(max_tokens=1, seed=0)) for _ in range(2)]
    assert first.cached == 0
    assert second.cached >= 256
    await client.reset_prefix_cache()
    assert (await client.generate(prompt, Sampling(max_tokens=1, seed=0))).cached == 0


async def test_the_tokenizer_is_compared(vllm_server: VllmProcess, plain: tuple[Any, Any]) -> None:
    from turnwise.inference.nano import build_tokenizer

    client = ServerClient(vllm_server.url)
    await check_tokenizer(client, plain[1], source="here")
    with pytest.raises(ModelError, match="differs from that of server"):
        await check_tokenizer(client, build_tokenizer("bpe", ["the look of the thing"] * 9), source="here")


async def test_what_is_wrong_is_said_in_words(vllm_server: VllmProcess, plain: tuple[Any, Any], tmp_path: Path) -> None:
    client = ServerClient(vllm_server.url)
    with pytest.raises(UsageError, match="does not serve 'other'; it serves 'policy'"):
        await ServerClient(vllm_server.url, model="other").probe()
    with pytest.raises(UsageError, match=r"refuses adapter 'a' in .*No adapter found"):
        await client.load_adapter("a", tmp_path)
    with pytest.raises(UsageError, match=r"refuses adapter 'b'.*rank"):
        await client.load_adapter("b", adapter(plain[0], tmp_path / "b", rank=16))
    with pytest.raises(UsageError, match=r"refuses adapter 'c' \(404\)"):
        await client.unload_adapter("c")
    with pytest.raises(InfrastructureError, match=r"does not have the requested model or adapter \(404\)"):
        await client.generate([1, 2], Sampling(), adapter="d")
    assert (await client.generate([1, 2], Sampling(max_tokens=2))).completion.token_ids, "it goes on after all that"


async def test_a_reload_that_failed_is_mended_by_one_that_does_not(vllm_server: VllmProcess, tmp_path: Path) -> None:
    """In between it has no weights, and a request would be its last."""
    client = ServerClient(vllm_server.url)
    before = await client.generate([1, 2], Sampling(max_tokens=9, seed=0))
    with pytest.raises(InfrastructureError, match=r"failed \(500\).*has no weights now"):
        await client.reload(tmp_path / "nothing")
    await client.reload(vllm_server.model)
    await client.reset_prefix_cache()
    after = await client.generate([1, 2], Sampling(max_tokens=9, seed=0))
    assert after.completion.token_ids == before.completion.token_ids


@pytest.fixture
def other(plain: tuple[Any, Any], vllm_server: VllmProcess, tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    """Another model's weights, and where they are; the server has its own again after the test."""
    from turnwise.inference.models import save_model
    from turnwise.inference.nano import NanoConfig, build_model

    model = build_model(NanoConfig(tokenizer="byte", size="0.1M", context_length=CONTEXT), plain[1], seed=9)
    save_model(model, plain[1], tmp_path / "other")

    async def restore() -> None:
        client = ServerClient(vllm_server.url)
        await client.resume()
        await client.reload(vllm_server.model)
        await client.reset_prefix_cache()

    yield model, tmp_path / "other"
    asyncio.run(restore())


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[] if mode is Pause.KEEP else pytest.mark.shift("vllm: other ways")) for mode in Pause],
)
async def test_every_token_is_of_the_weights_that_it_is_stamped_with(
    vllm_server: VllmProcess, plain: tuple[Any, Any], other: tuple[Any, Path], mode: Pause
) -> None:
    """Weights change in the middle of many requests: what is written beside a token is what happened."""
    models, folders = {0: plain[0], 1: other[0]}, {0: vllm_server.model, 1: other[1]}
    policy = RemotePolicy([ServerClient(vllm_server.url)])
    await policy.open(control=True)
    seen = set[frozenset[int]]()
    for attempt in range(ATTEMPTS):
        many, before = [[7, 8, place] for place in range(24)], await sampled(vllm_server.url)
        tasks = [asyncio.ensure_future(policy.generate(prompt, LONG)) for prompt in many]
        await until_sampled(vllm_server.url, before + 2 * len(many))
        old, new = attempt, attempt + 1
        await change(policy, mode, folders[new % 2], new)
        made = await asyncio.gather(*tasks)
        seen = {frozenset(completion.versions) for completion in made}
        for prompt, completion in zip(many, made, strict=True):
            assert (len(completion.token_ids), completion.finish) == (400, Finish.LENGTH)
            for version in set(completion.versions):
                expected = scores(models[version % 2])(prompt, completion.token_ids)
                rows = zip(completion.logprobs, expected, completion.versions, strict=True)
                worst = max(abs(a - b) for a, b, stamped in rows if stamped == version)
                assert worst < TOLERANCE, f"tokens stamped {version} are off by {worst} from its weights"
        if mode is Pause.WAIT:
            assert seen == {frozenset({old})}
            return
        if frozenset({old, new}) in seen:
            return
    raise AssertionError(f"{mode.value}: in {ATTEMPTS} changes of weights no request was running; the last time {seen}")


async def change(policy: RemotePolicy, mode: Pause, folder: Path, version: int) -> None:
    """Bring other weights to every server while it answers, and see that the next answer is of them."""
    await policy.pause(mode)
    for server in policy.live:
        await weight_receiver(server).reload(folder)
        await pausable(server).reset_prefix_cache()
    await policy.begin_version(version)
    await policy.resume()
    after = await policy.generate([7, 8, 0], Sampling(max_tokens=5, seed=0))
    assert set(after.versions) == {version}


async def test_an_adapter_samples_as_its_merged_weights_would(
    vllm_server: VllmProcess, plain: tuple[Any, Any], tmp_path: Path
) -> None:
    policy = RemotePolicy([ServerClient(vllm_server.url)])
    await policy.open(control=True)
    folder = adapter(plain[0], tmp_path / "a")
    await adapter_host(policy.live[0]).load_adapter("v1", folder)
    await policy.begin_version(1, adapter="v1")
    completion = await policy.generate([5, 6, 7], Sampling(max_tokens=20, seed=1))
    assert set(completion.versions) == {1}
    expected = scores(merged(plain[0], folder))([5, 6, 7], completion.token_ids)
    assert completion.logprobs == pytest.approx(expected, abs=20 * TOLERANCE)
    await policy.begin_version(2)
    await adapter_host(policy.live[0]).unload_adapter("v1")


# -- whole episodes, and a server that is killed in the middle of them --------------------------------------------


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmProcess]:
    """A server that may be killed; its tokenizer has merges under which almost no ids survive a way through text."""
    from turnwise.inference.models import save_model
    from turnwise.inference.nano import NanoConfig, build_model
    from turnwise.inference.serving.launch.process import ServerOptions, VllmProcess

    folder, tokenizer = tmp_path_factory.mktemp("own"), merging_tokenizer(pad_token="<|endoftext|>")
    shape = NanoConfig(size="0.1M", context_length=CONTEXT, initializer_range=0.2)
    save_model(build_model(shape, tokenizer), tokenizer, folder / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ServerOptions(context_length=CONTEXT, port=port)
    with VllmProcess(folder / "model", options, log=folder / "log") as server:
        yield server


@pytest.mark.shift("vllm: killing")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_merges_that_overlap_leave_ids_alone(own_server: VllmProcess, data: st.DataObject) -> None:
    model, _ = load_model(own_server.model)
    drifting = st.sampled_from([97, 98, 99, *range(256, 265)])
    prompt = data.draw(st.lists(drifting, min_size=2, max_size=40))
    served = asyncio.run(ServerClient(own_server.url).generate(prompt, Sampling(max_tokens=6, seed=len(prompt))))
    assert served.prompt_ids == tuple(prompt)
    expected = scores(model)(prompt, served.completion.token_ids)
    assert served.completion.logprobs == pytest.approx(expected, abs=10 * TOLERANCE)


@pytest.mark.shift("vllm: killing")
async def test_64_episodes_at_once_and_the_server_killed_in_the_middle_of_them(own_server: VllmProcess) -> None:
    """Nothing is lost: each episode is there once, and all of its tokens were sampled as they say."""
    agent = agent_from(own_server.url, max_tokens=24)
    episodes: list[Episode] = []
    restarting: asyncio.Task[Any] | None = None
    options = RunOptions(concurrency=64, retries=3, turn_timeout=None)
    async for episode in run_episodes(Count, agent, tasks(96), options=options):
        episodes.append(episode)
        if len(episodes) == 8:
            await asyncio.to_thread(own_server.kill)
            restarting = asyncio.create_task(asyncio.to_thread(own_server.start))
    assert restarting is not None
    await restarting
    assert len({episode.episode_id for episode in episodes}) == 96
    assert {episode.outcome for episode in episodes} <= {Outcome.COMPLETED, Outcome.INFRA_FAILED}
    assert sum(episode.outcome is Outcome.COMPLETED for episode in episodes) > 64
    model, _ = load_model(own_server.model)
    for turn in [turn for episode in (*episodes[:4], *episodes[-4:]) for turn in episode.turns]:
        expected = scores(model)(turn.prompt_ids, turn.action_ids)
        assert turn.logprobs == pytest.approx(expected, abs=10 * TOLERANCE)
