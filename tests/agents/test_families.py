"""Chat templates of ten model families: prompts, responses, calls and answers, byte for byte.

The templates in ``families/`` are abridged: the prose is shorter, control tokens and their order are as published.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnwise import Action, Observation, ToolCall
from turnwise.agents.chat import ChatAgent
from turnwise.agents.settings import AgentSettings
from turnwise.agents.template import ChatTemplate
from turnwise.agents.tool_calls import ToolCallParser
from turnwise.agents.tool_dialects import DeepSeekParser, PhiParser
from turnwise.envs.messages import Message, TextPart, message
from turnwise.envs.tools import Tool, describe
from turnwise.errors import ModelError
from turnwise.inference.policy import Finish

from .fakes import Parrot, context, tokenizer

FOLDER = Path(__file__).parent / "families"


def look(at: str) -> str:
    """Look at something.

    Args:
        at: position to check.
    """
    return at


LOOK: Tool = describe(look, "look")
JSON = json.dumps(LOOK.to_json())
FENCED = DeepSeekParser(source="```json").how


@dataclass(frozen=True)
class Family:
    """The exact prompts and responses of a family's model in a conversation with one call.

    Args:
        special: control tokens of its vocabulary; the first is ``eos_token``.
        dialect: the parser that ``auto`` picks.
        first: the prompt, after "Be brief." from the system and "Where?" from the user.
        said: what the model then samples, with the stop token at its end.
        second: all that follows when the tool answers "a door".
        plain: what it says to "Left or right?" in a text environment, a thought where the family thinks.
        rewritten: the conversation up to ``second`` in the template's form, if it rewrites earlier responses.
    """

    special: Sequence[str]
    dialect: str
    first: str
    said: str
    second: str
    plain: str = "right"
    rewritten: str | None = None


CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "door"}}\n</tool_call>'
HERMES = f"# Tools\n\n<tools>\n{JSON}\n</tools>\n\nCall as <tool_call>\n"
HERMES += '{"name": <name>, "arguments": <object>}\n</tool_call>'
CHATML = "<|im_end|>\n<|im_start|>user\n<tool_response>\na door\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
DESCRIBED = "You can call these tools:\n" + JSON + "\n"
RESULT = "<tool_response>\na door\n</tool_response>"
GLM = "\n<think>look first</think>\n<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>door</arg_value>\n</tool_call>"

FAMILIES = {
    "qwen2.5": Family(
        ("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
        "tools",
        f"<|im_start|>system\nBe brief.\n\n{HERMES}<|im_end|>\n<|im_start|>user\nWhere?<|im_end|>\n"
        "<|im_start|>assistant\n",
        f"{CALL}<|im_end|>",
        CHATML,
    ),
    "qwen3": Family(
        ("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
        "tools",
        f"<|im_start|>system\nBe brief.\n\n{HERMES}<|im_end|>\n<|im_start|>user\nWhere?<|im_end|>\n"
        "<|im_start|>assistant\n",
        f"<think>\nlook first\n</think>\n\n{CALL}<|im_end|>",
        CHATML,
        "<think>\nleft is a wall; right?\n</think>\n\nright",
    ),
    "llama3.1": Family(
        ("<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|python_tag|>"),
        "llama",
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\n"
        "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
        'Respond in the format {"name": function name, "parameters": dictionary}.\n\n'
        f"{json.dumps(LOOK.to_json(), indent=4)}\n\nWhere?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        '{"name": "look", "parameters": {"at": "door"}}<|eot_id|>',
        '<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n"a door"<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "mistral-v3-tekken": Family(
        (
            "</s>",
            "<s>",
            "[INST]",
            "[/INST]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_CALLS]",
            "[TOOL_RESULTS]",
        ),
        "mistral",
        f"<s>[AVAILABLE_TOOLS][{JSON}][/AVAILABLE_TOOLS][INST]Be brief.\n\nWhere?[/INST]",
        '[TOOL_CALLS][{"name": "look", "arguments": {"at": "door"}, "id": "a1B2c3D4e"}]</s>',
        '</s>[TOOL_RESULTS]{"content": "a door", "call_id": "a1B2c3D4e"}[/TOOL_RESULTS]',
    ),
    "magistral": Family(
        ("</s>", "<s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]", "[THINK]", "[/THINK]"),
        "mistral",
        f"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][AVAILABLE_TOOLS][{JSON}][/AVAILABLE_TOOLS][INST]Where?[/INST]",
        '[THINK]look first[/THINK][TOOL_CALLS]look[ARGS]{"at": "door"}</s>',
        "</s>[TOOL_RESULTS]a door[/TOOL_RESULTS]",
        "[THINK]left is a wall; right?[/THINK]right",
    ),
    "deepseek-r1": Family(
        ("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>"),
        "deepseek",
        f"<｜begin▁of▁sentence｜>Be brief.\n\n{DESCRIBED}{FENCED}<｜User｜>Where?<｜Assistant｜><think>\n",
        "look first\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n"
        '{"at": "door"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        "<｜end▁of▁sentence｜><｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>a door<｜tool▁output▁end｜>"
        "<｜tool▁outputs▁end｜>",
        "left is a wall; right?\n</think>\n\nright",
        rewritten=f"<｜begin▁of▁sentence｜>Be brief.\n\n{DESCRIBED}{FENCED}<｜User｜>Where?<｜Assistant｜>\n\n"
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n"
        '{"at": "door"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    ),
    "gemma3": Family(
        ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        "tools",
        f"<bos><start_of_turn>user\nBe brief.\n\n{DESCRIBED}{ToolCallParser.HOW}\n\nWhere?<end_of_turn>\n"
        "<start_of_turn>model\n",
        f"{CALL}<end_of_turn>",
        f"<end_of_turn>\n<start_of_turn>user\n{RESULT}<end_of_turn>\n<start_of_turn>model\n",
    ),
    "phi-4-mini": Family(
        (
            "<|endoftext|>",
            "<|system|>",
            "<|user|>",
            "<|assistant|>",
            "<|end|>",
            "<|tool|>",
            "<|tool_call|>",
            "<|/tool_call|>",
        ),
        "phi",
        f"<|system|>Be brief.\n\n{DESCRIBED}{PhiParser.HOW}<|end|><|user|>Where?<|end|><|assistant|>",
        '<|tool_call|>[{"name": "look", "arguments": {"at": "door"}}]<|/tool_call|><|end|>',
        "<|end|><|tool|>a door<|end|><|assistant|>",
    ),
    "glm-4.5": Family(
        ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
        "glm",
        f"[gMASK]<sop><|system|>\n# Tools\n<tools>\n{JSON}\n</tools>\nCall as <tool_call>{{name}}\n"
        "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>"
        "<|system|>\nBe brief.<|user|>\nWhere?<|assistant|>",
        f"{GLM}<|observation|>",
        "<|observation|>\n<tool_response>\na door\n</tool_response><|assistant|>",
        "\n<think>left is a wall; right?</think>\nright",
    ),
    "olmo2": Family(
        ("<|endoftext|>", "<|padding|>"),
        "tools",
        f"<|endoftext|><|system|>\nBe brief.\n\n{DESCRIBED}{ToolCallParser.HOW}\n<|user|>\nWhere?\n<|assistant|>\n",
        f"{CALL}<|endoftext|>",
        f"<|endoftext|>\n<|user|>\n{RESULT}\n<|assistant|>\n",
    ),
}


def made(name: str) -> Any:
    """A byte-level tokenizer with a family's control tokens and template."""
    family = FAMILIES[name]
    source = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    return tokenizer(chat_template=source, eos_token=family.special[0], special=family.special)


TEMPLATES = {name: ChatTemplate(made(name)) for name in FAMILIES}


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_call_is_read_answered_and_never_encoded_again(name: str) -> None:
    family, template = FAMILIES[name], TEMPLATES[name]
    sampled = template.encode(family.said)
    assert sampled[-1] in template.stop_ids, "the family's token that ends a call is a stop token"
    policy = Parrot([(sampled, Finish.STOP), (template.encode("ok"), Finish.LENGTH)])
    agent = ChatAgent(policy, template, system="Be brief.")
    session = agent.start(context(tools=[LOOK]))
    one = await session.act(Observation.of("Where?"))
    assert template.decode(one.prompt_ids) == family.first
    assert [(call.name, call.arguments) for call in one.action.tool_calls] == [("look", {"at": "door"})], one.action
    assert (one.action.text, one.action.problem) == ("", None), "neither thoughts nor control tokens are speech"
    result = Message("tool", (TextPart("a door"),), name="look", tool_call_id=one.action.tool_calls[0].id)
    two = await session.act(Observation((result,)))
    stop = template.decode((sampled[-1],))
    if family.rewritten is None:
        assert two.prompt_ids[: len(one.prompt_ids) + len(sampled)] == one.prompt_ids + sampled, "one row"
        assert template.decode(two.prompt_ids) == family.first + family.said.removesuffix(stop) + family.second
    else:
        assert session.rows == 2
        assert template.decode(two.prompt_ids) == family.rewritten + family.second


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_thought_is_in_the_tokens_and_not_in_the_action(name: str) -> None:
    template, family = TEMPLATES[name], FAMILIES[name]
    sampled = (*template.encode(family.plain), template.stop_ids[0])
    session = ChatAgent(Parrot([(sampled, Finish.STOP)]), template).start(context())
    decision = await session.act(Observation.of("Left or right?"))
    assert decision.action == Action("right")
    assert decision.action.choice(["left", "right"]) == "right"
    assert decision.action_ids == sampled
    assert decision.thoughts == ("" if family.plain == "right" else "left is a wall; right?"), "the record keeps it"


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.plain != "right"])
@pytest.mark.parametrize("tools", [(), (LOOK,)], ids=["text", "tools"])
async def test_a_thought_cut_off_by_the_limit_is_no_action(name: str, tools: Sequence[Tool]) -> None:
    template, family = TEMPLATES[name], FAMILIES[name]
    cut = template.encode(family.plain.partition(";")[0])
    session = ChatAgent(Parrot([(cut, Finish.LENGTH)]), template).start(context(tools=tools))
    decision = await session.act(Observation.of("Left or right?"))
    assert "never closed" in (decision.action.problem or ""), decision.action
    assert decision.thoughts == "left is a wall"


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_demonstration_reads_back_as_it_was_played(name: str) -> None:
    """Behavior cloning writes what the family's own parser reads, also for a scripted call without an id."""
    template = TEMPLATES[name]
    agent = ChatAgent(Parrot([]), template)
    calls = (ToolCall("look", {"at": "5"}), ToolCall("look", {"at": 'a "door"\nand more'}))
    result = Message("tool", (TextPart("a door"),), name="look")
    turns = [(Observation.of("Where?"), Action(tool_calls=calls)), (Observation((result, result)), Action("done"))]
    made = agent.encode_demonstration(turns, tools=[LOOK])
    ends = template.encode(FAMILIES[name].said)[-1]
    assert made[0].action_ids[-1] == ends, "a call ends with the token that the family ends calls with"
    replayed = ChatAgent(Parrot([(one.action_ids, Finish.STOP) for one in made]), template).start(context(tools=[LOOK]))
    lived = [await replayed.act(observation) for observation, _ in turns]
    assert [one.prompt_ids for one in lived] == [one.prompt_ids for one in made]
    assert [(call.name, call.arguments) for call in lived[0].action.tool_calls] == [
        (call.name, call.arguments) for call in calls
    ]
    assert lived[1].action == Action("done")


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3", "llama3.1", "mistral-v3-tekken", "magistral"])
def test_a_call_is_written_as_the_template_itself_would_write_it(name: str) -> None:
    template = TEMPLATES[name]
    call = ToolCall("look", {"at": "5"}, "a1B2c3D4e")
    result = Message("tool", (TextPart("a door"),), name="look", tool_call_id=call.id)
    turns = [(Observation.of("Where?"), Action(tool_calls=(call,))), (Observation((result,)), Action("done"))]
    _, last = ChatAgent(Parrot([]), template).encode_demonstration(turns, tools=[LOOK])
    asked = Message("assistant", (), tool_calls=(call,))
    own = template.bind([LOOK.to_json()]).text([message("user", "Where?"), asked, result])
    assert template.decode(last.prompt_ids) == own


@pytest.mark.parametrize("name", FAMILIES)
def test_auto_says_which_dialect_it_picked(name: str) -> None:
    agent, family = ChatAgent(Parrot([]), TEMPLATES[name]), FAMILIES[name]
    (remark,) = agent.remarks([LOOK])
    assert f"parser {family.dialect!r}" in remark
    assert ("system message" in remark) == ("You can call these tools" in family.first)
    assert agent.remarks([]) == (), "without tools there was nothing to choose"


def test_a_dialect_that_is_named_is_that_of_the_template_and_the_tools() -> None:
    agent = ChatAgent(Parrot([]), TEMPLATES["glm-4.5"], parser="glm")
    read = agent.parser_for([LOOK]).parse("<tool_call>look<arg_key>at</arg_key><arg_value>5</arg_value></tool_call>")
    assert read.tool_calls[0].arguments == {"at": "5"}, "the schema asks for text"
    agent = ChatAgent(Parrot([]), TEMPLATES["magistral"], parser="mistral")
    assert agent.parser_for([LOOK]).format(Action(tool_calls=(ToolCall("look"),))) == "[TOOL_CALLS]look[ARGS]{}"


def test_thoughts_are_switched_off_where_the_template_can() -> None:
    for name, closed in (("qwen3", "<think>\n\n</think>\n\n"), ("glm-4.5", "\n<think></think>")):
        agent = ChatAgent.of(AgentSettings(enable_thinking=False), Parrot([]), made(name))
        assert agent.template.bind(()).text([message("user", "x")]).endswith(closed)
    with pytest.raises(ModelError, match="does not support"):
        ChatAgent.of(AgentSettings(enable_thinking=False), Parrot([]), made("qwen2.5"))
    settings = AgentSettings(chat_template_kwargs={"date_string": "1 Jan 2026"})
    agent = ChatAgent.of(settings, Parrot([]), made("llama3.1"))
    assert "Today Date: 1 Jan 2026" in agent.template.bind(()).text([message("user", "x")])


async def test_two_calls_in_a_row_are_kept_where_a_template_refuses_them_as_plain_words() -> None:
    """Mistral's roles must alternate, and what was sampled is never written again as a call of the template's own."""
    template = TEMPLATES["mistral-v3-tekken"]
    said = template.encode(FAMILIES["mistral-v3-tekken"].said)
    session = ChatAgent(Parrot([(said, Finish.STOP)] * 3), template).start(context(tools=[LOOK]))
    await session.act(Observation.of("Where?"))
    for _ in range(2):
        answer = Message("tool", (TextPart("a door"),), name="look", tool_call_id="a1B2c3D4e")
        await session.act(Observation((answer,)))
    assert session.rows == 1


async def test_a_stop_token_that_opens_another_role_is_followed_by_the_right_one() -> None:
    """GLM stops with the token of the role that it expects next; the environment may answer as another one."""
    template = TEMPLATES["glm-4.5"]
    sampled = template.encode("Hm.<|observation|>")
    session = ChatAgent(Parrot([(sampled, Finish.STOP)] * 2), template).start(context(tools=[LOOK]))
    one = await session.act(Observation.of("Where?"))
    two = await session.act(Observation.of("Call a tool."))
    assert template.decode(two.prompt_ids).endswith("<|user|>\nCall a tool.<|assistant|>"), two
    assert one.action == Action("Hm.")


async def test_calls_that_nothing_tells_how_to_write_are_explained_in_the_system_message() -> None:
    shows = TEMPLATES["olmo2"].source.replace("{%- for", "{% if tools %}{{ tools | tojson }}{% endif %}{%- for", 1)
    agent = ChatAgent(Parrot([]), tokenizer(chat_template=shows, eos_token="<|endoftext|>", special=["<|endoftext|>"]))
    (first,) = agent.encode_demonstration([(Observation.of("Where?"), Action("done"))], tools=[LOOK])
    assert f"{ToolCallParser.HOW}\n<|user|>" in agent.template.decode(first.prompt_ids)
    assert "You can call these tools" not in agent.template.decode(first.prompt_ids), "the template shows them"
    assert "a dialect that is not known here" in agent.remarks([LOOK])[0]


def test_a_model_that_writes_in_channels_is_refused() -> None:
    harmony = (
        "{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}<|call|>{% endfor %}"
    )
    with pytest.raises(ModelError, match=r"writes in channels, as gpt-oss does.*chat:http://host:port/v1#MODEL"):
        ChatTemplate(tokenizer(chat_template=harmony, eos_token="<|call|>", special=["<|call|>"]))
