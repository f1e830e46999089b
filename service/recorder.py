"""``Recorder``: answers one client's requests from a policy, and records the exact tokens of every answer."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..agents.agent import Decision
from ..agents.chat import ChatAgent
from ..agents.template import ChatTemplate
from ..agents.thoughts import thoughts_in, without_thoughts
from ..agents.tool_dialects import CALL_PARSERS
from ..agents.transcript import Utterance
from ..envs.messages import Action, Message, Observation
from ..errors import InfrastructureError, PromptTooLongError, RequestError
from ..inference.policy import Completion, Finish, Sampling
from ..tasks.rng import Rng, stable_hash
from .history import History, Prompt
from .requests import ChatRequest, said

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Token:
    """One sampled token, for ``logprobs``."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer for a client.

    Args:
        number: index of the answer in its episode, from 1.
        created: seconds since 1970.
        reply: assistant message, without reasoning.
        thoughts: text between ``<think>`` and ``</think>``.
        finish: reason why it ends.
        read: number of tokens that the policy read.
        sampled: number of tokens that it sampled.
        tokens: sampled tokens, if the client requested them.
        stopped_by: the client's stop text that ended it, if one did.
    """

    number: int
    created: int
    reply: Message
    thoughts: str
    finish: FinishReason
    read: int
    sampled: int
    tokens: tuple[Token, ...]
    stopped_by: str | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """Record of an answer: the client's new messages, and the decision with its exact tokens."""

    observation: Observation
    decision: Decision


class Recorder:
    """Answers one client from a policy, and records what an episode needs.

    Args:
        agent: agent whose policy, template and sampling are used; the client manages its own context.
        session: session id of the policy.
        rng: source of seeds for requests without one, in their order, as ``ChatAgent`` seeds its turns.
        record: callback with every answer's tokens, before the client receives the answer.
        fixed_temperature: whether to sample at the agent's own temperature, whatever the client requests. Training
            needs this, because it scores the samples at that temperature.
    """

    def __init__(
        self,
        agent: ChatAgent,
        *,
        session: str,
        rng: Rng,
        record: Callable[[Sampled], None],
        fixed_temperature: bool = True,
    ) -> None:
        self._agent, self.session, self._rng, self._record = agent, session, rng, record
        self._fixed_temperature = fixed_temperature
        self._history = History(agent.template, follow_template=agent.follow_template)
        self._number = 0
        self._running: set[asyncio.Task[Completion]] = set()
        self._refusal: str | None = None
        self.next_ids: tuple[int, ...] = ()
        """Prompt that the policy would read next: the one that was refused after the end, or else everything that it
        has read and written."""
        self.too_long: PromptTooLongError | None = None
        """Error of the last request, if it had no room for an answer."""

    async def answer(self, asked: ChatRequest) -> Answer:
        """Sample one answer; cancelling this cancels the sampling, and then nothing is recorded.

        Raises:
            RequestError: the request is invalid; the message is for the client.
            InfrastructureError: the policy's server is unavailable.
        """
        prompt = self._history.prompt(asked.messages, asked.tools)
        if self._refusal is not None:
            self.next_ids = prompt.ids
            raise RequestError(self._refusal, status=410, code="episode_over")
        self._number += 1
        number = self._number
        sampling = self._sampling(asked, number)
        started = time.perf_counter()
        completion = await self._sample(prompt, sampling)
        decoded = _cut(self._agent.template, completion, asked.stop)
        opened = self._agent.template.opens_thought(prompt.ids)
        reply, thoughts, action = self._read(decoded, asked, number, opened=opened)
        closed = decoded.closed
        whole = self._agent.template.decode(decoded.completion.token_ids[: -1 if closed else None])
        utterance = Utterance(decoded.completion.token_ids, whole, closed)
        self._history.said(prompt, utterance, reply)
        self.next_ids = (*prompt.ids, *utterance.ids)
        self._record(_sampled(prompt, decoded.completion, action, thoughts, time.perf_counter() - started))
        reason: FinishReason = "tool_calls" if reply.tool_calls else decoded.reason
        tokens = self._tokens(decoded) if asked.logprobs else ()
        sizes = len(prompt.ids), len(utterance.ids)
        return Answer(number, int(time.time()), reply, thoughts, reason, *sizes, tokens, decoded.stopped_by)

    def count(self, asked: ChatRequest) -> int:
        """Return the number of tokens that the policy would read; nothing is sampled or recorded.

        Raises:
            RequestError: the request is invalid; the message is for the client.
        """
        return len(self._history.preview(asked.messages, asked.tools))

    def end(self, why: str) -> None:
        """Stop answering: cancel running samples, and refuse new requests.

        Args:
            why: reason, for the client.
        """
        self._refusal = why
        for task in self._running:
            task.cancel()

    async def _sample(self, prompt: Prompt, sampling: Sampling) -> Completion:
        generating = self._agent.policy.generate(prompt.ids, sampling, session=self.session)
        task = asyncio.ensure_future(generating)
        self._running.add(task)
        self.too_long = None
        try:
            completion = await task
        except asyncio.CancelledError:
            task.cancel()
            if self._refusal is not None and not _being_cancelled():
                raise RequestError(self._refusal, status=410, code="episode_over") from None
            raise
        except PromptTooLongError as error:
            self.too_long = error
            raise RequestError(str(error), param="messages", code="context_length_exceeded") from None
        finally:
            self._running.discard(task)
        if completion.finish is Finish.ABORT:
            raise InfrastructureError(f"the policy aborted answer {self._number} of episode {self.session}")
        return completion

    def _sampling(self, asked: ChatRequest, number: int) -> Sampling:
        ours = self._agent.sampling
        # The same seeds as ChatAgent's, so that the same requests get the same answers, token for token.
        own = int.from_bytes(stable_hash(*self._rng.key, "sampling", number)[:7], "big")
        seeds = (asked.seed, ours.seed, own)
        theirs = None if self._fixed_temperature else asked.temperature
        return replace(
            ours,
            temperature=ours.temperature if theirs is None else theirs,
            max_tokens=min(ours.max_tokens, asked.max_tokens or ours.max_tokens),
            seed=next(seed for seed in seeds if seed is not None) % 2**56,
        )

    def _read(self, decoded: _Decoded, asked: ChatRequest, number: int, *, opened: bool) -> tuple[Message, str, Action]:
        template = self._agent.template
        text = template.thoughts.unified(decoded.text, opened=opened)
        rest, open_thought = without_thoughts(text)
        thoughtful = "</think>" in text and not open_thought
        thoughts = thoughts_in(text) if thoughtful else ""
        spoken = rest if thoughtful else decoded.text
        parser = CALL_PARSERS[template.dialect](asked.tools, template.source)
        action = parser.parse(text) if asked.tools else Action(spoken)
        if action.problem is not None:  # the client sees the text, as from any other server
            return said("assistant", spoken), thoughts, action
        calls = tuple(replace(call, id=f"call_{number}_{place}") for place, call in enumerate(action.tool_calls, 1))
        action = replace(action, tool_calls=calls)
        return said("assistant", action.text, calls), thoughts, action

    def _tokens(self, decoded: _Decoded) -> tuple[Token, ...]:
        completion, template = decoded.completion, self._agent.template
        pairs = zip(completion.token_ids, completion.logprobs, strict=True)
        return tuple(Token(token, template.decode((token,)), logprob) for token, logprob in pairs)


@dataclass(frozen=True, slots=True)
class _Decoded:
    completion: Completion
    text: str
    closed: bool
    reason: Literal["stop", "length"]
    stopped_by: str | None = None


def _cut(template: ChatTemplate, completion: Completion, stops: tuple[str, ...]) -> _Decoded:
    """Cut a completion at the client's stop texts.

    Tokens after a stop text are dropped, down to the first token that completes it. Sampling would have ended there,
    with the same tokens and the same log-probabilities.
    """
    closed = completion.finish is Finish.STOP
    ids = completion.token_ids[:-1] if closed else completion.token_ids
    text = template.decode(ids)
    if not any(stop in text for stop in stops):
        return _Decoded(completion, text, closed, "stop" if closed else "length")

    def stopped(size: int) -> bool:
        beginning = template.decode(ids[:size])
        return any(stop in beginning for stop in stops)

    size = bisect_left(range(len(ids) + 1), True, key=stopped)
    text = template.decode(ids[:size])
    first, by = min((place, stop) for stop in stops if (place := text.find(stop)) >= 0)
    kept = Completion(
        ids[:size], completion.logprobs[:size], completion.versions[:size], Finish.STOP, completion.seconds
    )
    return _Decoded(kept, text[:first], False, "stop", by)


def _sampled(prompt: Prompt, completion: Completion, action: Action, thoughts: str, seconds: float) -> Sampled:
    ids, logprobs, versions = completion.token_ids, completion.logprobs, completion.versions
    decision = Decision(action, prompt.ids, ids, logprobs, versions, completion.finish, seconds, thoughts)
    return Sampled(Observation(prompt.new), decision)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
