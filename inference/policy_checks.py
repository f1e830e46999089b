"""Checks that every ``Policy`` must pass; its author runs them by hand or as a pytest class.

::

    class TestMyPolicy(PolicyContract):
        def subject(self) -> Subject:
            return Subject(MyPolicy(...), prompts=[[1, 2], [3, 4, 5]], context_length=1024, score=my_model_logprobs)

    failures = await self_check(Subject(...))      # name of each broken law → what happened
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import PromptTooLongError
from .policy import Completion, Finish, Policy, Sampling

Score = Callable[[Sequence[int], Sequence[int], float], Sequence[float]]


@dataclass(frozen=True)
class Subject:
    """A policy and the data to check it with.

    Args:
        policy: policy to check.
        prompts: two or more prompts of different lengths, ideally with ids that no text would encode to.
        context_length: maximum tokens of prompt and action together.
        score: ``score(prompt_ids, action_ids, temperature)`` returns the log-probabilities of an action from a plain
            forward pass of the same weights; without it, log-probabilities are only checked for plausibility.
        tolerance: largest difference between two log-probabilities that count as equal.
    """

    policy: Policy
    prompts: Sequence[Sequence[int]]
    context_length: int
    score: Score | None = None
    tolerance: float = 1e-5


class PolicyContract:
    """Base class for tests of a policy: name your class ``Test…`` and define ``subject``; needs pytest-asyncio."""

    def subject(self) -> Subject:
        """Return the policy under test; called once per law."""
        raise TypeError(f"{type(self).__name__} must define subject()")

    async def test_a_completion_is_whole(self) -> None:
        """Each id has one version and one log-probability, which is finite and at most 0."""
        subject = self.subject()
        for completion in await _all(subject, Sampling(max_tokens=6, seed=1)):
            assert completion.token_ids, "a completion must hold at least one id"
            assert len(completion.logprobs) == len(completion.versions) == len(completion.token_ids)
            assert all(math.isfinite(value) and value <= 1e-6 for value in completion.logprobs), (
                f"log-probabilities must be finite and at most 0; got {completion.logprobs}"
            )
            assert completion.seconds >= 0, "seconds is the wall time from request to answer"

    async def test_length_is_named(self) -> None:
        """``max_tokens`` is met exactly and reported as ``Finish.LENGTH``."""
        subject = self.subject()
        for limit in (1, 2, 5):
            completion = await _unstopped(subject, limit)
            assert len(completion.token_ids) == limit, f"asked for {limit} tokens, got {len(completion.token_ids)}"
            assert completion.finish is Finish.LENGTH, f"a cap ended it, but finish is {completion.finish}"

    async def test_the_stop_id_is_kept(self) -> None:
        """A sampled stop id ends the completion, is its last id, and has its own log-probability."""
        subject = self.subject()
        free = await _unstopped(subject, 6)
        stop = free.token_ids[2]
        end = free.token_ids.index(stop) + 1
        stopped = await subject.policy.generate(
            subject.prompts[0], Sampling(temperature=0, max_tokens=6, stop_ids=(stop,))
        )
        assert stopped.finish is Finish.STOP, f"the stop id {stop} was sampled, but finish is {stopped.finish}"
        assert stopped.token_ids == free.token_ids[:end], "the stop id must be the last id, kept and not repeated"

    async def test_log_probabilities_are_those_of_the_distribution_sampled(self) -> None:
        """They equal those of a plain forward pass over the same ids, at the same temperature (greedy: at 1)."""
        subject = self.subject()
        for temperature in (1.0, 0.5, 2.0, 0.0):
            completions = await _all(subject, Sampling(temperature=temperature, max_tokens=6, seed=5))
            for prompt, completion in zip(subject.prompts, completions, strict=True):
                if subject.score is not None:
                    expected = subject.score(prompt, completion.token_ids, temperature or 1.0)
                    _close(completion.logprobs, expected, subject.tolerance, f"at temperature {temperature}")

    async def test_the_prompt_is_read_as_given(self) -> None:
        """Two prompts that differ in one id are two prompts, even if their text is the same."""
        subject = self.subject()
        prompt = list(subject.prompts[0])
        changed = [*prompt[:-1], subject.prompts[1][-1]]
        if changed == prompt:
            changed = [*prompt, prompt[-1]]
        sampling = Sampling(temperature=0, max_tokens=1)
        one, other = [await subject.policy.generate(ids, sampling) for ids in (prompt, changed)]
        assert (one.token_ids, one.logprobs) != (other.token_ids, other.logprobs), (
            "another last id in the prompt changed nothing: the prompt is not read as given"
        )

    async def test_greedy_is_the_same_every_time(self) -> None:
        """Temperature 0 does not depend on the seed."""
        subject = self.subject()
        one, other = [await _all(subject, Sampling(temperature=0, max_tokens=5, seed=s)) for s in (1, 2)]
        assert [c.token_ids for c in one] == [c.token_ids for c in other], "greedy sampling depends on the seed"

    async def test_a_seed_makes_a_request_reproducible(self) -> None:
        """The same seed gives the same ids, alone or beside other requests; other seeds give other ids."""
        subject = self.subject()
        prompt, sampling = subject.prompts[0], Sampling(max_tokens=6, seed=11)
        alone = await subject.policy.generate(prompt, sampling)
        company = [subject.policy.generate(p, replace(sampling, seed=s)) for s, p in enumerate(subject.prompts)]
        together, *_ = await asyncio.gather(subject.policy.generate(prompt, sampling), *company)
        assert together.token_ids == alone.token_ids, "the same seed gave other ids beside other requests"
        _close(together.logprobs, alone.logprobs, subject.tolerance, "alone and beside other requests")
        others = await asyncio.gather(
            *(subject.policy.generate(prompt, replace(sampling, seed=seed)) for seed in range(100, 116))
        )
        assert len({other.token_ids for other in others}) > 1, "sixteen seeds gave one and the same completion"

    async def test_without_a_seed_requests_differ(self) -> None:
        """Without a seed the policy's own generator is used, which advances with each request."""
        subject = self.subject()
        sampling = Sampling(max_tokens=6)
        many = await asyncio.gather(*(subject.policy.generate(subject.prompts[0], sampling) for _ in range(16)))
        assert len({completion.token_ids for completion in many}) > 1, "sixteen unseeded requests were all the same"

    async def test_a_prompt_that_fills_the_context_is_refused(self) -> None:
        """``PromptTooLongError`` names the numbers, and nothing is truncated."""
        subject = self.subject()
        full = (list(subject.prompts[0]) * subject.context_length)[: subject.context_length]
        refusal = ""
        try:
            await subject.policy.generate(full, Sampling(max_tokens=1))
        except PromptTooLongError as error:
            refusal = str(error)
        assert refusal, "a prompt as long as the context was not refused: something was cut silently"
        assert str(subject.context_length) in refusal, f"the message must name the limit: {refusal}"

    async def test_the_end_of_the_context_is_a_length_finish(self) -> None:
        """An action that reaches the end of the context ends there, as ``Finish.LENGTH``."""
        subject = self.subject()
        nearly = (list(subject.prompts[0]) * subject.context_length)[: subject.context_length - 2]
        completion = await subject.policy.generate(nearly, Sampling(max_tokens=50, seed=0))
        if completion.finish is not Finish.STOP:
            assert completion.finish is Finish.LENGTH, f"the context ended it, but finish is {completion.finish}"
            assert len(completion.token_ids) == 2, f"2 tokens fit, {len(completion.token_ids)} came"

    async def test_a_cancelled_request_leaves_the_others_alone(self) -> None:
        """Cancelling a request frees its row; concurrent and later requests get the same answers as without it."""
        subject = self.subject()
        sampling = Sampling(temperature=0, max_tokens=12)
        expected = [completion.token_ids for completion in await _all(subject, sampling)]
        doomed = asyncio.ensure_future(
            subject.policy.generate(subject.prompts[-1], replace(sampling, max_tokens=10**6))
        )
        others = [asyncio.ensure_future(subject.policy.generate(p, sampling)) for p in subject.prompts]
        for _ in range(8):
            await asyncio.sleep(0)
        doomed.cancel()
        found = [completion.token_ids for completion in await asyncio.gather(*others)]
        assert found == expected, "a cancelled request changed the answers of others"
        assert [c.token_ids for c in await _all(subject, sampling)] == expected, "after a cancellation, answers changed"


async def self_check(subject: Subject) -> dict[str, str]:
    """Run every law on one policy.

    Returns:
        the name of each broken law and what happened; empty if all hold.
    """

    class Fixed(PolicyContract):
        def subject(self) -> Subject:
            return subject

    broken: dict[str, str] = {}
    for name in [name for name in vars(PolicyContract) if name.startswith("test_")]:
        try:
            await getattr(Fixed(), name)()
        except Exception as error:
            law = name.removeprefix("test_").replace("_", " ")
            broken[law] = str(error) or type(error).__name__
    return broken


async def _all(subject: Subject, sampling: Sampling) -> list[Completion]:
    return list(await asyncio.gather(*(subject.policy.generate(prompt, sampling) for prompt in subject.prompts)))


async def _unstopped(subject: Subject, limit: int) -> Completion:
    """Return a greedy completion of ``prompts[0]`` that ended by its length; the model must not stop on this prompt."""
    completion = await subject.policy.generate(subject.prompts[0], Sampling(temperature=0, max_tokens=limit))
    assert completion.finish is not Finish.STOP, (
        "prompts[0] makes the model stop at once; choose another for this check"
    )
    return completion


def _close(found: Sequence[float], expected: Sequence[float], tolerance: float, where: str) -> None:
    worst = max((abs(a - b) for a, b in zip(found, expected, strict=True)), default=0.0)
    assert worst <= tolerance, f"log-probabilities differ by {worst:.2e} {where}; at most {tolerance:.0e} is allowed"
