"""The responses API tells what the chat API tells, in items and events."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from .fakes import Speaker, calls, spelt, text_of
from .test_endpoint import Desk

TOOL: Any = {
    "type": "function",
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object"},
    "strict": True,
}
SHOWN = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}


async def test_a_text_in_and_a_text_out() -> None:
    async with Desk(Speaker(["Good day."])) as desk:
        made = await desk.client.responses.create(model="any", input="hello", instructions="Be kind.")
        assert (made.output_text, made.status) == ("Good day.", "completed")
        assert desk.policy.asked[0][0] == spelt("<sys>Be kind.<user>hello<ai>")
        assert made.usage is not None
        assert made.usage.output_tokens == len(desk.policy.said[0].token_ids)


async def test_calls_are_items_and_come_back_as_one_message() -> None:
    async with Desk(Speaker(["I look. " + calls("look", at="sky") + calls("look", at="sea"), "Blue."])) as desk:
        first = await desk.client.responses.create(model="any", input="hello", tools=[TOOL])
        items = list(first.output)
        assert [item.type for item in items] == ["message", "function_call", "function_call"]
        history: list[Any] = [{"role": "user", "content": "hello"}, *(item.model_dump() for item in items)]
        for item in items[1:]:
            assert item.type == "function_call"
            history.append({"type": "function_call_output", "call_id": item.call_id, "output": "blue"})
        second = await desk.client.responses.create(model="any", input=history, tools=[TOOL])
        assert second.output_text == "Blue."
        one, two = (sampled.decision for sampled in desk.sampled)
        extended = (*one.prompt_ids, *one.action_ids)
        assert two.prompt_ids == (*extended, *spelt("<tool>blue<tool>blue<ai>"))
        assert json.dumps(SHOWN) in text_of(one.prompt_ids), "shown as the chat API shows it, less what is not told"


async def test_a_response_goes_on_from_an_earlier_one() -> None:
    async with Desk(Speaker(["one", "two", "three"])) as desk:
        first = await desk.client.responses.create(model="any", input="count", instructions="Count.")
        second = await desk.client.responses.create(
            model="any", input="on", instructions="Count.", previous_response_id=first.id
        )
        one, two = (sampled.decision for sampled in desk.sampled)
        assert two.prompt_ids == (*one.prompt_ids, *one.action_ids, *spelt("<user>on<ai>"))
        bare = await desk.client.responses.create(model="any", input="on", previous_response_id=second.id)
        assert bare.output_text == "three"
        assert desk.policy.asked[2][0][:1] == spelt("<user>"), "instructions are not carried over"
        with pytest.raises(openai.NotFoundError, match="does not belong to this episode"):
            await desk.client.responses.create(model="any", input="on", previous_response_id="resp_99")


async def test_a_stream_of_events_builds_the_same_response() -> None:
    said = "<think>hm</think>I look around me, carefully. " + calls("look", at="the sky above the sea")
    async with Desk(Speaker([said, said])) as desk:
        whole = await desk.client.responses.create(model="any", input="hello", tools=[TOOL])
        async with desk.client.responses.stream(model="any", input="hello", tools=[TOOL]) as stream:
            numbers = [event.sequence_number async for event in stream]
            final = await stream.get_final_response()
        assert numbers == list(range(len(numbers)))
        assert final.output_text == whole.output_text == "I look around me, carefully."
        arguments = [item.arguments for made in (whole, final) for item in made.output if item.type == "function_call"]
        assert arguments == ['{"at": "the sky above the sea"}'] * 2
        assert final.output[0].type == "reasoning"


async def test_length_is_named() -> None:
    async with Desk(Speaker(["A long story."])) as desk:
        made = await desk.client.responses.create(model="any", input="hello", max_output_tokens=3)
        assert made.status == "incomplete"
        assert made.incomplete_details is not None
        assert made.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"top_p": 0.5}, "top_p"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tool_choice": "required", "tools": [TOOL]}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"reasoning": {"effort": "high"}}, "reasoning"),
        ({"parallel_tool_calls": False, "tools": [TOOL]}, "parallel_tool_calls"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_be_done_is_refused(more: dict[str, Any], param: str) -> None:
    async with Desk(Speaker([])) as desk:
        with pytest.raises(openai.BadRequestError) as refused:
            await desk.client.responses.create(**({"model": "any", "input": "hello"} | more))
        body: Any = refused.value.body
        assert body["param"] == param
