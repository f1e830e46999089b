"""One server over real HTTP: exact ids, its capabilities, and the errors without them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.errors import (
    ContractError,
    InfrastructureError,
    ModelError,
    PolicyServerError,
    PromptTooLongError,
    ServerSettingsError,
    UsageError,
)
from turnwise.inference.policy import Finish, Sampling
from turnwise.inference.serving.http import probing
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.http.vocabulary import check_tokenizer, texts
from turnwise.inference.serving.server import Pause

from ...agents.fakes import tokenizer as merging_tokenizer
from .conftest import CONTEXT
from .fake_server import FakeServer
from .helpers import adapter, eventually, merged, scores

Serve = Callable[..., FakeServer]
PROMPT, SAMPLING = [3, 1, 4, 1, 5], Sampling(max_tokens=6, seed=2)


@pytest.mark.parametrize("native", [True, False], ids=["native", "completions"])
async def test_both_routes_give_the_same_ids_and_log_probabilities(
    serve: Serve, models: list[Any], native: bool
) -> None:
    server = serve(native=native)
    client = ServerClient(server.url)
    served = await client.generate(PROMPT, SAMPLING, session="e")
    assert served.prompt_ids == tuple(PROMPT)
    expected = scores(models[0])(PROMPT, served.completion.token_ids, 1.0)
    assert served.completion.logprobs == pytest.approx(expected, abs=1e-4)
    assert len(served.completion.token_ids) == 6
    used, unused = ("/inference/v1/generate", "/v1/completions")[:: 1 if native else -1]
    assert server.asked[-1].path == used
    assert server.asked[-1].headers["x-session-id"] == "e"
    assert not native or not server.calls(unused), "where ids are spoken, text is not"


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_ids_sampled_are_ids_served_and_recorded_whatever_their_text(
    standing: FakeServer, tokenizer: Any, data: st.DataObject
) -> None:
    """Trap 1: under these merges the text of almost any ids is written with other ids."""
    inside = st.sampled_from([*range(97, 100), *range(256, len(tokenizer))]) | st.integers(0, len(tokenizer) - 1)
    prompt = data.draw(st.lists(inside, min_size=1, max_size=40))
    sampling = Sampling(max_tokens=8, seed=data.draw(st.integers(0, 2**56 - 1)))
    before = len(standing.asked)

    async def ask() -> Any:
        client = ServerClient(standing.url)
        return await client.generate(prompt, sampling)

    served = asyncio.run(ask())
    sent = [asked.body for asked in standing.asked[before:] if asked.path == "/inference/v1/generate"][-1]
    assert sent["token_ids"] == prompt == list(served.prompt_ids), "what was served is not what was recorded"
    assert all(not isinstance(value, str) for value in sent["token_ids"])
    assert len(served.completion.token_ids) == 8


def test_the_tokenizer_of_these_tests_is_one_that_drifts(tokenizer: Any) -> None:
    """Otherwise the test above proves nothing."""
    rng = random.Random(0)
    drawn = [[rng.randrange(len(tokenizer)) for _ in range(12)] for _ in range(50)]
    drifted = [ids for ids in drawn if tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False) != ids]
    assert len(drifted) > 40


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False], ids=["native", "completions"])
@pytest.mark.parametrize(
    ("sabotage", "error", "message"),
    [
        ("retokenizes the prompt", PolicyServerError, "did not read the prompt as it was sent|truncated the prompt"),
        ("retokenizes the answer", PolicyServerError, "changed on its way"),
        ("truncates", PolicyServerError, r"truncated the prompt: 6 ids .* were sent, and it read 3 ids"),
        ("hides the prompt", PolicyServerError, "does not return the prompt ids"),
        ("not a number", PolicyServerError, "not finite"),
        ("stops by itself", ServerSettingsError, "none of the stop ids"),
        ("a limit of its own", ServerSettingsError, "2 tokens by a limit of its own, but the request allows 6"),
        ("fails", PolicyServerError, r"failed \(500\): EngineCore"),
        ("hangs up", PolicyServerError, "cannot be reached"),
    ],
)
async def test_sabotage_is_named_with_the_address(
    serve: Serve, native: bool, sabotage: str, error: type[Exception], message: str
) -> None:
    server = serve(native=native)
    client = ServerClient(server.url)
    await client.probe()
    server.sabotage.add(sabotage)
    with pytest.raises(error, match=message) as caught:
        await client.generate([97, 98, 99, 97, 97, 97], SAMPLING)
    assert server.url in str(caught.value)
    assert type(caught.value) is error


async def test_a_stop_that_is_stripped_is_named(fake: FakeServer) -> None:
    client = ServerClient(fake.url)
    free = await client.generate(PROMPT, SAMPLING)
    stop = Sampling(max_tokens=6, seed=2, stop_ids=(free.completion.token_ids[2],))
    stopped = (await client.generate(PROMPT, stop)).completion
    assert (stopped.token_ids[-1], stopped.finish) == (stop.stop_ids[0], Finish.STOP)
    fake.sabotage.add("strips the stop")
    with pytest.raises(PolicyServerError, match="stop tokens are stripped"):
        await client.generate(PROMPT, stop)


# -- what it can do ---------------------------------------------------------------------------------------------


async def test_a_probe_finds_out_what_there_is(serve: Serve) -> None:
    whole = await ServerClient(serve(root="/models/a").url).probe()
    assert (whole.version, whole.model, whole.context_length) == ("0.32.0", "policy", CONTEXT)
    assert (whole.control, whole.reload, whole.version_spans, whole.adapters) == (True,) * 4
    assert (whole.transfer, whole.max_rank) == ("turnwise_files", 8)
    assert whole.started is not None
    plain = await ServerClient(serve(native=False, development=False, max_rank=0).url).probe()
    assert (plain.control, plain.reload, plain.version_spans, plain.adapters) == (False,) * 4
    assert plain.transfer is None
    older = await ServerClient(serve(version="0.31.0").url).probe()
    assert older.control
    assert not older.version_spans, "vLLM tells weight versions since 0.32"


async def test_the_native_route_of_older_versions_is_not_exact_enough(serve: Serve) -> None:
    server = serve(version="0.26.0", native="older")
    served = await ServerClient(server.url).generate(PROMPT, SAMPLING)
    assert served.prompt_ids == tuple(PROMPT)
    assert server.asked[-1].path == "/v1/completions"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "sabotage", "message"),
    [
        ({"version": "0.20.1"}, "", r"runs vLLM 0\.20\.1, but Turnwise supports 0\.26 to 0\.32"),
        ({}, "raw log-probabilities", r"ignore the temperature \(raw_logprobs\).*--logprobs-mode processed_logprobs"),
        ({"development": False}, "raw log-probabilities", "ignore the temperature, so they differ"),
        ({}, "not found", r"answers, but is not a vLLM server: it has no /version.*write chat:http://.*/v1#MODEL"),
        ({}, "hides the prompt", "does not return the prompt ids"),
        ({}, "truncates", "truncated the prompt"),
        ({"api_key": "secret"}, "", r"401.*VLLM_API_KEY"),
    ],
)
async def test_a_server_that_cannot_be_used_is_refused_when_a_run_begins(
    serve: Serve, settings: dict[str, Any], sabotage: str, message: str
) -> None:
    server = serve(**settings)
    server.sabotage.add(sabotage)
    with pytest.raises(UsageError, match=message) as caught:
        await ServerClient(server.url).probe()
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_server_that_stays_paused_is_refused_and_one_that_goes_on_is_waited_for(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ServerClient(fake.url)
    await client.pause(Pause.KEEP)
    monkeypatch.setattr(probing, "PAUSED_SECONDS", 0.1)
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:\d+ is paused and sends no answers.*POST /resume") as raised:
        await client.probe()
    assert "\n" not in str(raised.value)
    monkeypatch.setattr(probing, "PAUSED_SECONDS", 10.0)
    looking = asyncio.create_task(ServerClient(fake.url).probe())
    await eventually(lambda: len(fake.calls("/is_paused")) > probing.PAUSED_CHECKS)
    await client.resume()
    assert (await looking).control


async def test_a_key_is_sent_where_one_is_asked_for(serve: Serve) -> None:
    server = serve(api_key="secret")
    assert (await ServerClient(server.url, api_key="secret").probe()).model == "policy"


async def test_a_model_that_is_not_served_is_refused_with_those_that_are(fake: FakeServer) -> None:
    with pytest.raises(UsageError, match="does not serve 'qwen'; it serves 'policy'"):
        await ServerClient(fake.url, model="qwen").probe()
    assert (await ServerClient(fake.url, model="policy").probe()).model == "policy"


async def test_a_server_that_is_down_is_named(fake: FakeServer) -> None:
    url = fake.url
    fake.stop()
    with pytest.raises(InfrastructureError, match=f"server {url} cannot be reached"):
        await ServerClient(url).probe()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://a", "http://", "", "http://a:port", "http://a:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="must look like http://host:port"):
        ServerClient(url)


async def test_the_addresses_that_people_type(fake: FakeServer) -> None:
    for typed in (f"{fake.url}/", f"{fake.url}/v1", f"{fake.url}/v1/"):
        client = ServerClient(typed)
        assert client.address == fake.url
        assert (await client.probe()).model == "policy"


# -- limits and cancellation ------------------------------------------------------------------------------------


async def test_the_context_is_kept_to_and_named(fake: FakeServer) -> None:
    client = ServerClient(fake.url)
    last = await client.generate([1] * (CONTEXT - 2), Sampling(max_tokens=50, seed=0))
    assert (len(last.completion.token_ids), last.completion.finish) == (2, Finish.LENGTH)
    with pytest.raises(PromptTooLongError, match=f"the prompt has {CONTEXT} tokens and the context holds {CONTEXT}"):
        await client.generate([1] * CONTEXT, Sampling())
    assert len(fake.asked[-1].body["token_ids"]) == CONTEXT - 2, "what cannot fit is not even sent"


@pytest.mark.parametrize("prompt", [[], [-1], [10**6]])
async def test_what_is_no_prompt_is_refused(fake: FakeServer, prompt: list[int]) -> None:
    with pytest.raises((ContractError, PolicyServerError), match=r"at least one id|out of vocabulary"):
        await ServerClient(fake.url).generate(prompt, Sampling())


async def test_cancelling_a_call_aborts_it_on_the_server(fake: FakeServer) -> None:
    client = ServerClient(fake.url)
    await client.probe()
    task = asyncio.ensure_future(client.generate(PROMPT, Sampling(max_tokens=100, seed=0)))
    await eventually(lambda: fake.under_way > 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: fake.aborted == 1 and fake.under_way == 0)


async def test_a_silent_server_is_given_up_and_the_request_aborted(fake: FakeServer) -> None:
    client = ServerClient(fake.url)
    await client.probe()
    impatient = ServerClient(fake.url, request_timeout=0.5)
    impatient._known = client._known
    fake.sabotage.add("hangs")
    with pytest.raises(InfrastructureError, match=r"has not answered within 0\.5 s"):
        await impatient.generate(PROMPT, SAMPLING)
    await eventually(lambda: fake.aborted == 1)


def test_one_client_serves_one_loop_after_another(fake: FakeServer) -> None:
    client = ServerClient(fake.url)
    first, second = (asyncio.run(client.generate(PROMPT, SAMPLING)) for _ in range(2))
    assert first.completion.token_ids == second.completion.token_ids


# -- control ----------------------------------------------------------------------------------------------------


async def test_control_goes_where_vllm_has_it(fake: FakeServer, folders: list[Path]) -> None:
    client = ServerClient(fake.url)
    for mode in Pause:
        await client.pause(mode)
        assert fake.asked[-1].path == f"/pause?mode={mode.value}"
    await client.init_transfer({})
    await client.start_update()
    await client.update({"path": str(folders[1])})
    await client.finish_update(7)
    await client.reset_prefix_cache()
    await client.resume()
    assert fake.calls("/update_weights") == [{"update_info": {"path": str(folders[1])}}]
    (named,) = fake.calls("/finish_weight_update")
    assert named["weight_version"].endswith(":7")
    assert (await client.generate(PROMPT, SAMPLING)).spans == ((7, 0, 6),)


async def test_new_weights_are_those_of_the_folder(fake: FakeServer, folders: list[Path], models: list[Any]) -> None:
    client = ServerClient(fake.url)
    await client.reload(folders[2])
    served = (await client.generate(PROMPT, SAMPLING)).completion
    assert served.logprobs == pytest.approx(scores(models[2])(PROMPT, served.token_ids, 1.0), abs=1e-4)
    with pytest.raises(InfrastructureError, match="no safetensors"):
        await client.reload(Path("/there/is/no/such"))


async def test_without_the_development_mode_control_says_how_to_get_it(serve: Serve) -> None:
    client = ServerClient(serve(development=False).url)
    for verb in (client.pause(Pause.ABORT), client.resume(), client.start_update(), client.reset_prefix_cache()):
        with pytest.raises(UsageError, match="started without VLLM_SERVER_DEV_MODE=1"):
            await verb
    await client.name_version(3)


async def test_adapters_come_and_go(fake: FakeServer, models: list[Any], tmp_path: Path) -> None:
    client = ServerClient(fake.url)
    base = await client.generate(PROMPT, SAMPLING)
    await client.load_adapter("a", adapter(models[0], tmp_path / "a"))
    other = await client.generate(PROMPT, SAMPLING, adapter="a")
    whole = scores(merged(models[0], tmp_path / "a"))(PROMPT, other.completion.token_ids, 1.0)
    assert other.completion.logprobs == pytest.approx(whole, abs=1e-4)
    assert other.completion.logprobs != base.completion.logprobs
    await client.unload_adapter("a")
    with pytest.raises(InfrastructureError, match=r"does not have the requested model or adapter \(404\)"):
        await client.generate(PROMPT, SAMPLING, adapter="a")
    with pytest.raises(UsageError, match=r"refuses adapter 'a'.*cannot be found"):
        await client.unload_adapter("a")
    with pytest.raises(UsageError, match=r"refuses adapter 'b' in .*No adapter found"):
        await client.load_adapter("b", tmp_path / "nothing")
    with pytest.raises(UsageError, match="rank 16 is greater than max_lora_rank 8"):
        await client.load_adapter("c", adapter(models[0], tmp_path / "c", rank=16))


async def test_a_server_without_adapters_says_how_to_get_them(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        await ServerClient(serve(max_rank=0).url).load_adapter("a", tmp_path)


# -- tokenizers -------------------------------------------------------------------------------------------------


async def test_the_servers_own_tokenizer_is_accepted(fake: FakeServer, tokenizer: Any) -> None:
    await check_tokenizer(ServerClient(fake.url), tokenizer, source="here")


async def test_another_tokenizer_is_named_with_a_text_that_tells_them_apart(fake: FakeServer) -> None:
    from turnwise.inference.nano import build_tokenizer

    other = build_tokenizer("byte")
    with pytest.raises(
        ModelError, match=r"the tokenizer of my/model differs from that of server .*: .* here and .* there"
    ):
        await check_tokenizer(ServerClient(fake.url), other, source="my/model")


async def test_control_tokens_are_compared_too(fake: FakeServer) -> None:
    """The same vocabulary with one token more: most texts are alike."""
    other = merging_tokenizer(pad_token="<|endoftext|>")
    other.add_special_tokens({"additional_special_tokens": ["<|new|>"]})
    with pytest.raises(ModelError, match="differs from that of server"):
        await check_tokenizer(ServerClient(fake.url), other, source="here")


async def test_without_a_tokenizer_on_the_server_the_range_of_ids_is_compared(
    models: list[Any], tokenizer: Any
) -> None:
    with FakeServer(models[0]) as server:
        client = ServerClient(server.url)
        await check_tokenizer(client, tokenizer, source="here")
        larger = merging_tokenizer()
        larger.add_special_tokens({"additional_special_tokens": ["<|new|>"]})
        with pytest.raises(ModelError, match=rf"ids up to {len(tokenizer)}, but the model .* has fewer"):
            await check_tokenizer(client, larger, source="here")


def test_what_is_compared_is_the_same_every_time(tokenizer: Any) -> None:
    assert texts(tokenizer) == texts(tokenizer)
    assert any(token in text for token in tokenizer.all_special_tokens for text in texts(tokenizer))
