"""The endpoint speaks as OpenAI's does, with OpenAI's own client; what it cannot do it refuses in words."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from turnwise.errors import InfrastructureError, PromptTooLongError, UsageError
from turnwise.inference.policy import Finish
from turnwise.service.endpoint import Client, Endpoint
from turnwise.service.recorder import Recorder, Sampled
from turnwise.service.server import LoopServer
from turnwise.tasks.rng import Rng

from .fakes import STOP, Speaker, agent, calls, spelt

TOOL: Any = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}


class Desk:
    """An endpoint with one guest, and OpenAI's client for it."""

    def __init__(self, policy: Speaker, *, fixed_temperature: bool = True, **sampling: Any) -> None:
        self.policy = policy
        self.sampled: list[Sampled] = []
        self.failures: list[Exception] = []
        self.endpoint = Endpoint(max_body=20_000)
        self.recorder = Recorder(
            agent(policy, **sampling),
            session="e1",
            rng=Rng("agent", 1),
            record=self.sampled.append,
            fixed_temperature=fixed_temperature,
        )
        self.key = self.endpoint.register(Client(self.recorder, failed=self.failures.append))

    async def __aenter__(self) -> Desk:
        self.url = await self.endpoint.start()
        plain = openai.DefaultAsyncHttpxClient(verify=False)  # certificates take long to load, and none is used
        self.client = openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.key, max_retries=0, http_client=plain)
        self.http = httpx.AsyncClient(headers={"Authorization": f"Bearer {self.key}"}, base_url=self.url, verify=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.http.aclose()
        await self.endpoint.close()

    async def ask(self, text: str = "hello", **more: Any) -> Any:
        return await self.client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": text}], **more
        )


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with Desk(Speaker(lambda prompt: "Good day.")) as made:
        yield made


async def test_an_answer(desk: Desk) -> None:
    answer = await desk.ask()
    choice = answer.choices[0]
    assert (choice.message.content, choice.message.role, choice.finish_reason) == ("Good day.", "assistant", "stop")
    prompt, _ = desk.policy.asked[0]
    assert prompt == spelt("<user>hello<ai>")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(prompt), len("Good day.") + 1)
    assert [model.id async for model in desk.client.models.list()] == ["policy"]


async def test_what_is_recorded_is_what_was_sampled(desk: Desk) -> None:
    await desk.ask()
    (sampled,), (said,) = desk.sampled, desk.policy.said
    decision = sampled.decision
    assert decision.prompt_ids == desk.policy.asked[0][0]
    assert (decision.action_ids, decision.logprobs, decision.versions) == (said.token_ids, said.logprobs, said.versions)
    assert decision.action_ids[-1] == STOP
    assert (decision.action.text, sampled.observation.text, decision.finish) == ("Good day.", "hello", Finish.STOP)


async def test_a_conversation_grows_by_ids(desk: Desk) -> None:
    messages: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}]
    for text in ("and then?", "and then?"):
        answer = await desk.client.chat.completions.create(model="any", messages=messages)
        messages += [answer.choices[0].message, {"role": "user", "content": text}]
    one, two = desk.sampled
    assert two.decision.prompt_ids[: len(one.decision.prompt_ids)] == one.decision.prompt_ids
    assert two.decision.prompt_ids[len(one.decision.prompt_ids) :][: len(one.decision.action_ids)] == (
        one.decision.action_ids
    )
    assert two.observation.text == "and then?"


async def test_tool_calls_there_and_back() -> None:
    said = "<think>Where am I?</think>I look. " + calls("look", at="sky", deep=True)
    async with Desk(Speaker([said, "Blue."])) as desk:
        first = await desk.ask(tools=[TOOL], parallel_tool_calls=True)
        message = first.choices[0].message
        (call,) = message.tool_calls
        assert first.choices[0].finish_reason == "tool_calls"
        assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"at": "sky", "deep": True})
        assert (message.content, message.reasoning_content) == ("I look.", "Where am I?")
        result: Any = {"role": "tool", "tool_call_id": call.id, "content": "blue"}
        await desk.client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "hello"}, message, result], tools=[TOOL]
        )
        one, two = (sampled.decision for sampled in desk.sampled)
        extended = (*one.prompt_ids, *one.action_ids)
        assert two.prompt_ids[: len(extended)] == extended, "the thought too: it was read and sampled"
        assert two.prompt_ids[len(extended) :] == spelt("<tool>blue<ai>")
        assert one.action.tool_calls[0].name == "look"


async def test_a_call_that_cannot_be_read_is_plain_text() -> None:
    async with Desk(Speaker(["<tool_call>{oops</tool_call>"])) as desk:
        choice = (await desk.ask(tools=[TOOL])).choices[0]
        assert (choice.message.content, choice.finish_reason) == ("<tool_call>{oops</tool_call>", "stop")
        assert "not valid JSON" in (desk.sampled[0].decision.action.problem or "")


async def test_no_tools_means_no_calls() -> None:
    async with Desk(Speaker([calls("look")] * 2)) as desk:
        wants: list[dict[str, Any]] = [{}, {"tools": [TOOL], "tool_choice": "none"}]
        for more in wants:
            choice = (await desk.ask(**more)).choices[0]
            assert choice.message.tool_calls is None
            assert desk.policy.asked[-1][0] == spelt("<user>hello<ai>")


async def test_a_stream_says_the_same() -> None:
    said = "I look around me, carefully. " + calls("look", at="the sky above the sea")
    async with Desk(Speaker([said, said, "plain"])) as desk:
        whole = (await desk.ask(tools=[TOOL])).choices[0].message
        text, name, arguments, finish = "", "", "", None
        usage: Any = None
        options = {"include_usage": True}
        async for chunk in await desk.ask(tools=[TOOL], stream=True, stream_options=options):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for call in choice.delta.tool_calls or []:
                    name += call.function.name or ""
                    arguments += call.function.arguments
        assert (text, name, arguments) == (whole.content, "look", whole.tool_calls[0].function.arguments)
        assert finish == "tool_calls"
        assert usage.completion_tokens == len(desk.policy.said[1].token_ids)
        async with desk.client.chat.completions.stream(
            model="any", messages=[{"role": "user", "content": "hello"}]
        ) as stream:
            assert (await stream.get_final_completion()).choices[0].message.content == "plain"


async def test_logprobs_are_the_policys_own(desk: Desk) -> None:
    tokens = (await desk.ask(logprobs=True)).choices[0].logprobs.content
    assert [token.logprob for token in tokens] == list(desk.policy.said[0].logprobs)
    assert "".join(token.token for token in tokens) == "Good day.<end>"
    assert (await desk.ask()).choices[0].logprobs is None


async def test_length_is_named() -> None:
    async with Desk(Speaker(lambda prompt: "A long story."), max_tokens=8) as desk:
        assert (await desk.ask(max_tokens=3)).choices[0].finish_reason == "length"
        assert desk.sampled[0].decision.finish is Finish.LENGTH
        assert len(desk.sampled[0].decision.action_ids) == 3
        await desk.ask(max_completion_tokens=5000)
        assert desk.policy.asked[1][1].max_tokens == 8, "the agent's own limit is the most there is"


async def test_a_stop_text_ends_the_record_where_sampling_would_have_ended() -> None:
    async with Desk(Speaker(lambda prompt: "one two three four")) as desk:
        messages: list[Any] = [{"role": "user", "content": "count"}]
        answer = await desk.client.chat.completions.create(model="any", messages=messages, stop=[" four", " th"])
        choice = answer.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("one two", "stop")
        (sampled,) = desk.sampled
        assert sampled.decision.action_ids == spelt("one two th"), "down to the token that completed the stop text"
        assert sampled.decision.logprobs == desk.policy.said[0].logprobs[: len("one two th")]
        messages += [choice.message, {"role": "user", "content": "on"}]
        await desk.client.chat.completions.create(model="any", messages=messages)
        extended = (*sampled.decision.prompt_ids, *sampled.decision.action_ids)
        assert desk.policy.asked[1][0][: len(extended)] == extended
        assert desk.policy.asked[1][0][len(extended) :] == spelt("<end><user>on<ai>"), "then the template closes it"


async def test_seeds_and_temperatures() -> None:
    async with Desk(Speaker(lambda prompt: "x"), temperature=0.7) as desk:
        await desk.ask()
        await desk.ask()
        await desk.ask(seed=7, temperature=0.2)
        seeds = [sampling.seed for _, sampling in desk.policy.asked]
        assert None not in seeds
        assert (seeds[0] != seeds[1], seeds[2]) == (True, 7)
        assert {sampling.temperature for _, sampling in desk.policy.asked} == {0.7}, "the learner's, not the client's"
    async with Desk(Speaker(lambda prompt: "x"), fixed_temperature=False) as desk:
        await desk.ask(temperature=0.2)
        assert desk.policy.asked[0][1].temperature == 0.2


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "top_p": ({"top_p": 0.9}, "top_p"),
    "n": ({"n": 2}, "n"),
    "bias": ({"logit_bias": {"5": 1}}, "logit_bias"),
    "penalty": ({"presence_penalty": 0.5}, "presence_penalty"),
    "top_k": ({"extra_body": {"top_k": 5}}, "top_k"),
    "form": ({"response_format": {"type": "json_object"}}, "response_format"),
    "forced": ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
    "one at a time": ({"tools": [TOOL], "parallel_tool_calls": False}, "parallel_tool_calls"),
    "alternatives": ({"logprobs": True, "top_logprobs": 2}, "top_logprobs"),
    "unknown": ({"extra_body": {"do_magic": True}}, "do_magic"),
    "temperature": ({"temperature": -1}, "temperature"),
    "no room": ({"max_tokens": 0}, "max_tokens"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_would_change_the_distribution_is_refused(name: str, desk: Desk) -> None:
    more, param = REFUSED[name]
    with pytest.raises(openai.BadRequestError) as refused:
        await desk.ask(**more)
    body: Any = refused.value.body
    assert body["param"] == param
    assert param in body["message"]
    assert not desk.policy.asked, "nothing was sampled"


async def test_neutral_values_and_harmless_parameters_pass(desk: Desk) -> None:
    neutral: dict[str, Any] = {"top_p": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}}
    await desk.ask(**neutral, user="me", store=False, metadata={"a": "b"}, response_format={"type": "text"}, stop=None)


async def test_pictures_are_refused(desk: Desk) -> None:
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:…"}}]
    with pytest.raises(openai.BadRequestError, match="reads only text"):
        await desk.client.chat.completions.create(model="any", messages=[{"role": "user", "content": content}])  # type: ignore[misc, list-item]


async def test_nobody_elses_key_opens_anything(desk: Desk) -> None:
    stranger = openai.AsyncOpenAI(base_url=f"{desk.url}/v1", api_key="tw-guess", max_retries=0)
    async with stranger:
        with pytest.raises(openai.AuthenticationError, match="does not belong to a running episode"):
            await stranger.models.list()
    del desk.http.headers["Authorization"]
    assert (await desk.http.get("/v1/models")).status_code == 401
    desk.endpoint.unregister(desk.key)
    with pytest.raises(openai.AuthenticationError):
        await desk.ask()
    assert len(desk.key) > 30


async def test_the_key_may_stand_in_the_path(desk: Desk) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{desk.url}/episodes/{desk.key}/v1", api_key="EMPTY", max_retries=0
    ) as client:
        answer = await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "hello"}])
        assert answer.choices[0].message.content == "Good day."


async def test_bodies_are_limited_and_must_be_json(desk: Desk) -> None:
    with pytest.raises(openai.APIStatusError) as large:
        await desk.ask("x" * 30_000)
    assert large.value.status_code == 413
    answer = await desk.http.post("/v1/chat/completions", content=b"{nonsense")
    assert answer.status_code == 400
    assert "not JSON" in answer.json()["error"]["message"]
    for wrong in (b"[1]", b'{"messages": NaN}', b"[" * 5000, b'{"messages": [{"role": "user", "content": "\\ud800"}]}'):
        response = await desk.http.post("/v1/chat/completions", content=wrong)
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error"), wrong[:40]
    assert not desk.failures, "what a client gets wrong is no fault of the machinery"
    assert (await desk.http.post("/v1/embeddings", json={})).json()["error"]["code"] == "no_such_route"
    assert (await desk.http.get("/env")).json()["error"]["code"] == "no_environment"


async def test_a_prompt_that_is_too_long_is_the_clients_to_shorten(desk: Desk) -> None:
    desk.policy.error = PromptTooLongError("the prompt has 9 tokens, and the context of 8")
    with pytest.raises(openai.BadRequestError) as refused:
        await desk.ask()
    assert refused.value.code == "context_length_exceeded"
    assert desk.recorder.too_long is not None
    assert not desk.failures
    desk.policy.error = None
    await desk.ask()
    assert desk.recorder.too_long is None, "it shortened it"


@pytest.mark.parametrize("error", [InfrastructureError("the server is lost"), ZeroDivisionError("a bug")], ids=str)
async def test_what_is_not_the_clients_fault_is_told_to_the_episode(error: Exception, desk: Desk) -> None:
    desk.policy.error = error
    with pytest.raises(openai.InternalServerError, match=str(error)):
        await desk.ask()
    assert desk.failures == [error]


async def test_a_client_that_goes_away_stops_the_sampling() -> None:
    async with Desk(Speaker(lambda prompt: "late")) as desk:
        desk.policy.hold = asyncio.Event()
        asking = asyncio.ensure_future(desk.ask())
        await desk.policy.started.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await desk.policy.stopped.wait()
        assert not desk.sampled


async def test_the_end_of_the_episode_stops_the_sampling_and_refuses_what_comes() -> None:
    async with Desk(Speaker(lambda prompt: "late")) as desk:
        desk.policy.hold = asyncio.Event()
        asking = asyncio.ensure_future(desk.ask())
        await desk.policy.started.wait()
        desk.recorder.end("it is over")
        with pytest.raises(openai.APIStatusError, match="it is over") as refused:
            await asking
        assert (refused.value.status_code, desk.policy.cancelled) == (410, 1)
        with pytest.raises(openai.APIStatusError, match="it is over"):
            await desk.ask("one more")
        assert desk.recorder.next_ids == spelt("<user>one more<ai>"), "what would have been read next"
        assert not desk.sampled


async def test_two_endpoints_cannot_share_a_port(desk: Desk) -> None:
    taken = int(desk.url.rpartition(":")[2])
    with pytest.raises(UsageError, match="cannot listen on"):
        await Endpoint(port=taken).start()


def test_an_endpoint_goes_with_its_loop_and_comes_again_in_another() -> None:
    endpoint = Endpoint()

    async def reach() -> int:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{await endpoint.start()}/health")).status_code

    assert [asyncio.run(reach()) for _ in range(2)] == [200, 200]


@pytest.mark.slow
def test_the_endpoint_needs_no_model_library() -> None:
    modules = "turnwise.service.program, turnwise.service.remote_episodes"
    code = f"import sys, {modules}; print(*{{'torch', 'vllm'}} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not found, f"a policy elsewhere needs none of {found}"


async def test_a_cancellation_while_a_server_closes_is_not_lost() -> None:
    server = await LoopServer.open(Endpoint().app, host="127.0.0.1", port=0)
    closing = asyncio.create_task(server.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await server.close()
    assert not server.alive
