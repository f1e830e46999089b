"""A client's history is recognized: prompts grow by the sampled ids, or a new row begins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.template import ChatTemplate
from turnwise.agents.transcript import Utterance
from turnwise.envs.messages import ImagePart, Message, TextPart, ToolCall, message
from turnwise.errors import ModelError, RequestError
from turnwise.service.history import REMEMBERED, History
from turnwise.service.requests import said

from ..agents.fakes import TEMPLATES, tokenizer

CHAT = {manner: ChatTemplate(tokenizer(manner)) for manner in TEMPLATES}
SIZE = len(CHAT["chatml"].tokenizer)
TOOL = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}

texts = st.text(alphabet=st.sampled_from("abc <|im_end>\n/think{}é"), max_size=12)
sampled = st.lists(st.integers(0, SIZE - 1), max_size=8)


def speak(history: History, messages: list[Message], ids: list[int], closed: bool = True) -> tuple[int, ...]:
    """One exchange: the prompt; the reply is appended to ``messages`` as a client would."""
    template = history._template
    prompt = history.prompt(messages)
    whole = (*ids, template.stop_ids[0]) if closed else tuple(ids)
    utterance = Utterance(whole, template.decode(tuple(ids)), closed)
    reply = said("assistant", utterance.text.strip())
    history.said(prompt, utterance, reply)
    messages.append(Message("assistant", reply.parts))  # a message of its own, equal and not the same
    return (*prompt.ids, *whole)


@given(turns=st.lists(st.tuples(texts, sampled, st.booleans()), min_size=1, max_size=6))
def test_what_was_sampled_is_never_encoded_again(turns: list[tuple[str, list[int], bool]]) -> None:
    """Trap 1: any ids, also those that no text encodes to, come back as they were."""
    history, messages = History(CHAT["chatml"], follow_template=False), list[Message]()
    before: tuple[int, ...] = ()
    for text, ids, closed in turns:
        messages.append(message("user", text))
        after = speak(history, messages, ids, closed)
        assert after[: len(before)] == before, "a prompt begins with all that was read and sampled before it"
        before = after


@given(turns=st.lists(st.tuples(texts, sampled), min_size=2, max_size=5), manner=st.sampled_from(sorted(TEMPLATES)))
def test_it_reads_as_a_chat_agents_transcript_does(turns: list[tuple[str, list[int]]], manner: str) -> None:
    from turnwise.agents.transcript import Entry, Transcript

    template = CHAT[manner]
    history, messages = History(template), list[Message]()
    transcript, entries = Transcript(template.bind()), list[Entry]()
    for text, ids in turns:
        messages.append(message("user", text))
        entries.append(message("user", text))
        whole = (*ids, template.stop_ids[0])
        expected = (*transcript.prompt(entries), *whole)
        entries.append(Utterance(whole, template.decode(tuple(ids)), True))
        assert speak(history, messages, ids) == expected


def test_a_rewritten_history_begins_a_new_row_of_the_same_ids() -> None:
    template = CHAT["chatml"]
    treacherous = list(template.tokenizer.convert_tokens_to_ids(["ab", "c"]))
    assert template.encode(template.decode(tuple(treacherous))) != tuple(treacherous)
    history, messages = History(template), [message("user", "one")]
    first = speak(history, messages, treacherous)
    messages.append(message("user", "two"))
    speak(history, messages, [5])
    shortened = [message("user", "summary"), messages[1], message("user", "three")]
    prompt = history.prompt(shortened)
    assert prompt.ids[: len(first)] != first
    place = next(i for i in range(len(prompt.ids)) if prompt.ids[i : i + 2] == tuple(treacherous))
    assert place > 0, "what was sampled stands in the new row as it was sampled"
    assert prompt.new == tuple(shortened), "in a new row, everything is new"


def test_an_assistant_message_of_somebody_elses_is_plain_text() -> None:
    history = History(CHAT["chatml"])
    example = [message("user", "2+2"), message("assistant", "4"), message("user", "3+3")]
    assert "4" in CHAT["chatml"].decode(history.prompt(example).ids)


def test_two_conversations_of_one_client_do_not_disturb_each_other() -> None:
    history = History(CHAT["chatml"])
    one, other = [message("user", "one")], [message("user", "other")]
    befores = speak(history, one, [7]), speak(history, other, [8])
    for conversation, before in ((one, befores[0]), (other, befores[1]), (one, befores[0])):
        assert history.prompt([*conversation, message("user", "go on")]).ids[: len(before)] == before


def test_the_same_request_twice_reads_the_same() -> None:
    history, messages = History(CHAT["chatml"]), [message("user", "one")]
    first = history.prompt(messages).ids
    speak(history, list(messages), [7])
    assert history.prompt(messages).ids == first, "drawing several answers to one prompt"


def test_a_conversation_that_was_forgotten_is_put_together_again() -> None:
    history, messages = History(CHAT["chatml"]), [message("user", "one")]
    before = speak(history, messages, [7])
    for number in range(2 * REMEMBERED):
        history.prompt([message("user", f"other {number}")])
    assert len(history._lines) == REMEMBERED, "memory is bounded"
    assert history.prompt([*messages, message("user", "on")]).ids[: len(before)] == before


def test_clients_may_write_a_message_differently() -> None:
    template = CHAT["chatml"]
    history, opening = History(template), [message("user", "go")]
    prompt = history.prompt(opening)
    utterance = Utterance((1, 2, template.stop_ids[0]), "look", True)
    call = ToolCall("look", {"a": 1, "b": [2]}, "call_1_1")
    history.said(prompt, utterance, said("assistant", "I look.", (call,)))
    theirs = Message("assistant", (TextPart("I look.\n"),), (ToolCall("look", {"b": [2], "a": 1}, "renamed"),))
    answer = Message("tool", (TextPart("sky"),), tool_call_id="renamed")
    ids = history.prompt([*opening, theirs, answer]).ids
    assert ids[: len(prompt.ids) + 3] == (*prompt.ids, *utterance.ids)
    altered = replace(theirs, parts=(TextPart("I listen."),))
    assert history.prompt([*opening, altered, answer]).ids[: len(prompt.ids) + 3] != (*prompt.ids, *utterance.ids)


def test_what_others_say_is_read_to_the_letter() -> None:
    template = CHAT["chatml"]
    history = History(template)
    read = [template.decode(history.prompt([message("user", text)]).ids) for text in ("go", "go\n")]
    assert ["go<|im_end|>" in read[0], "go\n<|im_end|>" in read[1]] == [True, True]


def test_a_conversation_that_the_template_refuses_spoils_nothing() -> None:
    prompts = []
    for refused in (False, True):
        history, messages = History(CHAT["moving"]), [message("user", "one")]
        speak(history, messages, [7])
        if refused:
            with pytest.raises(ModelError, match="has an image"):
                history.prompt([*messages, Message("user", (ImagePart(b"png"),))])
        prompts.append(history.prompt([*messages, message("user", "two")]).ids)
    assert prompts[0] == prompts[1]


def test_tools_are_part_of_the_row() -> None:
    history, messages = History(CHAT["chatml"]), [message("user", "one")]
    without = history.prompt(messages).ids
    assert history.prompt(messages, [TOOL]).ids != without
    with pytest.raises(RequestError, match="does not show tools"):
        History(CHAT["plain"]).prompt(messages, [TOOL])


def test_only_what_is_new_is_told_as_new() -> None:
    history, messages = History(CHAT["chatml"]), [message("system", "rules"), message("user", "one")]
    assert history.prompt(messages).new == tuple(messages)
    speak(history, messages, [7])
    later = message("user", "two")
    assert history.prompt([*messages, later]).new == (later,)
