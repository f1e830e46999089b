"""Chat templates as token ids: the start of a conversation, and the text between an agent's turns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from ..envs.messages import ImagePart, Message, TextPart, message
from ..errors import ModelError
from .own_text import cleaned, written
from .roles import said_by_user
from .thoughts import Delimiters
from .tool_calls import ToolCallParser, nine_characters
from .tool_dialects import dialect_of

REMEMBERED = 2048
"""Number of texts and renderings that a template caches."""
REMEMBERED_CHARACTERS = 4000
"""Longer texts are not cached: they rarely come twice, and memory stays bounded."""
SAID = "\ue000said\ue001"  # private-use characters: no template has a reason to touch them
PROBE = message("user", "A")
TAIL = 16
"""How many of a prompt's last ids decide whether it ends inside a thought."""
ALSO_ENDS = ("<|eom_id|>",)
"""Control tokens that end a message but appear in no template: Llama's, after a call of a built-in tool."""


class Suffix(NamedTuple):
    """The template's text after the agent's response, up to the agent's next turn.

    Args:
        text: the whole text, beginning with the template's own end of the message.
        open: its ids, if the agent did not end the message itself (``Finish.LENGTH``).
        closed: its ids without the end-of-message token, if the agent sampled a stop token.
        end: id of the end-of-message token.
    """

    text: str
    open: tuple[int, ...]
    closed: tuple[int, ...]
    end: int | None = None


class ChatTemplate:
    """A tokenizer with its chat template.

    Args:
        tokenizer: any Hugging Face tokenizer that has a chat template.
        kwargs: further variables of the template.

    Raises:
        ModelError: there is no chat template, it cannot render a conversation, or no token ends a message.
    """

    def __init__(self, tokenizer: Any, kwargs: Mapping[str, Any] | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"{_name(tokenizer)} has no chat template; use the instruction-tuned model's tokenizer, set "
                "tokenizer.chat_template, or build one with turnwise.inference.nano.build_tokenizer"
            )
        self.tokenizer, self.kwargs = tokenizer, dict(kwargs or {})
        own = tokenizer.chat_template
        self.source: str = "\n".join(own.values()) if isinstance(own, Mapping) else str(own)
        if "<|channel|>" in self.source and "<|call|>" in self.source:
            why = "writes in channels, as gpt-oss does, and Turnwise cannot read them from tokens"
            raise ModelError(f"{_name(tokenizer)} {why}; serve it, and evaluate it as chat:http://host:port/v1#MODEL")
        added = tokenizer.added_tokens_decoder.values()
        tokens = " ".join(map(str, added))
        dialect = dialect_of(self.source, tokens)
        self.dialect, self.tells_dialect = dialect or ToolCallParser.NAME, dialect is not None
        """The name of the parser for the model's tool calls, and whether template or vocabulary determine it."""
        self.thoughts = Delimiters.of(f"{self.source} {tokens}")
        """The model's delimiters of thoughts."""
        special = {str(token) for token in added if token.special}
        self._special = sorted(special | set(tokenizer.all_special_tokens), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, self._special)) or r"(?!)")
        self._bindings: dict[str, Rendering] = {}
        self._encode = lru_cache(REMEMBERED)(self._encode_now)
        self._decode = lru_cache(REMEMBERED)(self._decode_now)
        self.stop_ids = self._ends()
        """Ids that end the agent's response; the first is the one that the template itself writes."""
        if not self.stop_ids:
            raise ModelError(f"{_name(tokenizer)} has no token to end a message; set tokenizer.eos_token")

    def __reduce__(self) -> tuple[type[ChatTemplate], tuple[Any, ...]]:
        """Leave what is remembered behind; it would be much of the bytes, and caches cannot be pickled."""
        return type(self), (self.tokenizer, self.kwargs)

    def _ends(self) -> tuple[int, ...]:
        """Find the control token that ends a message, which in some templates opens the next one."""
        plain = self.bind(())
        answers = [PROBE, *([Message("tool", (TextPart("A"),), name="a")] if self.shows_results else [])]
        found = [end.group() for one in answers if (end := self._control.match(plain.suffix_text((one,)).lstrip()))]
        texts = [*found, *(end for end in ALSO_ENDS if end in self._special)]
        ids = [*map(self.tokenizer.convert_tokens_to_ids, texts), self.tokenizer.eos_token_id]
        self.ends_by_role = len(set(found)) > 1
        """Whether the token that ends a message is the one that opens the next, as in GLM's template."""
        return tuple(dict.fromkeys(i for i in ids if isinstance(i, int)))

    @cached_property
    def shows_results(self) -> bool:
        """Whether the template has a place for tool results; otherwise they become user messages."""
        return self._shows([PROBE, "B", Message("tool", (TextPart(SAID),), name="a", tool_call_id="a")])

    @cached_property
    def shows_system(self) -> bool:
        """Whether the template has a place for a system message; otherwise it becomes a user message."""
        return self._shows([message("system", SAID), PROBE])

    def _shows(self, messages: Sequence[Message | str]) -> bool:
        try:
            return SAID in self.bind(()).applied(messages, [])
        except ModelError:
            return False

    def bind(self, tools: Sequence[Mapping[str, Any]] = ()) -> Rendering:
        """Return the template with these tools, as JSON Schema, in every prompt."""
        key = json.dumps(list(tools), sort_keys=True)
        if key not in self._bindings:
            if len(self._bindings) >= REMEMBERED:
                self._bindings.clear()
            self._bindings[key] = Rendering(self, [dict(tool) for tool in tools])
        return self._bindings[key]

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text, with control tokens recognized and nothing added."""
        return self._encode(text) if len(text) <= REMEMBERED_CHARACTERS else self._encode_now(text)

    def decode(self, ids: tuple[int, ...]) -> str:
        """Return the text of ids, for parsers and people. Training never encodes it again."""
        return self._decode(ids) if len(ids) <= REMEMBERED_CHARACTERS else self._decode_now(ids)

    def written(self, text: str, *, calls: bool = False) -> tuple[int, ...]:
        """Return the ids of an agent's response, with the stop id: the tokens that a demonstration trains.

        Args:
            text: text of the response.
            calls: whether it calls a tool, which some templates end with another stop token.

        Raises:
            ModelError: the vocabulary lacks some of it.
        """
        ids = self.encode(text)
        if self.tokenizer.unk_token_id is not None and self.tokenizer.unk_token_id in ids:
            raise ModelError(
                f"the tokenizer cannot write {text!r}: it decodes as {self.decode(ids)!r}; build it from texts that "
                "include the actions"
            )
        return (*ids, self.stop_ids[1 if calls and self.ends_by_role else 0])

    def opens_thought(self, prompt: tuple[int, ...]) -> bool:
        """Whether a prompt ends inside a thought."""
        return self.thoughts.opened_by(self.decode(prompt[-TAIL:]))

    def harmless(self, text: str) -> str:
        """Return the text with control tokens defused, so that an environment never opens or closes a message."""
        return self._control.sub(lambda found: f"{found.group()[0]}\u200b{found.group()[1:]}", text)

    def split_closer(self, text: str) -> str:
        """Return a suffix without the end-of-message token at its beginning, if there is one."""
        found = self._control.match(text.lstrip())
        return text.lstrip()[found.end() :] if found else text

    def _encode_now(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _decode_now(self, ids: tuple[int, ...]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


class Rendering:
    """A chat template with fixed tools, from ``ChatTemplate.bind``."""

    def __init__(self, template: ChatTemplate, tools: list[dict[str, Any]]) -> None:
        self.template, self.tools = template, tools
        self._suffix = lru_cache(REMEMBERED)(self._suffix_now)
        self._first = lru_cache(REMEMBERED)(self._first_now)
        self._faithful = lru_cache(REMEMBERED)(self._faithful_now)
        self._settled: dict[bool, bool] = {}
        self._frame: tuple[str, str] | None = None
        # The tools' JSON is long and belongs at the front: leave it out of suffixes if that changes nothing.
        self._suffix_tools = tools if tools and self._after((PROBE,), tools) != self._after((PROBE,), []) else []

    @property
    def shows_tools(self) -> bool:
        """Whether the tools appear in the prompt at all."""
        return not self.tools or self.text([PROBE]) != self.template.bind(()).text([PROBE])

    def text(self, messages: Sequence[Message | str]) -> str:
        """Return a whole conversation as the template writes it; strings are the agent's responses."""
        return self._render(messages, self.tools)

    def first(self, messages: tuple[Message, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the text and ids of a prompt before the agent's first response."""
        return self._first(messages) if _short(messages) else self._first_now(messages)

    def suffix(self, messages: tuple[Message, ...]) -> Suffix:
        """Return the template's text between an agent's response, answered by ``messages``, and its next turn."""
        return self._suffix(messages) if _short(messages) else self._suffix_now(messages)

    def suffix_text(self, messages: Sequence[Message]) -> str:
        """Return the text of ``suffix``, rendered after a short stand-in, so its cost does not grow with history."""
        return self._after(messages, self._suffix_tools)

    def _after(self, messages: Sequence[Message], tools: list[dict[str, Any]]) -> str:
        before, said, after = self._render([PROBE, SAID, *messages], tools).rpartition(SAID)
        if not said or SAID in before:
            raise ModelError(f"the chat template of {_name(self.template.tokenizer)} changes the agent's text")
        return after

    def appends(self, *, system: bool) -> bool:
        """Whether the template, for plain text, only ever appends (tried on an invented conversation)."""
        if system not in self._settled:
            opening = [message("system", "S"), PROBE] if system else [PROBE]
            second, third = message("user", "C"), message("user", "E")
            grown = self.text(opening) + "B" + self.suffix_text([second]) + "D" + self.suffix_text([third])
            self._settled[system] = same_text(grown, self.text([*opening, "B", second, "D", third]))
        return self._settled[system]

    def faithful(self, said: str) -> bool:
        """Whether the template still shows this response of the agent unchanged after another user message."""
        return self._faithful(said) if len(said) <= REMEMBERED_CHARACTERS else self._faithful_now(said)

    def _faithful_now(self, said: str) -> bool:
        if self._frame is None:
            self._frame = self.text([PROBE]), self.suffix_text([PROBE])
        before, after = self._frame
        return same_text(before + said + after, self.text([PROBE, said, PROBE]))

    def _first_now(self, messages: tuple[Message, ...]) -> tuple[str, tuple[int, ...]]:
        text = self.text(messages)
        return text, self.template.encode(text)

    def _suffix_now(self, messages: tuple[Message, ...]) -> Suffix:
        text = self.suffix_text(messages)
        rest = self.template.split_closer(text)
        ids = self.template.encode(text)
        return Suffix(text, ids, self.template.encode(rest), ids[0] if rest != text else None)

    def _render(self, messages: Sequence[Message | str], tools: list[dict[str, Any]]) -> str:
        roles = {m.role for m in messages if isinstance(m, Message)}
        places = {"system": "shows_system", "tool": "shows_results"}
        lacking = {role for role in roles & set(places) if not getattr(self.template, places[role])}
        return self.applied(said_by_user(messages, lacking) if lacking else messages, tools)

    def applied(self, messages: Sequence[Message | str], tools: list[dict[str, Any]]) -> str:
        """Render a conversation with the template itself.

        Raises:
            ModelError: the template refuses it, or it contains an image.
        """
        conversation = [
            {"role": "assistant", "content": m} if isinstance(m, str) else self._as_json(m) for m in messages
        ]
        tokenizer, options = self.template.tokenizer, {**self.template.kwargs, "tokenize": False}
        try:
            return str(
                tokenizer.apply_chat_template(conversation, tools=tools or None, add_generation_prompt=True, **options)
            )
        except Exception as error:  # templates are programs, which can raise anything
            roles = ", ".join(str(entry["role"]) for entry in conversation) or "none"
            text = f"the chat template of {_name(tokenizer)} refuses messages of these roles ({roles}): {error}"
            raise ModelError(text) from error

    def _as_json(self, item: Message) -> dict[str, Any]:
        if any(isinstance(part, ImagePart) for part in item.parts):
            raise ModelError(
                f"a {item.role} message has an image, but this policy reads only text; use an environment that "
                "describes its screen in words, or a vision policy"
            )
        clean = self.template.harmless
        entry: dict[str, Any] = {"role": item.role, "content": written(item.parts, clean)}
        if item.tool_calls:
            entry["tool_calls"] = [
                {"type": "function", "id": self._id(c.id), "function": cleaned(function, clean)}
                for c in item.tool_calls
                for function in [{"name": c.name, "arguments": dict(c.arguments)}]
            ]
        entry |= {"name": clean(item.name)} if item.name else {}
        return entry | ({"tool_call_id": id} if (id := self._id(item.tool_call_id or "")) else {})

    def _id(self, id: str) -> str:
        """Return a call's id in the template's form: Mistral's needs exactly nine letters and digits."""
        return nine_characters(id) if "[TOOL_CALLS]" in self.template.source else self.template.harmless(id)


def same_text(one: str, other: str) -> bool:
    """Compare texts except for white space: a template that trims lines does not rewrite history."""
    return one == other or "".join(one.split()) == "".join(other.split())


def _short(messages: tuple[Message, ...]) -> bool:
    # Tool calls contain dictionaries, which are not hashable.
    return sum(len(m.text) for m in messages) <= REMEMBERED_CHARACTERS and not any(m.tool_calls for m in messages)


def _name(tokenizer: Any) -> str:
    return f"tokenizer {getattr(tokenizer, 'name_or_path', '') or type(tokenizer).__name__}"
