"""``TransformersPolicy``: a transformers model in this process, sampling for many episodes at once."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import ContractError, InfrastructureError, ModelError, PolicyError, PromptTooLongError
from .continuous import Row, RunningBatch
from .policy import Completion, Finish, Sampling
from .side_stream import SideStream

QUIET_CYCLES = 3
"""Number of cycles of the event loop without a new request after which a pass starts (see ``_wait_for_requests``)."""
JOIN_RATIO = 4
"""New requests join at once if there is at least one of them for this many running rows."""
MAX_DELAY_PASSES = 4
"""Otherwise they join after this many passes at the latest."""


@dataclass(slots=True, eq=False)
class _Request:
    row: Row
    session: str
    answer: asyncio.Future[Completion]
    started: float = field(default_factory=time.perf_counter)

    def resolve(self, finish: Finish) -> None:
        if not self.answer.done():
            row = self.row
            versions = tuple(row.versions)  # appended last: another thread may be in the middle of recording a token
            tokens, logprobs = tuple(row.tokens[: len(versions)]), tuple(row.logprobs[: len(versions)])
            self.answer.set_result(Completion(tokens, logprobs, versions, finish, time.perf_counter() - self.started))

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class TransformersPolicy:
    """Samples from a model in this process, with continuous batching.

    Concurrent ``generate`` calls share forward passes: a call joins the batch at the next token and leaves it when it
    finishes or is cancelled. The model reads the prompt ids unchanged, and the answer has the ids that were drawn.
    Log-probabilities are those of the sampled distribution, in single precision.

    With ``threaded=False`` the forward passes run inside the event loop, and requests join in the order in which
    their coroutines run. If environments wait for nothing outside the process, a whole run is reproducible bit by bit.
    With ``threaded=True`` the passes run in a separate thread, and on a GPU in a stream of their own, so that slow
    environments, other requests and a learner can proceed meanwhile. Timing then decides which requests share a pass,
    and so the last bit of a log-probability.

    Args:
        model: causal language model with full attention; it is in evaluation mode only during a pass.
        tokenizer: tokenizer that has the stop id; ``None`` leaves stopping to ``Sampling.stop_ids``.
        max_batch: maximum number of requests in one pass; more wait.
        context_length: maximum tokens of prompt and action together; by default the model's own limit.
        threaded: whether to run the passes in a thread.
        version: number recorded with every token until ``update`` changes it.
        seed: seed of the policy's own generator, which seeds requests without a seed.
        autocast: precision of matrix products, as a learner that trains on the samples has it; ``None`` is that of the
            weights.

    Raises:
        ModelError: the model cannot be batched, or a limit is out of range.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        max_batch: int = 64,
        context_length: int | None = None,
        threaded: bool = False,
        version: int = 0,
        seed: int = 0,
        autocast: torch.dtype | None = None,
    ) -> None:
        own: Any = getattr(model.config, "max_position_embeddings", None)
        if max_batch < 1:
            raise ModelError(f"max_batch must be at least 1; got {max_batch}")
        if context_length is None and own is None:
            raise ModelError("the model's configuration has no context length; pass context_length=")
        if context_length is not None and own is not None and context_length > own:
            raise ModelError(f"context_length {context_length} exceeds the model's {own} positions")
        self.model = model
        self.max_batch = max_batch
        self.context_length = int(context_length or own)
        self.version = version
        self._stop_ids = frozenset(_eos_ids(model, tokenizer))
        self._vocabulary = model.get_input_embeddings().weight.shape[0]
        self._seeds = random.Random(seed)
        self._batch = RunningBatch(model, autocast)
        self._waiting: list[_Request] = []
        self._running: list[_Request] = []
        self._delay_passes = MAX_DELAY_PASSES
        self._worker: asyncio.Task[None] | None = None
        self._busy = threading.Lock()  # held during a pass, so that weights never change within one
        self._thread = ThreadPoolExecutor(1, "turnwise-policy") if threaded else None
        self._stream = SideStream(model.device if threaded else torch.device("cpu"))

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        """Sample one continuation of ``prompt_ids``; see ``Policy``.

        Raises:
            PromptTooLongError: the prompt leaves no room for a single token.
            ContractError: the prompt is empty or has ids outside the vocabulary.
            PolicyError: the model returns numbers that are not finite.
            InfrastructureError: the forward pass failed.
        """
        prompt = tuple(prompt_ids)
        room = self.context_length - len(prompt)
        if room < 1:
            raise PromptTooLongError(
                f"the prompt has {len(prompt)} tokens, and the context of {self.context_length} leaves no room for an "
                "action: use a shorter context strategy (last:k, summary) or a larger context_length"
            )
        if not prompt or min(prompt) < 0 or max(prompt) >= self._vocabulary:
            raise ContractError(
                f"a prompt must have at least one id, each from 0 to {self._vocabulary - 1}; got {prompt[:8]}…"
            )
        row = Row(
            prompt,
            sampling.temperature,
            min(sampling.max_tokens, room),
            self._stop_ids.union(sampling.stop_ids),
            random.Random(self._seeds.getrandbits(64) if sampling.seed is None else sampling.seed),
            sampling.top_p,
        )
        request = _Request(row, session, asyncio.get_running_loop().create_future())
        self._ensure_worker()
        self._waiting.append(request)
        return await request.answer

    def update(self, state_dict: Mapping[str, Any] | None, version: int) -> None:
        """Change the weights between two passes; requests in progress continue with the new ones.

        Args:
            state_dict: weights to copy into the model; ``None`` if the trainer changed the same model in place.
            version: number to record with every token from now on.

        Raises:
            ModelError: the weights do not fit the model; nothing changed.
        """
        with self._busy, self._stream.exchanging():
            if state_dict is not None:
                load_weights(self.model, state_dict)
            self.version = version

    def abort(self, session: str | None = None) -> int:
        """End the requests of a session (or all); they return their tokens so far, with ``Finish.ABORT``.

        Returns:
            the number of requests that ended.
        """
        chosen = [r for r in (*self._waiting, *self._running) if session is None or r.session == session]
        alive = [request for request in chosen if not request.answer.done()]
        for request in alive:
            request.resolve(Finish.ABORT)
        return len(alive)

    # -- the decoding loop --------------------------------------------------------------------------------------

    def _ensure_worker(self) -> None:
        """Make sure that the worker runs in this event loop; drop requests that a closed loop left behind."""
        loop = asyncio.get_running_loop()
        if self._worker is not None and not self._worker.done():
            other = self._worker.get_loop()
            if other is loop:
                return
            if not other.is_closed():
                raise ContractError(
                    "this policy already serves another event loop; create a separate policy for each loop"
                )
        self._reset()
        self._worker = loop.create_task(self._work(), name="turnwise-policy")

    def _reset(self) -> None:
        with self._busy:
            self._waiting, self._running = [], []
            self._batch.clear()

    async def _work(self) -> None:
        try:
            while await self._wait_for_requests():
                self._drop_abandoned()
                arrivals = self._take_arrivals()
                self._running += arrivals
                if not self._running:
                    continue
                rows = [request.row for request in arrivals]
                if self._thread is None:
                    self._step(rows)
                else:
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._step, rows)
                for request in self._running:
                    if request.row.finish:
                        request.resolve(request.row.finish)
                self._running = [request for request in self._running if not request.row.finish]
        except Exception as error:
            self._fail(error)

    async def _wait_for_requests(self) -> bool:
        """Let other coroutines run, so that their requests share the next pass; return whether there is any work."""
        quiet = 0
        while quiet < QUIET_CYCLES and len(self._waiting) < self.max_batch:
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = 0 if len(self._waiting) > before else quiet + 1
        return bool(self._waiting or self._running)

    def _take_arrivals(self) -> list[_Request]:
        """Remove the requests that join the next pass from the queue and return them.

        A few new requests wait for more, since a pass that reads one prompt costs about as much as one that reads many.
        """
        free = self.max_batch - len(self._running)
        if not self._waiting or not free:
            return []
        if len(self._waiting) * JOIN_RATIO < len(self._running) and self._delay_passes > 0:
            self._delay_passes -= 1
            return []
        self._delay_passes = MAX_DELAY_PASSES
        arrivals, self._waiting = self._waiting[:free], self._waiting[free:]
        return arrivals

    def _step(self, arrivals: list[Row]) -> None:
        with self._busy, self._stream.passing():
            self._batch.step(arrivals, self.version)

    def _drop_abandoned(self) -> None:
        """Remove the rows of requests that were cancelled or aborted."""
        self._waiting = [request for request in self._waiting if not request.answer.done()]
        abandoned = [request for request in self._running if request.answer.done()]
        if abandoned:
            with self._busy:
                self._batch.drop([request.row for request in abandoned])
            self._running = [request for request in self._running if not request.answer.done()]

    def _fail(self, error: Exception) -> None:
        requests = (*self._running, *self._waiting)
        self._reset()
        for request in requests:
            if isinstance(error, PolicyError):
                request.fail(PolicyError(str(error)))
            else:
                failure = InfrastructureError(f"the model's forward pass failed: {type(error).__name__}: {error}")
                failure.__cause__ = error
                request.fail(failure)


def load_weights(model: Any, state_dict: Mapping[str, Any]) -> None:
    """Copy weights into a model, in place.

    Tied weights may be absent, since they share one tensor. Any other name that is missing or unknown, or a wrong
    shape, is an error, and then nothing changes.

    Raises:
        ModelError: the weights do not fit the model.
    """
    own = model.state_dict()
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    unknown, missing = set(state_dict) - set(own), set(own) - set(state_dict) - tied
    misshapen = [k for k, v in state_dict.items() if k in own and own[k].shape != v.shape]
    if unknown or missing or misshapen:
        names = sorted(unknown or missing or misshapen)
        what = "unknown to the model" if unknown else "missing" if missing else "of another shape"
        raise ModelError(f"weights do not fit the model: {len(names)} {what}, e.g. {names[0]}")
    with torch.no_grad():
        for key, value in state_dict.items():
            own[key].copy_(value)


def _eos_ids(model: Any, tokenizer: Any) -> set[int]:
    ids: set[int] = set()
    for source in (tokenizer, model.config, getattr(model, "generation_config", None)):
        eos = getattr(source, "eos_token_id", None)
        ids.update([eos] if isinstance(eos, int) else eos or [])
    return ids
