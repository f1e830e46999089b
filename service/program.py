"""``ProgramAgent``: a program plays the episodes, and its policy's samples are recorded."""

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
from .endpoint import Client, Endpoint
from .process import Process, ProgramConfig
from .recorder import Recorder, Sampled

OVER = "the episode is over"
TASK = "{task}"
QUOTED = 1000
"""Maximum characters of standard error in an episode's error."""
LONGEST_TASK = 100_000
"""Maximum bytes of a task in the program's arguments; Linux allows 131,072. The environment variable has all of it."""


class ProgramAgent(ChatAgent):
    """A chat agent whose episodes are played by a program that calls a model as OpenAI's or Anthropic's SDK does.

    Each episode starts the program with these environment variables, and it ends before the episode's record is sealed:

    ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``
        the policy, as a model of the chat completions and the responses API, for this episode only.
    ``OPENAI_MODEL``
        a name for the policy; any other works too.
    ``ANTHROPIC_BASE_URL``, ``ANTHROPIC_API_KEY``, ``ANTHROPIC_MODEL``
        the same for programs that call Anthropic's Messages API.
    ``TURNWISE_ENV_URL``, ``TURNWISE_TOOLS_URL``
        the environment: ``GET`` shows the current observation, ``POST`` takes an action; ``POST …/NAME`` calls one
            tool.
    ``TURNWISE_TASK``
        the text of the first observation, which also replaces ``{task}`` in the command.

    Samples since the last step belong to the step that follows: the last answer to that step's turn, earlier ones to
    unsent turns before it. If a program takes no step itself, its standard output is its answer. A program that exits
    with code 0 before the end of the episode is silent for the rest of it. One that crashes or takes too long is
    ``policy_failed``.

    Args:
        chat: agent whose policy, template and sampling are used. Its context strategy, parser and system message are
            ignored, because the program decides what the policy reads.
        program: program to run.
        endpoint: endpoint to share with other agents (default: a new one).
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
        """Report departures from training, and settings that a program makes ineffective; see ``Remarking``."""
        unused = [f"agent.context = {self.context_name!r}"] if self.context_name != "full" else []
        unused += ["agent.system"] if self.system else []
        if not unused:
            return self.notes
        return (*self.notes, f"the program decides what the model reads; without effect here: {', '.join(unused)}")

    def start(self, context: EpisodeContext) -> ProgramSession:  # type: ignore[override]
        """Return a session that starts the program with its first observation."""
        return ProgramSession(self, context)


def program_agent(agent: Agent, program: ProgramConfig, policy: str = "") -> ProgramAgent:
    """Return the agent for a program with a model behind it.

    Raises:
        UsageError: the agent is not a model, so it cannot answer a program.
    """
    return ProgramAgent(chat_agent(agent, policy), program)


def chat_agent(agent: Agent, policy: str = "") -> ChatAgent:
    """Return the agent's language model that can answer programs.

    Args:
        agent: the agent.
        policy: name that the user gave it, for the message.

    Raises:
        UsageError: the agent has no such model.
    """
    if not isinstance(agent, ChatAgent):
        raise UsageError(
            f"programs need a language model as the policy, and {policy or type(agent).__name__} is not one; name "
            "the folder of a model, or a vLLM server (for a chat API, let the program call it)"
        )
    return agent


@dataclass(slots=True, eq=False)
class _Step:
    """A step of the program; its answer is the next observation."""

    action: Action
    answer: asyncio.Future[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of the program."""

    code: int


class ProgramSession:
    """One episode of a program: the runner waits for an action, the program for its result."""

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
        """Return the program's next action, with the tokens of the answer before it.

        Raises:
            ProgramFailedError: it crashed, wrote too much, or ended without having done anything.
            PolicyTimeoutError: it takes too long.
            InfrastructureError: the policy's server is unavailable, or the program could not be started.
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
        """Show the program the end, give it time to exit, and return the next prompt of its policy."""
        self._over = True
        self._recorder.end(OVER)
        self._show(observation)
        self._refuse_steps()
        if self._watch is not None:
            await asyncio.wait((self._watch,), timeout=self._agent.program.grace)
        return self._recorder.next_ids

    async def close(self) -> None:
        """Kill the program, invalidate its key, and record samples that led to no action."""
        self._over = True
        self._agent.endpoint.unregister(self._key)
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
        self._key = endpoint.register(Client(self._recorder, self, self._events.put_nowait))
        self._seen = observation
        own = f"{address}/episodes/{self._key}"
        task = _plain(observation.text.replace("\0", "")).encode()[:LONGEST_TASK].decode(errors="ignore")
        environment = {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": self._key,
            "OPENAI_MODEL": endpoint.model,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": self._key,
            "ANTHROPIC_MODEL": endpoint.model,
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
        """Return the output of an exited program as its last action; after that it is silent."""
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
                "OPENAI_BASE_URL and OPENAI_API_KEY (or ANTHROPIC_…), and TURNWISE_ENV_URL, from their environment"
            )
        return Action(said)

    def _crashed(self, code: int, complaint: str) -> PolicyError:
        if self._recorder.too_long is not None:
            return self._recorder.too_long
        last = f"; standard error ended with: {complaint[-QUOTED:]}" if complaint else ""
        how = f"ended with exit code {code}" if code <= 128 else f"was ended by signal {code - 128}"
        return ProgramFailedError(f"{self._who()} {how} in turn {self._turn}{last}")

    def _decided(self, action: Action) -> Decision:
        """Return a decision with the tokens of the last answer; earlier samples become drafts."""
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
        """Return the current observation."""
        return self._state()

    async def take(self, action: Action) -> dict[str, Any]:
        """Take one action, after the previous one has been answered."""
        if self._over:
            raise RequestError(OVER, status=410, code="episode_over")
        step = _Step(action, asyncio.get_running_loop().create_future())
        self._events.put_nowait(step)
        return await step.answer

    def _sampled(self, sampled: Sampled) -> None:
        self._pending.append(sampled)

    def _refuse_steps(self) -> None:
        """Refuse steps that were requested too late."""
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
    """Return a message in the chat API's format, so that a program can pass it on unchanged."""
    fields: dict[str, Any] = {"role": sent.role, "content": _plain(sent.text)}
    if sent.tool_calls:
        fields["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments(c)}}
            for c in sent.tool_calls
        ]
    fields |= {"name": sent.name} if sent.name else {}
    return fields | ({"tool_call_id": sent.tool_call_id} if sent.tool_call_id else {})


def _plain(text: str) -> str:
    """Replace characters that UTF-8, and so HTTP, cannot represent by question marks."""
    return text.encode(errors="replace").decode()
