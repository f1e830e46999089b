"""verifiers' tasksets: each rollout is an episode, and the harness's model is the agent."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import tomllib
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import EnvironmentFailedError, UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import Split, TaskSpec
from ..base import TurnEnv
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, ImagePart, Message, Observation, Part, TextPart, ToolCall
from ..openenv.forms import tools_of
from ..required import usable_limit
from ..sampling import random_call_or_text
from ..step import OUT_OF_TURNS, Step, running
from ..tools import Tool
from .verifiers_process import LOOP, VerifiersProcess, process_for

PYTHON = "VERIFIERS_PYTHON"
"""Variable with the Python that has verifiers."""
HOW = (
    "python3.12 -m venv v && v/bin/pip install verifiers==0.4.0 uv, then set VERIFIERS_PYTHON=v/bin/python "
    "or env_kwargs.python=v/bin/python"
)
NO_ORACLE = "tasks of verifiers have no solutions that could be played"
OVER = "The episode is over."
_usual: dict[str, str] = {}
"""Interpreters from ``VERIFIERS_PYTHON`` that have opened a taskset, by its name."""
DATA_URL = "data:"


class TasksetFamily(TaskFamily[int]):
    """The tasks of a taskset; the seed is the number of the task. verifiers has no splits, so there is one.

    Args:
        name: name of the taskset, with a digest of its tasks.
        count: number of tasks.
    """

    splits = (Split.TRAIN,)

    def __init__(self, name: str, count: int) -> None:
        self.name, self.seeds = name, count

    def build(self, spec: TaskSpec, rng: Rng) -> int:
        """Return the number of the task."""
        return spec.seed


class VerifiersTaskset(TurnEnv[int]):
    """A taskset of verifiers 0.4; ``turnwise.make("verifiers/NAME-v0")`` creates it.

    verifiers plays the rollout in a process of its own Python. Each request of its harness to the model is an
    observation, of the new messages alone. The reward comes at the end, and is the sum of verifiers' own rewards.

    Args:
        name: name of the installed taskset.
        python: interpreter of the virtual environment with verifiers (default: ``VERIFIERS_PYTHON``).
        path: folder of tasksets that are not installed there; ``PYTHONPATH`` is this process's own.
        config: contents of verifiers' ``[env]`` table, or a TOML file with one, as ``vf-eval @ FILE`` reads it.
        count: number of tasks (default: all, or 1,000 of an infinite taskset).
        max_turns: limit of turns, which truncates (default: the role's own, which terminates, or else 50).
        success_at: reward from which an episode counts as a success.
        settings: settings of the taskset, such as ``dataset_split="test"``.
    """

    blocking = False
    opens_slowly = True
    """Whether creating and forking it wait for another process, so that ``EnvPool`` does them on a thread."""
    forks = Forks.REPLAY
    contract = Contract(max_observation_chars=200_000, max_seconds=60.0, exempt={"oracle_solves": NO_ORACLE})

    def __init__(
        self,
        name: str,
        *,
        python: str | None = None,
        path: str | Path | None = None,
        config: str | Path | Mapping[str, Any] | None = None,
        count: int | None = None,
        max_turns: int | None = None,
        success_at: float = 1.0,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if count is not None and count < 1:
            raise UsageError(f"count is {count}; it must be at least 1")
        if max_turns is not None:
            usable_limit(max_turns)
        fields = _config(config)
        fields |= {"taskset": {**fields.get("taskset", {}), **settings}, "count": count}
        folder = None if path is None else os.path.abspath(path)
        opening = {"name": name, "config": fields, "max_turns": max_turns}
        interpreter = _interpreter(python or _usual_python(name), name)
        self._opening = (interpreter, folder, opening)
        try:
            json.dumps(fields)
        except (TypeError, ValueError) as error:
            raise UsageError(f"verifiers/{name} takes only settings that JSON has: {error}") from None
        self._use(*LOOP.wait(process_for(*self._opening)))
        if not python:
            _usual[name] = interpreter
        described = self._process.description
        self._family = TasksetFamily(f"verifiers:{name}:{described['digest']}", described["count"])
        self._tools, self._success_at = _tools(described["tools"]), success_at
        self.max_turns_truncates = not described["own_limit"]
        super().__init__(max_turns=described["max_turns"], render_mode=render_mode)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the harness offers; those of the first task before the first episode."""
        return self._tools

    def tasks(self) -> TaskFamily[int]:  # type: ignore[override]
        """Return the family of its tasks."""
        return self._family

    async def start(self, task: int, rng: Rng) -> Observation:
        """Start a rollout, and return the first messages to its model."""
        self._use(*await LOOP.run(process_for(*self._opening)))
        self._offered: Any = None
        self._seen = ""
        asked = await LOOP.run(self._process.ask("begin", number=self._number, task=task))
        self._see(asked)
        if "messages" not in asked:
            raise EnvironmentFailedError(asked.get("failed", "the rollout ended before it asked its model"))
        self._offered, self._tools = asked["tools"], _tools(asked["tools"])
        return _observation(asked["messages"])

    async def act(self, action: Action) -> Step:
        """Answer the harness as its model, and return what it asks next."""
        message: dict[str, Any] = {"role": "assistant", "content": action.text}
        if action.tool_calls:
            message["tool_calls"] = [_call(call, self.turn, number) for number, call in enumerate(action.tool_calls)]
        asked = await LOOP.run(self._process.ask("act", number=self._number, message=message))
        self._see(asked)
        if "failed" in asked:
            raise EnvironmentFailedError(asked["failed"])
        if "messages" in asked:
            if asked["tools"] != self._offered:
                raise EnvironmentFailedError("the harness changed its tools within the rollout; this is not supported")
            return running(_observation(asked["messages"]))
        out_of_turns = asked["stop"] == "max_turns"
        truncated = asked["limit"] and not (out_of_turns and not self.max_turns_truncates)
        info = {"verifiers": {name: asked[name] for name in ("rewards", "metrics", "stop")}}
        return Step(
            Observation.of(OVER),
            float(asked["reward"]),
            terminated=not truncated,
            truncated=truncated,
            score=Score(success=asked["reward"] >= self._success_at),
            info={**info, OUT_OF_TURNS: True} if out_of_turns else info,
        )

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random call that fits the tools' schemas, or a text."""
        return random_call_or_text(self.tools, rng)

    def state_key(self) -> str:
        """Return a digest of all observations and rewards so far, which a replay has to repeat."""
        return self._seen

    def close(self) -> None:
        """Stop the rollout."""
        if self._end is not None:
            self._end()
        super().close()

    # -- the inside -----------------------------------------------------------------------------------------------

    _process: VerifiersProcess
    _number: int
    _end: weakref.finalize[Any, Any] | None = None
    _seen = ""

    def _use(self, process: VerifiersProcess, number: int) -> None:
        """Take the place of an environment in a process, and leave the one before."""
        before, self._end = self._end, weakref.finalize(self, _ended, process, number)
        self._process, self._number = process, number
        if before is not None:
            before()

    def _see(self, asked: Mapping[str, Any]) -> None:
        """Add what the rollout answered to the digest."""
        said = json.dumps([self._seen, asked.get("messages"), asked.get("reward")], sort_keys=True)
        self._seen = hashlib.sha256(said.encode()).hexdigest()[:16]


def _usual_python(name: str) -> str:
    """Return the Python of ``VERIFIERS_PYTHON``; after one has worked, that one, so that a fork reads no variable."""
    if not (python := _usual.get(name) or os.environ.get(PYTHON, "")):
        raise UsageError(f"verifiers/{name} needs verifiers in a virtual environment of its own: {HOW}")
    return python


def _interpreter(python: str, name: str) -> str:
    if (found := shutil.which(python)) is None:
        raise UsageError(f"there is no interpreter {python} for verifiers/{name}; {HOW}")
    return os.path.abspath(found)  # not resolved: the link is what makes it the virtual environment's


def _config(config: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of verifiers' ``[env]``."""
    if config is None or isinstance(config, Mapping):
        return dict(config or {})
    try:
        found = tomllib.loads(Path(config).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the config of verifiers {config}: {error}") from None
    if not isinstance(found.get("env"), dict):
        raise UsageError(f"{config} has no table [env]; write it as for `vf-eval @ {config}`")
    return dict(found["env"])


def _ended(process: VerifiersProcess, number: int) -> None:
    """Leave a process, and stop the rollout there without waiting, also from a finalizer."""
    process.users.discard(number)

    async def end() -> None:
        with contextlib.suppress(Exception):
            await process.ask("end", number=number)

    if process.lives:
        LOOP.submit(end())


def _tools(offered: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return tools in the form of OpenAI's API as tools; their functions exist only in verifiers' process."""
    functions = [tool["function"] for tool in offered if tool.get("type") == "function"]
    return tools_of([{**function, "input_schema": function.get("parameters")} for function in functions])


def _call(call: ToolCall, turn: int, number: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    return {"id": call.id or f"call_{turn}_{number}", "type": "function", "function": function}


def _observation(messages: Sequence[Mapping[str, Any]]) -> Observation:
    return Observation(tuple(_message(message) for message in messages))


def _message(message: Mapping[str, Any]) -> Message:
    role = {"developer": "system"}.get(message["role"], message["role"])
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    return Message(
        role,
        tuple(_part(part) for part in parts),
        tuple(ToolCall(function["name"], json.loads(function["arguments"]), id) for id, function in calls),
        name=message.get("name"),
        tool_call_id=message.get("tool_call_id"),
    )


def _part(part: Mapping[str, Any]) -> Part:
    if part["type"] == "text":
        return TextPart(part["text"])
    url = part["image_url"]["url"] if part["type"] == "image_url" else ""
    head, comma, data = url.partition(";base64,")
    if not (comma and head.startswith(DATA_URL)):
        raise EnvironmentFailedError(f"a message has a part of type {part['type']} that cannot be shown here")
    return ImagePart(base64.b64decode(data), head.removeprefix(DATA_URL))
