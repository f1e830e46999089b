"""Traffic in the shapes of agent programs: every token as it was sampled, one row per conversation, side calls apart.

Claude Code's is in ``test_anthropic_messages.py``. Here are Codex's, which speaks the responses API as a stream of
events, and OpenHands', which speaks the chat API. Texts and tools are this file's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnwise.agents.agent import Decision

from .fakes import Speaker, calls, spelt, text_of
from .test_endpoint import Desk

CODEX: dict[str, dict[str, Any]] = {
    "exec_command": {"cmd": {"type": "string"}, "yield_time_ms": {"type": "number"}},
    "update_plan": {"plan": {"type": "array", "items": {"type": "object"}}},
}
KEPT = {
    "message": ("type", "role", "content"),
    "function_call": ("type", "name", "arguments", "call_id"),
    "reasoning": ("type", "summary", "encrypted_content"),
}
"""Fields of an answer's items that Codex repeats: neither ids nor states, and not the text of thoughts."""
HANDS = {"terminal": {"command": {"type": "string"}}, "finish": {"message": {"type": "string"}}}


def rows_of(desk: Desk) -> list[list[int]]:
    """Return the answers of each row by number: a prompt begins with the exact ids that precede it in its row."""
    found: list[list[Decision]] = []
    decisions = [sampled.decision for sampled in desk.sampled]
    for one in decisions:
        whole = [(*row[-1].prompt_ids, *row[-1].action_ids) for row in found]
        continued = [row for row, ids in zip(found, whole, strict=True) if one.prompt_ids[: len(ids)] == ids]
        if continued:
            continued[0].append(one)
        else:
            found.append([one])
    return [[decisions.index(one) for one in row] for row in found]


def assert_exact(desk: Desk) -> None:
    """Check that the recorded tokens are those that the policy read and sampled."""
    decisions = [sampled.decision for sampled in desk.sampled]
    assert [one.prompt_ids for one in decisions] == [prompt for prompt, _ in desk.policy.asked]
    assert [one.action_ids for one in decisions] == [said.token_ids for said in desk.policy.said]
    assert [one.logprobs for one in decisions] == [said.logprobs for said in desk.policy.said]


def schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)[:1], "additionalProperties": False}


def item(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


class Codex:
    """A client that keeps a conversation as Codex does, from the finished items of each stream."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        setting = item("user", "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>")
        self.items = [item("developer", "Ask before you leave /work."), setting, item("user", "Fix the test.")]

    async def ask(self, **more: Any) -> list[dict[str, Any]]:
        """Send all items, add those of the answer, and return its calls."""
        tools = [
            {"type": "function", "name": name, "description": name, "strict": False, "parameters": schema(properties)}
            for name, properties in CODEX.items()
        ]
        body = {
            "model": "policy", "instructions": "You are a coding agent in a terminal.", "input": self.items,
            "tools": tools, "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"summary": "auto"},
            "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0198-c",
            "client_metadata": {"installation": "5f"},
        }  # fmt: skip
        headers = {"accept": "text/event-stream", "originator": "codex_exec", "session_id": "0198-c"}
        answer = await self.desk.http.post("/v1/responses", json=body | more, headers=headers)
        assert answer.status_code == 200, answer.text
        events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n") if line[:5] == "data:"]
        assert events[-1]["type"] == "response.completed", "Codex takes a stream without it for a broken one"
        assert events[-1]["response"]["usage"]["total_tokens"] > 0
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        self.items += [{name: one.get(name) for name in KEPT[one["type"]]} for one in done]
        return [one for one in done if one["type"] == "function_call"]

    def answer(self, asked: Sequence[dict[str, Any]]) -> None:
        """Add the results of calls, in the order of the calls."""
        self.items += [
            {"type": "function_call_output", "call_id": call["call_id"], "output": f"Exit code: 0\nran {call['name']}"}
            for call in asked
        ]


async def test_codex_has_one_row_until_it_sums_up_and_another_afterward() -> None:
    plan = calls("update_plan", plan=[{"step": "Run it", "status": "in_progress"}])
    replies = [
        "<think>First the tests.</think>I run them. "
        + calls("exec_command", cmd="pytest -q", yield_time_ms=9e3)
        + plan,
        calls("exec_command", cmd="sed -n 1,9p a.py"),
        "It is fixed.",
        "We fixed a.py.",
        "Nothing is left to do.",
    ]
    async with Desk(Speaker(replies)) as desk:
        codex = Codex(desk)
        first = await codex.ask()
        assert [json.loads(call["arguments"]) for call in first] == [
            {"cmd": "pytest -q", "yield_time_ms": 9000.0},
            {"plan": [{"step": "Run it", "status": "in_progress"}]},
        ], "it runs several calls of one answer, although it sends parallel_tool_calls = false"
        codex.answer(first)
        codex.answer(await codex.ask())
        assert await codex.ask() == []
        spoken = [one for one in codex.items if one["type"] == "message"]
        codex.items.append(item("user", "Summarize the work for whoever goes on."))
        await codex.ask(tools=[])
        summary = codex.items[-1]["content"][0]["text"]
        codex.items = [*spoken[:3], item("user", f"Somebody else began this:\n{summary}"), item("user", "Go on.")]
        assert await codex.ask() == []
        assert_exact(desk)
        assert rows_of(desk) == [[0, 1, 2], [3], [4]]
        second = desk.sampled[1].decision.prompt_ids
        outputs = "<tool>Exit code: 0\nran exec_command<tool>Exit code: 0\nran update_plan<ai>"
        assert second[-len(spelt(outputs)) :] == spelt(outputs), "thoughts remain in between, as they were sampled"
        asked_to_sum_up, anew = (sampled.decision.prompt_ids for sampled in desk.sampled[3:])
        for one in desk.policy.said[:3]:
            assert text_of(one.token_ids) in text_of(asked_to_sum_up), "the policy's own answers, thoughts included"
        assert text_of(anew).endswith("<user>Somebody else began this:\nWe fixed a.py.<user>Go on.<ai>")


class OpenHands:
    """A client that keeps a conversation as OpenHands does: parts of text, results with names, and calls as sent."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.messages = [self.message("system", "You are a software agent."), self.message("user", "Fix the test.")]

    @staticmethod
    def message(role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}], **more}

    async def complete(self, messages: list[Any], **more: Any) -> dict[str, Any]:
        """Send messages and return the answer's; without tools, as its summaries and titles are requested."""
        body = {"model": "policy", "messages": messages, "max_completion_tokens": 300, "temperature": 0.0, **more}
        answer = await self.desk.http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["choices"][0]["message"]
        return found

    async def step(self) -> list[dict[str, Any]]:
        """Send the conversation, add the answer to it, and return its calls."""
        tools = [
            {"type": "function", "function": {"name": name, "description": name, "parameters": schema(properties)}}
            for name, properties in HANDS.items()
        ]
        said = await self.complete(self.messages, tools=tools, metadata={"tags": ["agent"]})
        made: list[dict[str, Any]] = said.get("tool_calls") or []
        again = self.message("assistant", said["content"] or "", tool_calls=made)
        if not said["content"]:
            del again["content"]
        if "reasoning_content" in said:
            again["reasoning_content"] = said["reasoning_content"]
        self.messages.append(again)
        return made

    async def run(self) -> None:
        """Make a step, and add the results of its calls."""
        for call in await self.step():
            name, command = call["function"]["name"], json.loads(call["function"]["arguments"])["command"]
            self.messages.append(self.message("tool", f"ran {command}", tool_call_id=call["id"], name=name))


async def test_openhands_has_one_row_until_it_condenses_with_titles_and_summaries_apart() -> None:
    replies = [
        "<think>Where?</think>I look. " + calls("terminal", command="ls") + calls("terminal", command="cat a.py"),
        "A failing test",
        calls("terminal", command="pytest -q"),
        "It looked at a.py.",
        calls("finish", message="Done."),
    ]
    async with Desk(Speaker(replies)) as desk:
        hands = OpenHands(desk)
        await hands.run()
        title = [hands.message("system", "Name the conversation."), hands.message("user", "Fix the test.")]
        assert (await hands.complete(title))["content"] == "A failing test"
        await hands.run()
        kept = hands.messages[-2:]  # the last call and its result
        told = "\n".join(json.dumps(one) for one in hands.messages[2:-2])
        said = await hands.complete([hands.message("user", f"Sum up these events:\n{told}")], metadata={"tags": ["c"]})
        hands.messages = [*hands.messages[:2], hands.message("user", said["content"]), *kept]
        (last,) = await hands.step()
        assert last["function"]["name"] == "finish"
        assert_exact(desk)
        assert rows_of(desk) == [[0, 2], [1], [3], [4]]
        assert desk.sampled[1].decision.prompt_ids == spelt("<sys>Name the conversation.<user>Fix the test.<ai>")
        second, condensed = desk.sampled[2].decision, desk.sampled[4].decision
        results = spelt("<tool>ran ls<tool>ran cat a.py<ai>")
        assert second.prompt_ids[-len(results) :] == results
        tail = (*spelt("<user>It looked at a.py.<ai>"), *second.action_ids, *spelt("<tool>ran pytest -q<ai>"))
        assert condensed.prompt_ids[-len(tail) :] == tail, "what was kept of the policy's is as it was sampled"
