"""``ProgramAgent``: a program of anybody's plays the episodes, and what its policy sampled for it is recorded."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..agents.agent import Agent, Decision, EpisodeContext
from ..agents.chat import ChatAgent
from ..envs.messages import Action, Message, Observation
from ..envs.tools import Tool
from ..errors import PolicyError, PolicyTimeoutError, ProgramFailedError, RequestError, UsageError
from .chat import arguments
from .endpoint import Endpoint, Guest
from .process import Process, ProgramConfig
from .recorder import Recorder, Sampled

OVER = "the episode is over"
TASK = "{task}"
QUOTED = 1000
"""Characters of standard error that an episode's error quotes."""
LONGEST_TASK = 100_000
"""Bytes of a task that a program is started with; Linux passes on 131,072 at most. All of it is in the environment."""


class ProgramAgent(ChatAgent):
    """A chat agent whose episodes are played by a program: any that talks to a model as OpenAI's SDK does.

    Per episode, the program is started with these in its environment, and ends before the episode's record is sealed:

    ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``
        the policy, as a model of the chat completions and the responses API, for this one episode.
    ``OPENAI_MODEL``
        a name for the policy; any other does as well.
    ``TURNWISE_ENV_URL``, ``TURNWISE_TOOLS_URL``
        the environment: ``GET`` shows what there is to see, ``POST`` takes an action; ``POST …/NAME`` calls one tool.
    ``TURNWISE_TASK``
        the text of the first observation, which ``{task}`` in the command becomes too.

    What the policy sampled since the last step belongs to the step that follows: the last answer to the turn of that
    step, earlier ones to unsent turns before it. A program that took no step itself answers by what it writes to
    standard output. One that ends well before the episode does says nothing for the rest of it; one that crashes or
    takes too long is ``policy_failed``.

    Args:
        chat: the agent whose policy, template and sampling are used. Its context strategy, parser and system message
            are not: what the policy reads is the program's affair.
        program: what to run.
        endpoint: to share with other agents; one of its own is made when omitted.
    """

    def __init__(self, chat: ChatAgent, program: ProgramConfig, *, endpoint: Endpoint | None = None) -> None:
        super().__init__(
            chat.policy,
            chat.template,
            sampling=chat.sampling,
            context=chat.context,
            parser=chat.parser,
            system=chat.system,
            show_tools=chat.show_tools,
            follow_template=chat.follow_template,
        )
        self.notes, self.context_name = chat.notes, chat.context_name
        self.program = program
        self.endpoint = endpoint or Endpoint()

    def remarks(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """What a reader of results should know; no parser of the agent's own is used."""
        return self.notes

    def start(self, context: EpisodeContext) -> ProgramSession:  # type: ignore[override]
        """A session that starts the program with its first observation."""
        return ProgramSession(self, context)


def program_agent(agent: Agent, program: ProgramConfig) -> ProgramAgent:
    """The agent that a program is with a model behind it.

    Raises:
        UsageError: the agent is no model, and so has no answers to give.
    """
    return ProgramAgent(chat_agent(agent), program)


def chat_agent(agent: Agent) -> ChatAgent:
    """The agent, if it has a language model that can answer others.

    Raises:
        UsageError: it has none.
    """
    if not isinstance(agent, ChatAgent):
        raise UsageError(
            f"programs need a language model as the policy, and {type(agent).__name__} is not one; name the folder of "
            "a model, or a vLLM server (for a chat API, let the program call it)"
        )
    return agent


@dataclass(slots=True, eq=False)
class _Step:
    """The program acts; it is answered with what there is to see then."""

    action: Action
    answer: asyncio.Future[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Ended:
    """The program is over."""

    code: int


class ProgramSession:
    """One episode of a program: the runner asks for an action, the program takes one, and each waits for the other."""

    def __init__(self, agent: ProgramAgent, context: EpisodeContext) -> None:
        self._agent, self._context = agent, context
        self._recorder = Recorder(
            agent,
            session=context.episode_id,
            rng=context.rng,
            record=self._sampled,
            fixed_temperature=agent.program.fixed_temperature,
        )
        self._events: asyncio.Queue[_Step | _Ended | Exception] = asyncio.Queue()
        self._pending: list[Sampled] = []
        self._open: _Step | None = None
        self._seen: Observation | None = None
        self._turn = 0
        self._acted = self._over = self._silent = False
        self._key = ""
        self._process: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._deadline = 0.0

    # -- the runner's side --------------------------------------------------------------------------------------

    async def act(self, observation: Observation) -> Decision:
        """The program's next action, with the tokens of the answer before it.

        Raises:
            ProgramFailedError: it crashed, wrote without end, or ended without having done anything.
            PolicyTimeoutError: it takes too long.
            InfrastructureError: the policy's server is gone, or the program could not be started.
        """
        if self._process is None:
            await self._begin(observation)
        self._show(observation)
        if self._silent:
            return self._decided(Action())
        event = await self._next()
        if isinstance(event, Exception):
            raise event
        if isinstance(event, _Step):
            self._open, self._acted = event, True
            return self._decided(event.action)
        return self._decided(self._last_word(event.code))

    async def over(self, observation: Observation) -> tuple[int, ...]:
        """Show the program how it ended, give it time to end by itself; what its policy would have read next."""
        self._over = True
        self._recorder.end(OVER)
        self._show(observation)
        self._refuse_steps()
        if self._watch is not None:
            await asyncio.wait((self._watch,), timeout=self._agent.program.grace)
        return self._recorder.next_ids

    async def close(self) -> None:
        """Kill the program, withdraw its key, record what it had sampled and not acted on."""
        self._over = True
        self._agent.endpoint.dismiss(self._key)
        self._recorder.end(OVER)
        for sampled in self._pending:
            self._context.record(sampled.observation, sampled.decision)
        self._pending.clear()
        self._refuse_steps()
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None:
            await self._process.stop()

    async def _begin(self, observation: Observation) -> None:
        program, endpoint = self._agent.program, self._agent.endpoint
        address = await endpoint.start()
        self._key = endpoint.admit(Guest(self._recorder, self, self._events.put_nowait))
        self._seen = observation
        own = f"{address}/episodes/{self._key}"
        task = _plain(observation.text.replace("\0", "")).encode()[:LONGEST_TASK].decode(errors="ignore")
        environment = {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": self._key,
            "OPENAI_MODEL": endpoint.model,
            "TURNWISE_ENV_URL": f"{own}/env",
            "TURNWISE_TOOLS_URL": f"{own}/tools",
            "TURNWISE_TASK": task,
            "NO_PROXY": f"{endpoint.host},localhost",
            "no_proxy": f"{endpoint.host},localhost",
        }
        words = [word.replace(TASK, task) for word in program.command]
        self._deadline = asyncio.get_running_loop().time() + program.timeout
        self._process = await Process.start(words, environment, max_output=program.max_output)
        self._watch = asyncio.create_task(self._watched(self._process), name="turnwise-program")

    async def _watched(self, process: Process) -> None:
        self._events.put_nowait(_Ended(await process.wait()))

    def _show(self, observation: Observation) -> None:
        self._seen = observation
        if self._open is not None:
            self._turn += 1
            if not self._open.answer.done():
                self._open.answer.set_result(self._state())
            self._open = None

    async def _next(self) -> _Step | _Ended | Exception:
        try:
            async with asyncio.timeout_at(self._deadline) as deadline:
                return await self._events.get()
        except TimeoutError:
            if not deadline.expired():
                raise
            limit = self._agent.program.timeout
            raise PolicyTimeoutError(f"{self._who()} did not finish within {limit:g} s (program.timeout)") from None

    def _last_word(self, code: int) -> Action:
        """What a program that has ended says to the environment; from then on it is silent."""
        process = self._process
        assert process is not None
        self._silent = True
        if process.flooded:
            raise ProgramFailedError(
                f"{self._who()} wrote more than {self._agent.program.max_output} bytes to standard output "
                "(program.max_output)"
            )
        if code != 0:
            raise self._crashed(code, process.complaint)
        if self._acted:
            return Action()
        said = process.output.strip()
        if not said and not self._pending:
            raise ProgramFailedError(
                f"{self._who()} ended without requesting an answer, taking a step or printing anything; programs read "
                "OPENAI_BASE_URL, OPENAI_API_KEY and TURNWISE_ENV_URL from their environment"
            )
        return Action(said)

    def _crashed(self, code: int, complaint: str) -> PolicyError:
        if self._recorder.too_long is not None:
            return self._recorder.too_long
        last = f"; standard error ended with: {complaint[-QUOTED:]}" if complaint else ""
        how = f"ended with exit code {code}" if code <= 128 else f"was ended by signal {code - 128}"
        return ProgramFailedError(f"{self._who()} {how} in turn {self._turn}{last}")

    def _decided(self, action: Action) -> Decision:
        """A decision with the tokens of the last answer; what was sampled before it was a draft."""
        if not self._pending:
            return Decision(action)
        *drafts, last = self._pending
        self._pending.clear()
        for draft in drafts:
            self._context.record(draft.observation, draft.decision)
        made = last.decision
        ids, logprobs, versions = made.action_ids, made.logprobs, made.versions
        return Decision(action, made.prompt_ids, ids, logprobs, versions, made.finish, made.seconds, made.thoughts)

    def _who(self) -> str:
        return f"program {shlex.join(self._agent.program.command)[:200]!r}"

    # -- the program's side -------------------------------------------------------------------------------------

    async def look(self) -> dict[str, Any]:
        """What there is to see."""
        return self._state()

    async def take(self, action: Action) -> dict[str, Any]:
        """Take one action, once the one before it has been answered."""
        if self._over:
            raise RequestError(OVER, status=410, code="episode_over")
        step = _Step(action, asyncio.get_running_loop().create_future())
        self._events.put_nowait(step)
        return await step.answer

    def _sampled(self, sampled: Sampled) -> None:
        self._pending.append(sampled)

    def _refuse_steps(self) -> None:
        """Nobody will take the steps that were asked for too late."""
        waiting = [self._open] if self._open is not None else []
        while not self._events.empty():
            event = self._events.get_nowait()
            waiting += [event] if isinstance(event, _Step) else []
        for step in waiting:
            if not step.answer.done():
                step.answer.set_exception(RequestError(OVER, status=410, code="episode_over"))

    def _state(self) -> dict[str, Any]:
        assert self._seen is not None
        return {
            "turn": self._turn,
            "done": self._over,
            "text": _plain(self._seen.text),
            "messages": [_told(each) for each in self._seen.messages],
            "tools": [tool.to_json() for tool in self._context.tools],
        }


def _told(sent: Message) -> dict[str, Any]:
    """A message as the chat API has it, so that a program can pass it on as it is."""
    told: dict[str, Any] = {"role": sent.role, "content": _plain(sent.text)}
    if sent.tool_calls:
        told["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments(c)}}
            for c in sent.tool_calls
        ]
    told |= {"name": sent.name} if sent.name else {}
    return told | ({"tool_call_id": sent.tool_call_id} if sent.tool_call_id else {})


def _plain(text: str) -> str:
    """The text with a question mark for what UTF-8, and so HTTP, cannot hold."""
    return text.encode(errors="replace").decode()
