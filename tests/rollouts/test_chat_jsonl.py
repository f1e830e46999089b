"""Episodes as chat messages have what chat APIs demand."""

from __future__ import annotations

from turnwise.envs.messages import Message, ToolCall, message
from turnwise.rollouts.chat_jsonl import with_call_ids


def test_calls_without_ids_get_one_and_results_name_it() -> None:
    two = Message("assistant", tool_calls=(ToolCall("look", {}), ToolCall("go", {}, "own")))
    results = (message("tool", "a key"), message("tool", "done"))
    found = list(with_call_ids([message("user", "hi"), two, *results, two, *results]))
    calls = [call.id for each in found for call in each.tool_calls]
    assert calls == ["call_1_0", "own", "call_4_0", "own"]
    assert [each.tool_call_id for each in found if each.role == "tool"] == calls
