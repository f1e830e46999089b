"""Programs written for Anthropic's Messages API are answered and recorded as those for the chat API are."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

import turnwise as tw
from turnwise.errors import PromptTooLongError
from turnwise.inference.policy import Finish
from turnwise.service import ProgramAgent, ProgramConfig
from turnwise.trainers import merge

from .fakes import Speaker, agent, calls, spelt, text_of
from .test_endpoint import Desk

LOOK: Any = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
SHOWN = '{"name": "look", "description": "Look.", "parameters": {"type": "object"}}'
HELLO: Any = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def claude(desk: Desk, **more: Any) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """Anthropic's own client at a desk."""
    plain = anthropic.DefaultAsyncHttpxClient(verify=False)
    options = {"api_key": desk.key, "max_retries": 0, **more}
    async with anthropic.AsyncAnthropic(base_url=desk.url, http_client=plain, **options) as client:
        yield client


async def test_a_text_in_and_a_text_out() -> None:
    async with Desk(Speaker(["Good day."])) as desk, claude(desk) as client:
        made = await client.messages.create(model="any", max_tokens=50, system="Be kind.", messages=HELLO)
        assert [block.to_dict() for block in made.content] == [{"type": "text", "text": "Good day."}]
        assert (made.role, made.stop_reason, made.stop_sequence) == ("assistant", "end_turn", None)
        (prompt, sampling), (said,) = desk.policy.asked[0], desk.policy.said
        assert prompt == spelt("<sys>Be kind.<user>hello<ai>")
        assert sampling.max_tokens == 50
        assert (made.usage.input_tokens, made.usage.output_tokens) == (len(prompt), len(said.token_ids))


async def test_the_key_may_be_a_bearer_token_or_part_of_the_address() -> None:
    async with Desk(Speaker(lambda prompt: "yes")) as desk:
        async with claude(desk, api_key=None, auth_token=desk.key) as client:
            assert (await client.messages.create(model="any", max_tokens=5, messages=HELLO)).content
        async with claude(desk, api_key="none") as client:
            with pytest.raises(anthropic.AuthenticationError, match="does not belong to a running episode"):
                await client.messages.create(model="any", max_tokens=5, messages=HELLO)
        body = {"max_tokens": 5, "messages": HELLO}
        async with httpx.AsyncClient(verify=False) as plain:
            answer = await plain.post(f"{desk.url}/episodes/{desk.key}/v1/messages", json=body)
        assert answer.json()["type"] == "message"


async def test_several_results_of_one_message_go_on_from_the_sampled_ids() -> None:
    first = "<think>hm</think>I look. " + calls("look", at="sky") + calls("look", at="sea")
    async with Desk(Speaker([first, "Blue."])) as desk, claude(desk) as client:
        made = await client.messages.create(model="any", max_tokens=300, messages=HELLO, tools=[LOOK])
        assert [block.type for block in made.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert made.stop_reason == "tool_use"
        uses = [block for block in made.content if block.type == "tool_use"]
        assert [use.input for use in uses] == [{"at": "sky"}, {"at": "sea"}]
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": uses[0].id, "content": "blue"},
            {"type": "tool_result", "tool_use_id": uses[1].id, "content": [{"type": "text", "text": "grey"}]},
            {"type": "text", "text": "Well?"},
        ]
        blocks = [block.to_dict() for block in made.content]
        history = [
            *HELLO,
            {"role": "assistant", "content": [*blocks[1:], blocks[0]]},
            {"role": "user", "content": results},
        ]
        again = await client.messages.create(model="any", max_tokens=300, messages=history, tools=[LOOK])
        assert again.content[0].type == "text"
        one, two = (sampled.decision for sampled in desk.sampled)
        assert two.prompt_ids == (*one.prompt_ids, *one.action_ids, *spelt("<tool>blue<tool>grey<user>Well?<ai>"))
        assert SHOWN in text_of(one.prompt_ids)


async def test_a_stream_builds_the_same_message() -> None:
    said = "<think>hm, well</think>I look around me, carefully. " + calls("look", at="the sky above the sea")
    asked: Any = {"model": "any", "max_tokens": 300, "messages": HELLO, "tools": [LOOK]}
    async with Desk(Speaker([said, said])) as desk, claude(desk) as client:
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_message()
        assert kinds[0] == "message_start"
        assert kinds[-2:] == ["message_delta", "message_stop"]
        shown = [[(block.type, block.to_dict()) for block in made.content] for made in (whole, final)]
        assert [kind for kind, _ in shown[0]] == ["thinking", "text", "tool_use"]
        for (_, here), (_, there) in zip(*shown, strict=True):
            assert here == {**{name: there[name] for name in here}, **({"id": here["id"]} if "id" in here else {})}
        assert (final.stop_reason, final.usage) == (whole.stop_reason, whole.usage)


@pytest.mark.parametrize(
    ("finish", "more", "expected"),
    [
        (Finish.STOP, {"max_tokens": 3}, ("max_tokens", None, "A l")),
        (Finish.STOP, {"stop_sequences": ["story", " lo"]}, ("stop_sequence", " lo", "A")),
        (Finish.STOP, {}, ("end_turn", None, "A long story.")),
    ],
)
async def test_why_it_ended_is_named(finish: Finish, more: Any, expected: tuple[str, str | None, str]) -> None:
    asked: Any = {"model": "any", "max_tokens": 100, "messages": HELLO, **more}
    async with Desk(Speaker(["A long story."], finish=finish)) as desk, claude(desk) as client:
        made = await client.messages.create(**asked)
        assert made.content[0].type == "text"
        assert (made.stop_reason, made.stop_sequence, made.content[0].text) == expected


async def test_counting_tokens_samples_and_records_nothing() -> None:
    async with Desk(Speaker(["Fine.", "Good."])) as desk, claude(desk) as client:
        count = await client.messages.count_tokens(model="any", system="Be kind.", messages=HELLO, tools=[LOOK])
        assert (desk.policy.asked, desk.sampled) == ([], [])
        asked: Any = {"model": "any", "max_tokens": 100, "system": "Be kind.", "tools": [LOOK]}
        made = await client.messages.create(**asked, messages=HELLO)
        assert made.usage.input_tokens == count.input_tokens
        history: Any = [*HELLO, {"role": "assistant", "content": made.content}, *HELLO]
        count = await client.messages.count_tokens(model="any", system="Be kind.", messages=history, tools=[LOOK])
        made = await client.messages.create(**asked, messages=history)
        assert made.usage.input_tokens == count.input_tokens
        one, two = (sampled.decision for sampled in desk.sampled)
        assert two.prompt_ids[: len(one.prompt_ids)] == one.prompt_ids, "counting does not start a new row"


async def test_one_row_for_a_conversation_as_claude_code_has_it_and_side_calls_apart() -> None:
    """Each request has another hash in its first line, blocks with cache marks, and calls of other kinds in between."""

    def body(number: int, messages: list[Any], **more: Any) -> dict[str, Any]:
        billing = f"x-anthropic-billing-header: cc_version=2.1; cch={number:05x};\n"
        mark = {"cache_control": {"type": "ephemeral"}}
        system = [
            {"type": "text", "text": billing},
            {"type": "text", "text": "You are a coding agent."},
            {"type": "text", "text": "Be brief.", **mark},
        ]
        return {
            "model": "claude-any",
            "max_tokens": 300,
            "system": system,
            "messages": messages,
            "tools": [LOOK | mark],
            "metadata": {"user_id": "u"},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "temperature": 1,
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            **more,
        }

    reminder = {"type": "text", "text": "<system-reminder>Today.</system-reminder>"}
    messages: list[Any] = [{"role": "user", "content": [reminder, {"type": "text", "text": "Fix it."}]}]
    replies = ["I look. " + calls("look", at="a"), "A title", "And again. " + calls("look", at="b"), "Done."]
    async with Desk(Speaker(replies)) as desk:
        headers = {"x-api-key": desk.key, "anthropic-version": "2023-06-01", "anthropic-beta": "x"}
        async with httpx.AsyncClient(verify=False, headers=headers, base_url=desk.url) as http:
            for number in range(3):
                answer = (await http.post("/v1/messages?beta=true", json=body(number, messages))).json()
                messages.append({"role": "assistant", "content": answer["content"]})
                used = [block for block in answer["content"] if block["type"] == "tool_use"]
                results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "seen"} for use in used]
                messages.append({"role": "user", "content": results})
                if number == 0:
                    side = {"model": "claude-small", "max_tokens": 20, "system": "Title?", "messages": HELLO}
                    assert (await http.post("/v1/messages", json=side)).json()["content"][0]["text"] == "A title"
        first, title, second, third = (sampled.decision for sampled in desk.sampled)
        for before, after in ((first, second), (second, third)):
            assert (
                after.prompt_ids[: len(before.prompt_ids + before.action_ids)] == before.prompt_ids + before.action_ids
            )
        assert "cch=" not in text_of(third.prompt_ids)
        assert title.prompt_ids == spelt("<sys>Title?<user>hello<ai>")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"top_p": 0.5}, "top_p"),
        ({"top_k": 5}, "top_k"),
        ({"tool_choice": {"type": "any"}, "tools": [LOOK]}, "tool_choice"),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "several tools at once"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "reads only text"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "Once upon"}]}, "end with a user's message"),
        ({"messages": [{"role": "system", "content": "x"}]}, "roles are user and assistant"),
        ({"messages": []}, "at least one message"),
        ({"messages": "hello"}, "at least one message"),
        ({"messages": [{"role": "user", "content": 5}]}, "text or a list of blocks"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "text or a list of blocks"),
        ({"system": [{"type": "image"}]}, "reads only text"),
        ({"tools": [LOOK | {"description": 5}]}, "not text"),
        *(
            ({"tools": [LOOK | {"input_schema": wrong}]}, "not a JSON schema")
            for wrong in ("x", [1], {"properties": 5}, {"properties": {"a": {"enum": 5}}}, {"type": ["string", {}]})
        ),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"mcp_servers": []}, "mcp_servers"),
    ],
)
async def test_what_cannot_be_done_is_refused(more: dict[str, Any], words: str) -> None:
    async with Desk(Speaker([])) as desk:
        answer = await desk.http.post("/v1/messages", json={"max_tokens": 9, "messages": HELLO} | more)
        assert answer.status_code == 400
        found = answer.json()
        assert (found["type"], found["error"]["type"]) == ("error", "invalid_request_error")
        assert words in found["error"]["message"]
        assert desk.policy.asked == []


async def test_failures_have_the_status_that_clients_know() -> None:
    speaker = Speaker(["x"])
    async with Desk(speaker) as desk, claude(desk) as client:
        speaker.error = PromptTooLongError("11 tokens and a limit of 10")
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: .*11 tokens"):
            await client.messages.create(model="any", max_tokens=5, messages=HELLO)
        speaker.error = ConnectionError("connection refused")
        with pytest.raises(anthropic.InternalServerError, match="the policy failed") as failed:
            await client.messages.create(model="any", max_tokens=5, messages=HELLO)
        assert failed.value.status_code == 503
        assert len(desk.failures) == 1
        desk.recorder.end("the episode is over")
        with pytest.raises(anthropic.APIStatusError, match="the episode is over"):
            await client.messages.create(model="any", max_tokens=5, messages=HELLO)
        (model,) = (await client.models.list()).data
        assert (model.id, model.type) == (desk.endpoint.model, "model")
        answer = await desk.http.post("/v1/messages", content=b"x" * 30_000)
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


PROGRAM = """
import os, anthropic, httpx

client = anthropic.Anthropic()
world = httpx.Client(headers={"Authorization": "Bearer " + os.environ["ANTHROPIC_API_KEY"]}, timeout=60)
url = os.environ["TURNWISE_ENV_URL"]
state, messages = world.get(url).json(), []
while not state["done"]:
    messages.append({"role": "user", "content": state["text"]})
    said = client.messages.create(model=os.environ["ANTHROPIC_MODEL"], max_tokens=50, messages=messages)
    messages.append({"role": "assistant", "content": said.content})
    state = world.post(url, json={"text": said.content[0].text}).json()
"""


class Countdown(tw.TurnEnv):
    """Say 'down' twice."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "2 left."

    def act(self, action: tw.Action) -> tw.Step:
        action.choice(["down"])
        return tw.success("Done.") if self.turn == 2 else tw.running("1 left.")


@pytest.mark.slow
async def test_a_program_of_anthropics_sdk_plays_an_episode_in_one_row(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    program = ProgramConfig(command=(sys.executable, str(tmp_path / "program.py")))
    player = ProgramAgent(agent(Speaker(lambda prompt: "down")), program)
    (episode,) = [one async for one in tw.run_episodes(Countdown, player, [tw.TaskSpec("Countdown")])]
    await player.endpoint.close()
    assert episode.success, episode.error
    (row,) = merge(episode)
    assert sum(row.mask) == 10, "both answers, each of four letters and the stop token"
