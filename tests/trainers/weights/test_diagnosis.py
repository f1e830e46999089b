"""The name that the canary gives to a fault, where a model that is certain of its tokens hides a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from turnwise import Sampling
from turnwise.trainers.weights.canary_prompts import Answer, Kind
from turnwise.trainers.weights.diagnosis import Cause, diagnose
from turnwise.trainers.weights.noise import IN_16_BITS, Noise

from .test_noise import answers

Gaps = dict[Kind, float]


def noise_of_16_bits() -> Noise:
    noise = Noise(IN_16_BITS)
    noise.calibrate([0.04, 0.05, 0.02, 0.1] * 8)
    return noise


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ({Kind.WARM: 13, Kind.FRESH: 36}, {Kind.WARM: 13, Kind.FRESH: 22}, Cause.TRUNCATED),
        ({Kind.WARM: 13, Kind.FRESH: 36}, {Kind.WARM: 13}, Cause.TRUNCATED),
        ({Kind.WARM: 13}, {Kind.WARM: 13, Kind.FRESH: 22}, Cause.TRUNCATED),
        ({Kind.FRESH: 12, Kind.SHORT: 0.46}, {Kind.SHORT: 7.3}, Cause.RETOKENIZED),
        ({Kind.WARM: 13}, {Kind.WARM: 13}, Cause.CACHED),
        ({Kind.WARM: 13, Kind.FRESH: 0.2}, {Kind.WARM: 13}, Cause.CACHED),
        ({Kind.FRESH: 36}, {}, None),
    ],
)
def test_a_round_that_shows_a_kind_wrong_names_what_both_rounds_confirm(
    first: Gaps, second: Gaps, cause: Cause | None
) -> None:
    """A truncated prompt is new in each round, and some of its answers come out right by chance."""
    now, again = answers(-1.0, first, seed=2), answers(-1.0, second, seed=3, name=1)
    found = diagnose(now, again, None, version=1, noise=noise_of_16_bits())
    assert (found and found.cause) == cause


def sampled(given: Mapping[Kind, Answer], untempered: float) -> dict[Kind, Answer]:
    """Answers whose short one was sampled at temperature 0.7; at 1, the trainer's numbers are so much higher."""
    short = given[Kind.SHORT]
    question = replace(short.question, sampling=Sampling(temperature=0.7, max_tokens=len(short.ids)))
    at_one = tuple(value + untempered for value in short.mine)
    return {**given, Kind.SHORT: replace(short, question=question, untempered=at_one)}


@pytest.mark.parametrize(
    ("mine", "untempered", "cause"),
    [
        (-1.0, 3.0, Cause.LOGPROBS),
        (0.0, 3.0, Cause.LOGPROBS),
        (-1.0, 9.0, Cause.LOGPROBS),
        (0.0, 9.0, Cause.RETOKENIZED),
    ],
    ids=["of temperature 1", "of temperature 1, certain", "other numbers", "other numbers, certain"],
)
def test_certain_answers_do_not_prove_that_a_prompt_was_read(mine: float, untempered: float, cause: Cause) -> None:
    now, again = (sampled(answers(mine, {Kind.SHORT: 3.0}, seed, name=seed), untempered) for seed in (2, 3))
    found = diagnose(now, again, None, version=1, noise=noise_of_16_bits())
    assert found is not None
    assert found.cause is cause


def noisy_tail() -> Noise:
    """The noise of 28 layers on a machine without instructions for 16 bits: a tail of 0.18, and a limit of 0.73."""
    noise = Noise(IN_16_BITS)
    noise.calibrate([0.02, 0.03, 0.18, -0.18] * 8)
    return noise


@pytest.mark.parametrize(("gap", "cause"), [(0.45, Cause.NUMERICS), (-0.45, Cause.NUMERICS), (0.7, Cause.LOGPROBS)])
def test_precision_explains_no_large_mean_however_long_the_tail_of_the_noise(gap: float, cause: Cause) -> None:
    now, again = (answers(-1.0, dict.fromkeys(Kind, gap), seed, name=seed) for seed in (2, 3))
    found = diagnose(now, again, None, version=1, noise=noisy_tail())
    assert found is not None
    assert (found.cause, found.stops) == (cause, False)


def other_id(answer: Answer, near: float) -> Answer:
    """The answer with another first id, whose number is near that of the likeliest one, and far from the trainer's."""
    best = tuple(theirs + near for theirs in answer.theirs)
    return replace(answer, mine=tuple(theirs - 2.0 for theirs in answer.theirs), best=best)


@pytest.mark.parametrize(
    ("swapped", "near", "cause"),
    [
        ([Kind.WARM, Kind.FRESH, Kind.PLAIN], 0.0, Cause.RETOKENIZED),
        ([Kind.WARM, Kind.FRESH], 0.1, Cause.RETOKENIZED),
        ([Kind.PLAIN], 0.0, Cause.OTHER_WEIGHTS),
        ([Kind.WARM, Kind.FRESH, Kind.PLAIN], 0.5, Cause.OTHER_WEIGHTS),
    ],
)
def test_other_ids_beside_the_numbers_of_the_likeliest_are_retokenized(
    swapped: list[Kind], near: float, cause: Cause
) -> None:
    """One such answer, or numbers that are only roughly those, come of other weights, too."""

    def told(seed: int) -> dict[Kind, Answer]:
        given = answers(-1.0, dict.fromkeys(Kind, 2.0), seed, name=seed)
        return {kind: other_id(answer, near) if kind in swapped else answer for kind, answer in given.items()}

    found = diagnose(told(2), told(3), None, version=1, noise=noisy_tail())
    assert found is not None
    assert found.cause is cause
