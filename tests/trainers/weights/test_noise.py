"""The noise between two sides of a canary: how it is measured, and what is beyond it."""

from __future__ import annotations

import math
import random

import pytest

from turnwise import Completion, Finish, Sampling
from turnwise.inference.serving.server import ServerResponse
from turnwise.trainers.weights.canary_prompts import Answer, Kind, Question
from turnwise.trainers.weights.diagnosis import Cause, Diagnosis, diagnose
from turnwise.trainers.weights.noise import IN_16_BITS, IN_32_BITS, Bounds, Gap, Noise, share

KINDS = (Kind.WARM, Kind.FRESH, Kind.SHORT, Kind.PLAIN)
TOKENS = 8


def test_a_gap_is_mean_and_tail() -> None:
    assert Gap.of([]) == Gap(0, 0, 0)
    assert Gap.of([-3.0, 4.0]) == Gap(3.5, math.sqrt(12.5), 4.0)
    assert Gap.of([0.0] * 198 + [1.0, 5.0]).p99 == 0.0, "two of 200 are the tail beyond"
    assert Gap.of([0.0] * 197 + [1.0] * 3).p99 == 1.0
    limit = Gap(0.1, 1.0, 1.0)
    assert Gap(0.2, 0.2, 0.2).exceeds(limit)
    assert Gap(0.01, 0.2, 2.0).exceeds(limit)
    assert not Gap(0.1, 9.0, 1.0).exceeds(limit)
    assert Gap(math.nan, math.nan, math.nan).exceeds(limit), "NaN is no agreement"


@pytest.mark.parametrize(
    ("bounds", "measured", "limit"),
    [
        (IN_32_BITS, 0.0, 1e-4),
        (IN_32_BITS, 5e-5, 2e-4),
        (IN_32_BITS, 1e-2, 1e-3),
        (IN_16_BITS, 1e-3, 2e-2),
        (IN_16_BITS, 0.04, 0.16),
        (IN_16_BITS, 1.0, 0.3),
    ],
)
def test_the_limit_is_four_times_the_noise_within_the_bounds_of_the_precision(
    bounds: Bounds, measured: float, limit: float
) -> None:
    noise = Noise(bounds)
    assert noise.limit == bounds.most, "before the measurement, all that the precision may do"
    noise.calibrate([measured] * 32)
    assert noise.limit.mean == pytest.approx(limit)
    assert noise.floor.mean == pytest.approx(max(measured, bounds.rounding.mean))


def test_the_coarsest_precision_bounds_and_a_tolerance_is_the_limit() -> None:
    assert Bounds.of(["float32"]) == IN_32_BITS
    assert Bounds.of(["float32", "bfloat16", "float32"]) == IN_16_BITS
    noise = Noise(Bounds.of(["float32"], tolerance=0.5))
    for _ in range(2):
        assert (noise.limit.mean, noise.limit.p99) == (0.5, 4.0)
        noise.calibrate([1e-6] * 8)
    assert noise.floor.rms < 1e-5, "whether a step arrived is still judged by what was measured"


def test_half_of_a_step_that_shows_is_four_deviations_away() -> None:
    """The law behind a stop: of a step just large enough to show, noise alone hides a half once in 30,000 times."""
    noise, rng = Noise(IN_16_BITS), random.Random(0)
    noise.calibrate([rng.gauss(0, 0.05) for _ in range(4096)])
    step = [1.0] * 24
    least = 8 * math.sqrt(2) * noise.floor.rms / math.sqrt(24)
    assert not noise.shows([0.99 * least * each for each in step])
    assert noise.shows([1.01 * least * each for each in step])

    def seen() -> float:
        theirs = [least + rng.gauss(0, 0.05) - rng.gauss(0, 0.05) for _ in step]
        return share(theirs, [least] * 24)

    shares = [seen() for _ in range(4000)]
    assert min(shares) > 0.5
    spread = math.sqrt(sum((each - 1) ** 2 for each in shares) / len(shares))
    assert spread == pytest.approx(1 / 8, rel=0.1)


def answers(
    mine: float, gaps: dict[Kind, float], seed: int, *, reported: int = 1, name: int = 0, noise: float = 0.0
) -> dict[Kind, Answer]:
    """Answers to every kind of question; the server is off by a gap and by noise."""
    rng = random.Random(seed)

    def answer(kind: Kind) -> Answer:
        ids = tuple(range(TOKENS))
        scored = tuple(mine - 0.01 * place for place in ids)
        theirs = tuple(value + gaps.get(kind, 0.0) + rng.gauss(0, noise) for value in scored)
        prompt = (1, 2, 3, 100 + name if kind is Kind.FRESH else 4)
        served = ServerResponse(
            Completion(ids, theirs, (0,) * TOKENS, Finish.LENGTH), prompt, ((reported, 0, TOKENS),), 0
        )
        return Answer(Question(kind, prompt, Sampling(temperature=0.0, max_tokens=TOKENS)), served, scored, scored)

    return {kind: answer(kind) for kind in KINDS}


def judged(
    gaps: dict[Kind, float], *, step: float = 0.0, arrived: float = 1.0, reported: int = 1, again: bool = True
) -> Diagnosis | None:
    """Diagnose a server in 16 bits after a step, of which a share arrived."""
    noise = Noise(IN_16_BITS)
    noise.calibrate([0.04, 0.05, 0.02, 0.1] * 8)
    late = {kind: gaps.get(kind, 0.0) - step * (1 - arrived) for kind in KINDS}
    last = answers(-1.0, {}, seed=1, reported=0, noise=0.03)
    now = answers(-1.0 + step, late, seed=2, reported=reported, noise=0.03)
    other = answers(-1.0 + step, late if again else {}, seed=3, reported=reported, name=1, noise=0.03)
    return diagnose(now, other, last, version=1, noise=noise)


def test_what_the_second_questions_do_not_confirm_is_noise() -> None:
    everywhere = dict.fromkeys(KINDS, 0.4)
    assert judged(everywhere, again=False) is None
    found = judged(everywhere)
    assert found is not None
    assert (found.cause, found.stops) == (Cause.NUMERICS, False), "the step arrived, so it is a warning"


def test_a_gap_at_the_edge_is_not_a_pattern() -> None:
    """A kind just beyond the limit, beside others just within it, is not a sign of caches or truncation."""
    edge = dict.fromkeys(KINDS, 0.19)
    for kinds in ({Kind.WARM}, {Kind.WARM, Kind.FRESH}, {Kind.SHORT}):
        found = judged({**edge, **dict.fromkeys(kinds, 0.3)})
        assert found is not None
        assert found.cause is Cause.NUMERICS


def test_a_step_beyond_the_noise_that_does_not_arrive_stops_the_run_though_no_gap_is_beyond_the_limit() -> None:
    assert judged({}, step=0.19) is None
    found = judged({}, step=0.19, arrived=0.0)
    assert found is not None
    assert (found.cause, found.stops) == (Cause.NOT_APPLIED, True)
    assert judged({}, step=0.01, arrived=0.0) is None, "a step within the noise proves nothing"


def test_an_old_version_is_not_sent_unless_the_step_is_seen_to_have_arrived() -> None:
    for step, cause in ((0.01, Cause.NOT_SENT), (0.5, Cause.MISNAMED)):
        found = judged({}, step=step, reported=0)
        assert found is not None
        assert (found.cause, found.stops) == (cause, True)


def test_a_wrong_version_stops_a_run_also_where_the_numbers_would_be_a_warning() -> None:
    found = judged(dict.fromkeys(KINDS, 0.4), reported=7)
    assert found is not None
    assert (found.cause, found.stops) == (Cause.MISNAMED, True)


@pytest.mark.parametrize(("gap", "stops"), [(0.6, False), (5.0, True)])
def test_a_cache_stops_a_run_if_no_precision_explains_it(gap: float, stops: bool) -> None:
    found = judged({Kind.WARM: gap})
    assert found is not None
    assert (found.cause, found.stops) == (Cause.CACHED, stops)
