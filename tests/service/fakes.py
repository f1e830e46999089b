"""A policy with scripted answers, and programs that need no SDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from turnwise.agents.chat import ChatAgent
from turnwise.agents.tool_calls import ToolCallParser
from turnwise.envs.messages import Action, ToolCall
from turnwise.inference.nano import build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling

BYTES = build_tokenizer("byte")
STOP = BYTES.eos_token_id
CLIENT = """
import json, os, sys, urllib.request, urllib.error

def http(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return json.load(answer)

def ask(messages, **more):
    answer = http(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": "m", "messages": messages, **more})
    return answer["choices"][0]["message"]

def env(action=None):
    return http(os.environ["TURNWISE_ENV_URL"], action)
"""
LOOP = """
state = env()
messages = list(state["messages"])
while not state["done"]:
    said = ask(messages, **({"tools": state["tools"]} if state["tools"] else {}))
    messages.append(said)
    state = env({"text": said["content"] or "", "tool_calls": said.get("tool_calls", [])})
    messages += state["messages"]
"""


def program(path: Path, source: str) -> tuple[str, ...]:
    """The command of a program with this source; it starts fast, for it loads no packages."""
    path.write_text(CLIENT + source, encoding="utf-8")
    return (sys.executable, "-I", "-S", str(path))


def spelt(text: str) -> tuple[int, ...]:
    """The ids of a text."""
    return tuple(BYTES.encode(text, add_special_tokens=False))


def text_of(ids: Sequence[int]) -> str:
    """The text of ids, control tokens included."""
    return str(BYTES.decode(list(ids)))


class Speaker:
    """A policy that answers a prompt with the text that ``reply`` makes of the prompt's text.

    Every request's prompt, sampling and completion are kept. ``hold`` makes requests wait.
    """

    def __init__(self, reply: Callable[[str], str] | Sequence[str], *, finish: Finish = Finish.STOP) -> None:
        self._reply = reply
        self._finish = finish
        self.asked: list[tuple[tuple[int, ...], Sampling]] = []
        self.said: list[Completion] = []
        self.hold: asyncio.Event | None = None
        self.started, self.stopped = asyncio.Event(), asyncio.Event()
        self.cancelled = 0
        self.error: Exception | None = None

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        number = len(self.asked)
        self.asked.append((tuple(prompt_ids), sampling))
        self.started.set()
        if self.error is not None:
            raise self.error
        if self.hold is not None:
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                self.stopped.set()
                raise
        text = self._reply(text_of(prompt_ids)) if callable(self._reply) else self._reply[number]
        ids = spelt(text)[: sampling.max_tokens]
        finish = self._finish
        if len(ids) == sampling.max_tokens:
            finish = Finish.LENGTH
        elif finish is Finish.STOP:
            ids = (*ids, STOP)
        made = Completion(ids, tuple(-0.01 * (i + 1) for i in range(len(ids))), (number,) * len(ids), finish)
        self.said.append(made)
        return made


def agent(policy: Any, **sampling: Any) -> ChatAgent:
    """A chat agent around a policy, with a tokenizer of bytes."""
    return ChatAgent(policy, BYTES, sampling=Sampling(**({"max_tokens": 400} | sampling)))


def calls(name: str, **arguments: Any) -> str:
    """The text of a tool call, as a model writes it."""
    return ToolCallParser().format(Action(tool_calls=(ToolCall(name, arguments),)))
