"""Sampling in batches for a trainer that generates synchronously: every episode waits until all of them ask."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..errors import PromptTooLongError
from ..inference.policy import Completion, Finish, Sampling

Generated = tuple[Sequence[Sequence[int]], Sequence[Sequence[float | None]] | None]
"""Sampled ids of each prompt, and their log-probabilities, if the generator knows them."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request for a completion; compared by identity.

    Args:
        prompt: token ids that the model reads.
        stop_ids: ids that end a completion.
        answer: future of the completion, on the loop of the episodes.
    """

    prompt: tuple[int, ...]
    stop_ids: frozenset[int]
    answer: asyncio.Future[Completion]


class LockstepPolicy:
    """A policy whose requests another thread answers, in batches of all episodes that are under way.

    The episodes run on an event loop. The thread that generates takes batches with ``serve``, so a trainer is never
    called from two threads, nor from inside its caller's event loop, as in a notebook.

    Args:
        context_length: number of tokens of a prompt and its completion; a prompt that leaves no room is refused.
            ``None`` for no limit.
        stop_ids: ids that end a completion, beside those of a request.
        version: policy version of the sampled tokens.
    """

    def __init__(self, context_length: int | None, stop_ids: Sequence[int] = (), version: int = 0) -> None:
        self.context_length, self.version = context_length, version
        self._stop_ids = frozenset(stop_ids)
        self._batches: queue.SimpleQueue[list[Request] | None] = queue.SimpleQueue()
        self._waiting: list[Request] = []
        self._under_way = 0

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        """Sample one continuation, together with those of all other episodes; see ``Policy``.

        Only the stop ids of ``sampling`` count: temperature and length belong to the trainer.

        Raises:
            PromptTooLongError: the prompt leaves no room for a single token.
        """
        if self.context_length is not None and len(prompt_ids) >= self.context_length:
            raise PromptTooLongError(
                f"the prompt has {len(prompt_ids)} tokens, and the context of {self.context_length} leaves no room for "
                "an action"
            )
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        request = Request(tuple(prompt_ids), self._stop_ids.union(sampling.stop_ids), answer)
        self._waiting.append(request)
        self._hand_over()
        try:
            return await answer
        finally:
            with suppress(ValueError):  # an episode whose time is over no longer waits
                self._waiting.remove(request)

    def expect(self, episodes: int) -> None:
        """Set the number of episodes under way, on their loop: a batch is complete when all of them wait."""
        self._under_way = episodes
        self._hand_over()

    def end(self) -> None:
        """End ``serve``: there are no more episodes. Any thread may call this."""
        self._batches.put(None)

    def serve(self, generate: Callable[[list[tuple[int, ...]]], Generated], widest: Callable[[int], int]) -> None:
        """Answer batches until ``end``, on the thread that generates.

        Where several processes generate together, each of them has to take part in every round with equally many
        prompts, also after its own episodes have ended. Shorter batches are filled up, and the rest is thrown away.

        Args:
            generate: function from prompts (lists of ids) to completions in the same order.
            widest: function from this process's number of requests to the largest one of all processes; 0 ends.
        """
        spare: tuple[int, ...] = (min(self._stop_ids, default=0),)
        batch: list[Request] | None = []
        while True:
            batch = None if batch is None else self._batches.get()
            requests = batch or []
            count = widest(len(requests))
            if not count:
                return
            prompts = [request.prompt for request in requests]
            sampled, logprobs = generate([*prompts, *[spare] * (count - len(prompts))])
            for place, request in enumerate(requests):
                known = None if logprobs is None else logprobs[place]
                completion = self._completion(request, sampled[place], known)
                request.answer.get_loop().call_soon_threadsafe(_answer, request.answer, completion)

    def _hand_over(self) -> None:
        if self._waiting and len(self._waiting) >= self._under_way:
            batch, self._waiting = self._waiting, []
            self._batches.put(batch)

    def _completion(self, request: Request, ids: Sequence[int], logprobs: Sequence[float | None] | None) -> Completion:
        """Return what was sampled up to the first stop id and within the context, whatever the trainer stops at."""
        if self.context_length is not None:
            ids = ids[: self.context_length - len(request.prompt)]
        end = next((place for place, id_ in enumerate(ids) if id_ in request.stop_ids), None)
        kept = tuple(ids if end is None else ids[: end + 1])
        given = [None] * len(kept) if logprobs is None else logprobs[: len(kept)]
        numbers = tuple(float("nan") if each is None else float(each) for each in given)
        finish = Finish.LENGTH if end is None else Finish.STOP
        return Completion(kept, numbers, (self.version,) * len(kept), finish)


def _answer(answer: asyncio.Future[Completion], completion: Completion) -> None:
    if not answer.done():  # cancelled in the meantime
        answer.set_result(completion)
