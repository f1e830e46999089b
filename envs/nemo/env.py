"""``NemoGymEnv``: a resources server of NeMo Gym, with rows of a dataset, as an environment of this process."""

from __future__ import annotations

import contextlib
import json
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ...errors import ContractError, EnvironmentFailedError, UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ..base import TurnEnv
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, Message, Observation, TextPart, ToolCall, clip, message
from ..remote.address import Address, nemo_place
from ..remote.env import LOOP, close_later
from ..remote.wire import Wire
from ..sampling import random_call_or_text
from ..step import OUT_OF_TURNS, Step
from ..tools import Tool
from .rows import Row, RowFamily, Rows, all_tools, first_messages, read_rows, row_tools
from .session import NemoSession

Agent = Literal["auto", "simple_agent", "gymnasium_agent"]
MAX_CALLS = 16
"""Maximum number of calls of one message; the rest is refused."""
OVER = "The episode is over."
CLOSING = 5.0
"""Seconds that ``close`` waits for the server."""
VERDICT = re.compile("success|reward|mask_sample|failure_.*")
"""Fields of a verdict. A row's own are not sent, since a server returns the row with its verdict."""


class NemoGymEnv(TurnEnv[Row]):
    """A resources server of NeMo Gym; ``turnwise.make("nemo://host:port", rows="train.jsonl")`` creates it.

    The environment acts as NeMo Gym's agents do. As ``simple_agent``, it posts each tool call to the server. A message
    without a call, or the last turn, ends the episode, and the server verifies it. As ``gymnasium_agent``, it posts
    each message to ``/step``, and the server ends the episode.

    Args:
        address: the server.
        rows: file of JSON lines, or a list of rows. Each is a task, and its index is the seed.
        agent: agent whose requests the server answers (default: by the server's routes).
        max_turns: limit of turns, since NeMo Gym announces none.
        success_at: reward from which an episode counts as a success, unless the server reports one.
    """

    blocking = False
    forks = Forks.REPLAY
    max_turns_truncates = True
    contract = Contract(max_seconds=60.0)

    def __init__(
        self,
        address: Address,
        rows: Rows,
        *,
        agent: Agent = "auto",
        max_turns: int | None = None,
        success_at: float = 1.0,
    ) -> None:
        if agent not in ("auto", "simple_agent", "gymnasium_agent"):
            raise UsageError(f"agent must be auto, simple_agent or gymnasium_agent; got {agent!r}")
        self._family = RowFamily(read_rows(rows))
        self._tools = all_tools(self._family.rows)
        self._session = NemoSession(address)
        self._closing = weakref.finalize(self, close_later, self._session)
        try:
            self._steps = agent == "gymnasium_agent" or (agent == "auto" and LOOP.wait(_takes_steps(self._session)))
        except BaseException:
            self._closing()
            raise
        self._success_at = success_at
        self._output: list[dict[str, Any]] = []
        super().__init__(max_turns=max_turns)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the row of the episode offers; those of all rows before the first episode."""
        return self._tools

    @property
    def wire(self) -> Wire:
        """The connection, as certification needs to know it."""
        return Wire("nemo")

    @property
    def remote_digest(self) -> str:
        """Digest of the rows; the server announces no version."""
        return f"nemo:{self._family.digest}"

    def tasks(self) -> TaskFamily[Row]:  # type: ignore[override]
        """Return the family of the rows."""
        return self._family

    async def start(self, task: Row, rng: Rng) -> Observation:
        """Begin a session."""
        if not self._closing.alive:
            raise ContractError("this environment is closed; make another one")
        await LOOP.run(self._session.renew())
        self._row, self._output = task.fields, []
        self._tools = row_tools(task)
        first = first_messages(task)
        opening = await LOOP.run(self._session.post("/reset" if self._steps else "/seed_session", self._row))
        promises = _mapping(opening.get("info")) if self._steps else opening  # a server of Turnwise closes both kinds
        if promises.get("supports_explicit_close") is True:
            self._session.ends_by = "/close" if self._steps else "/close_session"
        return Observation((*first, *(_messages(opening) if self._steps else ())))

    async def act(self, action: Action) -> Step:
        """Take one action as the agent of the server does."""
        calls = [
            ToolCall(call.name, call.arguments, call.id or f"call_{self.turn}_{number}")
            for number, call in enumerate(action.tool_calls)
        ]
        made = [_message_item(action.text, self.turn)] if action.text or not calls else []
        made += [_call_item(call) for call in calls]
        if self._steps:
            return await self._stepped_there(made, calls)
        self._output += made
        if not calls:
            return await self._verified(Observation.of(OVER))
        answers: list[Message] = []
        failed: list[str] = []
        for number, call in enumerate(calls):
            text, succeeded = await self._called(call, number)
            answers.append(Message("tool", (TextPart(text),), name=call.name, tool_call_id=call.id))
            failed += [] if succeeded else [call.name]
            self._output.append({"type": "function_call_output", "call_id": call.id, "output": text})
        observation, info = Observation(tuple(answers)), {"tool_errors": failed} if failed else {}
        if self.turn < self.max_turns:
            return Step(observation, info=info)
        step = await self._verified(observation)
        return replace(step, terminated=False, truncated=True, info={**step.info, **info, OUT_OF_TURNS: True})

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random call that fits the rows' schemas, or a text."""
        return random_call_or_text(self.tools, rng)

    def close(self) -> None:
        """End the session."""
        if self._closing.alive:
            with contextlib.suppress(Exception):
                LOOP.wait(self._session.close(), CLOSING)
        self._closing()
        super().close()

    # -- the inside -----------------------------------------------------------------------------------------------

    _row: dict[str, Any]

    async def _called(self, call: ToolCall, number: int) -> tuple[str, bool]:
        if number >= MAX_CALLS:
            return f"Error: one message may call {MAX_CALLS} tools; this one was not called.", False
        if call.name not in {tool.name for tool in self.tools}:  # any other name could be a route of the protocol
            known = ", ".join(tool.name for tool in self.tools) or "none"
            return f"Error: there is no tool {clip(call.name)!r}. You have: {known}.", False
        return await LOOP.run(self._session.call(call.name, call.arguments))

    async def _verified(self, observation: Observation) -> Step:
        """End the episode by the server's verdict."""
        row = {name: value for name, value in self._row.items() if not VERDICT.fullmatch(name)}
        body = row | {"response": _response(self._output)}
        verdict = await LOOP.run(self._session.post("/verify", body))
        self._session.ends_by = ""  # the verdict ended it
        if verdict.get("mask_sample"):
            raise EnvironmentFailedError(f"the server could not verify: {verdict.get('failure_reason')!s:.500}")
        reward, sent = _number(verdict.get("reward")), set(body)
        info = {name: value for name, value in verdict.items() if name not in sent and _plain(value)}
        return Step(
            observation, reward, terminated=True, score=self._score_by(reward, verdict), info={"verified": info}
        )

    async def _stepped_there(self, made: list[dict[str, Any]], calls: Sequence[ToolCall]) -> Step:
        answer = await LOOP.run(self._session.post("/step", self._row | {"response": _response(made)}))
        info = _mapping(answer.get("info"))
        texts = {each.get("call_id"): each.get("output") for each in map(_mapping, info.get("tool_outputs") or ())}
        outputs = [
            Message("tool", (TextPart(str(texts[call.id])),), name=call.name, tool_call_id=call.id)
            for call in calls
            if call.id in texts
        ]
        observation = Observation((*outputs, *_messages(answer)))
        reward, terminated = _number(answer.get("reward")), bool(answer.get("terminated"))
        truncated = bool(answer.get("truncated")) and not terminated
        score = self._score_by(reward, info) if terminated or truncated else None
        if not observation.messages:
            observation = Observation.of(OVER if score else "Go on.")
        return Step(observation, reward, terminated, truncated, score)

    def _score_by(self, reward: float, verdict: Mapping[str, Any]) -> Score:
        success = verdict.get("success")
        return Score(success=success if isinstance(success, bool) else reward >= self._success_at)


def nemo(id: str, rows: Rows | None = None, **kwargs: Any) -> NemoGymEnv:
    """Create the environment that ``nemo://host:port`` names; the arguments are those of ``NemoGymEnv``.

    Raises:
        UsageError: the id is malformed, there are no rows, or the server is not one of NeMo Gym.
        InfrastructureError: the server cannot be reached.
    """
    if rows is None:
        raise UsageError(f"{id} has no tasks of its own: name a dataset of NeMo Gym with env_kwargs.rows=FILE.jsonl")
    return NemoGymEnv(nemo_place(id), rows, **kwargs)


async def _takes_steps(session: NemoSession) -> bool:
    """Return whether a server has the routes of ``gymnasium_agent`` alone; one that lists none has the others."""
    paths = await session.paths()
    if paths and not {"/verify", "/step"} & paths:
        raise UsageError("this is not a resources server of NeMo Gym: it has neither /verify nor /step")
    return "/step" in paths and "/seed_session" not in paths


def _response(output: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a response of a model, as the Responses API has it."""
    return {
        "id": "turnwise",
        "created_at": 0,
        "model": "turnwise",
        "object": "response",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message_item(text: str, turn: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": f"msg_{turn}", "type": "message", "role": "assistant", "status": "completed", "content": content}


def _call_item(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments))
    return {"type": "function_call", "name": call.name, "call_id": call.id, "arguments": arguments}


def _messages(answer: Mapping[str, Any]) -> tuple[Message, ...]:
    text = answer.get("observation")
    return (message("user", str(text)),) if text else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EnvironmentFailedError(f"the server's reward is not a number: {value!r:.60}")
    return float(value)


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)
