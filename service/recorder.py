"""``Recorder``: answers one client's requests from a policy, and keeps the exact tokens of every answer."""

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
from .requests import Asked, said

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Token:
    """One sampled token, as ``logprobs`` tells it."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told.

    Args:
        number: which answer it is in its episode, from 1 on.
        created: seconds since 1970.
        reply: the assistant message, without thoughts.
        thoughts: what stood between ``<think>`` and ``</think>``.
        finish: why it ends.
        read: how many tokens the policy read.
        sampled: how many it sampled.
        tokens: those, if they were asked for.
    """

    number: int
    created: int
    reply: Message
    thoughts: str
    finish: FinishReason
    read: int
    sampled: int
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """What is recorded of an answer: the client's new messages, and the decision with its exact tokens."""

    observation: Observation
    decision: Decision


class Recorder:
    """One client's dealings with a policy, as an episode needs them.

    Args:
        agent: whose policy, template and sampling are used; the context is the client's own affair.
        session: the policy's session id.
        rng: seeds requests that bring no seed, in the order in which they come, as ``ChatAgent`` seeds its turns.
        record: is given every answer's tokens, before the client is given the answer.
        fixed_temperature: sample at the agent's own temperature, whatever the client asks for. Training needs this: it
            scores what was sampled at that temperature.
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
        """What the policy would read next: the prompt that was refused after the end, or else all that it has read and
        said."""
        self.too_long: PromptTooLongError | None = None
        """The last request had no room for an answer, and the client was told so."""

    async def answer(self, asked: Asked) -> Answer:
        """Sample one answer; cancelling this cancels the sampling, and then nothing is recorded.

        Raises:
            RequestError: it cannot be answered; the message is for the client.
            InfrastructureError: the policy's server is gone.
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
        return Answer(number, int(time.time()), reply, thoughts, reason, *sizes, tokens)

    def end(self, why: str) -> None:
        """Answer nothing any more: cancel what is being sampled, refuse what comes.

        Args:
            why: for the client.
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

    def _sampling(self, asked: Asked, number: int) -> Sampling:
        ours = self._agent.sampling
        # As ChatAgent seeds its turns: a program that asks as it would is answered as it would be, token for token.
        own = int.from_bytes(stable_hash(*self._rng.key, "sampling", number)[:7], "big")
        seeds = (asked.seed, ours.seed, own)
        theirs = None if self._fixed_temperature else asked.temperature
        return replace(
            ours,
            temperature=ours.temperature if theirs is None else theirs,
            max_tokens=min(ours.max_tokens, asked.max_tokens or ours.max_tokens),
            seed=next(seed for seed in seeds if seed is not None) % 2**56,
        )

    def _read(self, decoded: _Decoded, asked: Asked, number: int, *, opened: bool) -> tuple[Message, str, Action]:
        template = self._agent.template
        text = template.thoughts.unified(decoded.text, opened=opened)
        rest, open_thought = without_thoughts(text)
        thoughtful = "</think>" in text and not open_thought
        thoughts = thoughts_in(text) if thoughtful else ""
        spoken = rest if thoughtful else decoded.text
        parser = CALL_PARSERS[template.dialect](asked.tools, template.source)
        action = parser.parse(text) if asked.tools else Action(spoken)
        if action.problem is not None:  # the client sees what was written, as it would anywhere else
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


def _cut(template: ChatTemplate, completion: Completion, stops: tuple[str, ...]) -> _Decoded:
    """The completion as far as the client's stop texts let it go.

    What was sampled after a stop text is dropped, down to the first token that completes it: sampling would have ended
    there, with the same tokens and the same log-probabilities.
    """
    closed = completion.finish is Finish.STOP
    ids = completion.token_ids[:-1] if closed else completion.token_ids
    text = template.decode(ids)
    if not any(stop in text for stop in stops):
        return _Decoded(completion, text, closed, "stop" if closed else "length")

    def stopped(size: int) -> bool:
        begun = template.decode(ids[:size])
        return any(stop in begun for stop in stops)

    size = bisect_left(range(len(ids) + 1), True, key=stopped)
    text = template.decode(ids[:size])
    first = min(place for stop in stops if (place := text.find(stop)) >= 0)
    kept = Completion(
        ids[:size], completion.logprobs[:size], completion.versions[:size], Finish.STOP, completion.seconds
    )
    return _Decoded(kept, text[:first], False, "stop")


def _sampled(prompt: Prompt, completion: Completion, action: Action, thoughts: str, seconds: float) -> Sampled:
    ids, logprobs, versions = completion.token_ids, completion.logprobs, completion.versions
    decision = Decision(action, prompt.ids, ids, logprobs, versions, completion.finish, seconds, thoughts)
    return Sampled(Observation(prompt.new), decision)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
