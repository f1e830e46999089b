"""Diagnosis of a server whose answers differ from the trainer's model: the cause, and what to do about it.

This module makes no requests, so hand-written answers can test every cause. A gap counts only if two rounds of
questions have it. Causes that say that a step did not arrive stop a run, and so do facts that no noise can fake: the
ids that a server reports, and its version. The others are warnings. It checks them in this order:

- ``truncated``: it read or generated a different number of tokens than requested; or only long prompts are wrong;
- ``retokenized``: it read other ids than were sent; or a text's own ids are right, and others wrong;
- ``adapter dropped``: it answers as it does without the adapter, where the trainer does not;
- ``not sent``: it did not follow the trainer's step, and reports an earlier version;
- ``not applied``: it did not follow the trainer's step, and reports the new version, or none;
- ``cached``: a prompt in its cache is wrong, and one of the same length outside of the cache is right;
- ``numerics``: it picks the same token as the trainer, and the numbers differ slightly too much;
- ``log-probabilities``: it picks the same token as the trainer, and reports other log-probabilities;
- ``other weights``: none of this: its weights changed, but not to those of the trainer;
- ``misnamed``: the numbers are right, and it reports another version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...inference.policy import Finish
from .canary_prompts import Answer, Kind
from .noise import Gap, Noise, share

Answers = Mapping[Kind, Answer]
BATCHES = 1e-5
"""Largest difference of two answers of the same 32-bit weights in different batches."""
NEAR, FAR = 100, 0.5
"""Bounds of a gap, its mean and its tail, in limits and in nats, up to which its cause is kernels or precision."""
APART = 3
"""How many times as far the questions that are wrong must be off as the others, or the pattern may be noise."""


class Cause(StrEnum):
    """The causes of a difference; see the module's docstring."""

    TRUNCATED = "truncated"
    RETOKENIZED = "retokenized"
    CACHED = "cached"
    ADAPTER_DROPPED = "adapter dropped"
    NOT_SENT = "not sent"
    NOT_APPLIED = "not applied"
    NUMERICS = "different numerics"
    LOGPROBS = "other log-probabilities"
    OTHER_WEIGHTS = "other weights"
    MISNAMED = "misnamed"


REMEDIES = {
    Cause.TRUNCATED: "look for a limit on prompts or answers between here and the model (truncate_prompt_tokens, a "
    "proxy), and start the server with the model's whole --max-model-len",
    Cause.RETOKENIZED: "ids are converted to text on the way; connect to the server directly, and serve the tokenizer "
    "of the trained model",
    Cause.CACHED: "its prefix cache outlived the update: the reset failed or something between answers from a cache; "
    "start the server with --no-enable-prefix-caching, or fix the reset",
    Cause.ADAPTER_DROPPED: "it ignores the adapter that requests name: look for its loading in the server's log, and "
    "check --max-loras and --max-lora-rank; or set server.transfer = native, which sends merged weights",
    Cause.NOT_SENT: "the update did not reach the server: is the address the replica's own, and not a balancer's?",
    Cause.NOT_APPLIED: "the server took the update and kept its weights: look at its log, and try "
    "server.transfer = reload",
    Cause.NUMERICS: "start the server with the trainer's --dtype and without quantization; if this precision is meant, "
    "say so with server.dtype or server.tolerance, and correct with is_mode = tis",
    Cause.LOGPROBS: "start the server with --logprobs-mode processed_logprobs, without penalties or biases; or a part "
    "of the weights, such as a tied output embedding, did not arrive",
    Cause.OTHER_WEIGHTS: "does the server serve the model that is trained, of the same shape, with the same tied "
    "embeddings? A part of the weights may not have arrived",
    Cause.MISNAMED: "tokens would be stamped with the wrong version; another trainer may be updating the same server",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The fault of a server, in words and numbers.

    Args:
        cause: cause of the fault.
        evidence: observed numbers, in words.
        stops: whether a run must stop, since the trainer's step did not arrive, or a fact contradicts the request.
    """

    cause: Cause
    evidence: str
    stops: bool = False

    def __str__(self) -> str:
        return f"{self.cause}: {self.evidence}. What to do: {REMEDIES[self.cause]}"


def diagnose(now: Answers, again: Answers, last: Answers | None, *, version: int, noise: Noise) -> Diagnosis | None:
    """Diagnose a server; return ``None`` if it has the weights.

    Args:
        now: the server's answers about this version.
        again: its answers to other prompts about this version; without them, no gap counts.
        last: its answers about an earlier version, which the trainer has left since.
        version: version that was sent.
        noise: noise of the run.
    """
    asked: dict[Kind, Answer] = {kind: answer for kind, answer in now.items() if kind is not Kind.BARE}
    for answer in (*asked.values(), *(answer for kind, answer in again.items() if kind is not Kind.BARE)):
        if (found := altered(answer)) is not None:
            return found
    found, reported = _measured(now, again, last, version, noise), _told(now)
    if (found is not None and found.stops) or reported is None or reported == version:
        return found
    if reported < version and not (last and moved(asked, last, noise)):
        what = f"version {version} was sent; the server says it has version {reported}"
        return Diagnosis(Cause.NOT_SENT, what, stops=True)
    what = f"version {version} was sent and has arrived; the server calls it {reported}"
    return Diagnosis(Cause.MISNAMED, what, stops=True)


def _measured(now: Answers, again: Answers, last: Answers | None, version: int, noise: Noise) -> Diagnosis | None:
    """Diagnose a server by its log-probabilities: first whether the step arrived, then whether the numbers agree."""
    asked: dict[Kind, Answer] = {kind: answer for kind, answer in now.items() if kind is not Kind.BARE}
    gaps: dict[Kind, Gap] = {kind: answer.gap for kind, answer in asked.items()}
    numbers = ", ".join(f"{kind} {gap.mean:.2g}" for kind, gap in gaps.items())
    against = f"log-probabilities differ from the trainer's by {numbers} in the mean (limit {noise.limit.mean:.2g})"
    # Only if the adapter's own answer is wrong: vLLM 0.32 on a CPU applies a loaded adapter to requests without one,
    # so there the two answers are equal although nothing was dropped.
    differs = Kind.BARE in now and now[Kind.WARM].gap.exceeds(noise.limit)
    if differs and (lacks := _kept([(now[Kind.WARM], now[Kind.BARE])], noise)):
        return Diagnosis(Cause.ADAPTER_DROPPED, f"with and without the adapter, {lacks}; {against}", stops=True)
    stayed, reported = still(asked, last, noise) if last else "", _told(now)
    if stayed:
        old = reported is not None and reported != version
        said = f"the server says it has version {reported}" if reported is not None else "the server names no version"
        cause = Cause.NOT_SENT if old else Cause.NOT_APPLIED
        return Diagnosis(cause, f"{stayed}; {said}; {against}", stops=True)
    wrong = {kind for kind in gaps if _wrong(kind, now, again, noise)}
    if not wrong:
        return None
    # What one round alone shows does not count, but it names what does: a model that is certain of its tokens answers
    # many a prompt right that the server read wrong.
    larger = {kind: max(gap, again[kind].gap, key=lambda each: each.mean) for kind, gap in gaps.items()}
    wrong |= {kind for kind, gap in larger.items() if gap.exceeds(noise.limit.times(APART))}
    if (found := _partly(larger, wrong, now, last or {}, noise, against)) is not None:
        return found
    if Kind.BARE in now and _wrong(Kind.BARE, now, again, noise):
        bare = f"the base model that it serves is not the one that the adapters belong to: without them {against}"
        gap = now[Kind.BARE].gap
        return Diagnosis(Cause.OTHER_WEIGHTS, f"{bare}, {Kind.BARE} {gap.mean:.2g}", stops=noise.gross(gap))
    return _whole(now, last or {}, max(gaps.values(), key=lambda gap: gap.mean), noise, against)


def suspicious(now: Answers, noise: Noise) -> bool:
    """Whether the answers to any question are beyond the noise, which calls for a second opinion."""
    return any(answer.gap.exceeds(noise.limit) for kind, answer in now.items() if kind is not Kind.BARE)


def _wrong(kind: Kind, now: Answers, again: Answers, noise: Noise) -> bool:
    both = now[kind], again.get(kind)
    return all(answer is not None and answer.gap.exceeds(noise.limit) for answer in both)


def altered(answer: Answer) -> Diagnosis | None:
    """Diagnose a server that reports having read or generated a different number of tokens than requested."""
    sent, read = answer.question.prompt_ids, answer.served.prompt_ids
    if read != sent:
        first = next((i for i, (a, b) in enumerate(zip(read, sent, strict=False)) if a != b), len(read))
        what = f"of a prompt of {len(sent)} ids the server read {len(read)}"
        if len(read) < len(sent) and read in (sent[: len(read)], sent[len(sent) - len(read) :]):
            return Diagnosis(Cause.TRUNCATED, what, stops=True)
        return Diagnosis(Cause.RETOKENIZED, f"{what}, others from place {first} on", stops=True)
    said, wanted = answer.served.completion, answer.question.sampling.max_tokens
    if len(said.token_ids) < wanted and said.finish is not Finish.ABORT:
        return Diagnosis(
            Cause.TRUNCATED,
            f"{wanted} tokens were asked for and {len(said.token_ids)} came back (finish {said.finish.value}), though "
            "no stop token was named",
            stops=True,
        )
    return None


def _partly(
    gaps: Mapping[Kind, Gap], wrong: set[Kind], now: Answers, last: Answers, noise: Noise, against: str
) -> Diagnosis | None:
    """Diagnose a server that answers some kinds of questions wrong, and others right."""
    right = max((gap.mean for kind, gap in gaps.items() if kind not in wrong), default=0.0)
    if min(gaps[kind].mean for kind in wrong) < APART * right:
        return None
    if wrong == {Kind.WARM}:
        warm = {Kind.WARM: now[Kind.WARM]}
        stops = noise.gross(gaps[Kind.WARM]) or bool(still(warm, last, noise))
        cached = now[Kind.WARM].served.cached
        return Diagnosis(Cause.CACHED, f"{cached} tokens of the prompt came from its cache; {against}", stops=stops)
    if Kind.PLAIN in wrong or Kind.PLAIN not in gaps:
        return None
    if Kind.SHORT in wrong:
        if wrong == {Kind.SHORT} and _only_tempered(now, noise):
            temperature = now[Kind.SHORT].question.sampling.temperature
            return Diagnosis(Cause.LOGPROBS, f"only at temperature {temperature:g} they are wrong; {against}")
        return Diagnosis(Cause.RETOKENIZED, f"a text's own ids come out right and others do not; {against}")
    return Diagnosis(Cause.TRUNCATED, f"short prompts come out right and long ones do not; {against}")


def _only_tempered(now: Answers, noise: Noise) -> bool:
    """Whether the temperature explains a wrong answer that was sampled at one, beside right ones that were not.

    It does if the numbers are those of temperature 1. Otherwise, the greedy answers have to show that the server read
    the ids of their prompts. The trainer picks their ids, too; but where it is certain of them, it would do so after
    many another prompt.
    """
    short = now[Kind.SHORT]
    if short.question.sampling.temperature == 1:
        return False
    if not Gap.of(a - b for a, b in zip(short.theirs, short.untempered, strict=False)).exceeds(noise.limit):
        return bool(short.untempered)
    greedy = [now[kind] for kind in (Kind.WARM, Kind.FRESH) if kind in now]
    uncertain = any(Gap.of(answer.mine).exceeds(noise.limit) for answer in greedy)
    return uncertain and all(answer.chosen(noise.floor.p99) for answer in greedy)


def _whole(now: Answers, last: Answers, worst: Gap, noise: Noise, against: str) -> Diagnosis:
    """Diagnose a server whose answers are all wrong: the trainer has not moved, or the server has moved elsewhere."""
    greedy = [now[kind] for kind in (Kind.WARM, Kind.FRESH, Kind.PLAIN) if kind in now]
    gross, limit, near = noise.gross(worst), noise.limit, noise.floor.p99
    if Kind.BARE in now and alike(now[Kind.WARM], now[Kind.BARE], noise):
        return Diagnosis(Cause.ADAPTER_DROPPED, f"it answers exactly as without the adapter; {against}", stops=gross)
    others = [answer for answer in greedy if not answer.chosen(near)]
    swapped = [answer for answer in others if abs(answer.theirs[0] - answer.best[0]) <= max(near, 1e-2)]
    if len(swapped) == len(others) >= min(2, len(greedy)) > 0:  # one alone can be a coincidence of other weights
        return Diagnosis(
            Cause.RETOKENIZED,
            f"it gives the trainer's log-probability of the likeliest id, {swapped[0].theirs[0]:.4g}, beside another "
            f"id, {swapped[0].ids[0]}; {against}",
        )
    if _near(worst.p99, limit.p99) and _near(worst.mean, limit.mean):
        return Diagnosis(Cause.NUMERICS, against)
    if not others:
        return Diagnosis(Cause.LOGPROBS, f"it picks the ids that the trainer would; {against}")
    unmoved = [kind for kind in last if kind in now and alike(now[kind], last[kind], noise)]
    if unmoved and len(unmoved) == len(last.keys() & (now.keys() - {Kind.FRESH})):
        what = f"it answers exactly as it did before the update; {against}"
        return Diagnosis(Cause.NOT_APPLIED, what, stops=gross)
    return Diagnosis(Cause.OTHER_WEIGHTS, against, stops=gross)


def _near(gap: float, limit: float) -> bool:
    """Whether a gap is so little beyond its limit that kernels or precision explain it, and no weights."""
    return gap <= max(min(NEAR * limit, FAR), 2 * limit)


def still(now: Answers, last: Answers, noise: Noise) -> str:
    """Describe that a server did not move while the trainer did; empty if the server moved, or the trainer did not.

    A server that answers with other ids has moved. Over all tokens, let d be the server's step and t the trainer's. The
    server did not move if ⟨d, t⟩ / ⟨t, t⟩ < 1/2, which the noise of batches hardly changes. Steps of the trainer within
    that noise prove nothing.
    """
    found = _kept(_pairs(now, last), noise)
    return f"since the version before, {found}" if found else ""


def _kept(pairs: Sequence[tuple[Answer, Answer]], noise: Noise) -> str:
    """Describe that a server answers alike where the trainer does not; empty if it does not."""
    if any(new.ids != old.ids for new, old in pairs):
        return ""
    theirs = [a - b for new, old in pairs for a, b in zip(new.theirs, old.theirs, strict=True)]
    mine = [a - b for new, old in pairs for a, b in zip(new.mine, old.mine, strict=True)]
    if not noise.shows(mine) or share(theirs, mine) >= 0.5:
        return ""
    return (
        f"the trainer's log-probabilities moved by up to {max(map(abs, mine)):.2g} and the server's by "
        f"{max(map(abs, theirs)):.2g}"
    )


def moved(now: Answers, last: Answers, noise: Noise) -> bool:
    """Whether the trainer moved further than noise since it scored the same answers."""
    pairs = _pairs(now, last)
    if any(new.ids != old.ids for new, old in pairs):
        return True
    return noise.shows([a - b for new, old in pairs for a, b in zip(new.mine, old.mine, strict=True)])


def _pairs(now: Answers, last: Answers) -> list[tuple[Answer, Answer]]:
    """Pair the answers to the questions that stayed the same."""
    return [(now[kind], last[kind]) for kind in now if kind in last and now[kind].question == last[kind].question]


def alike(one: Answer, other: Answer, noise: Noise) -> bool:
    """Whether two answers of a server are the same except for the noise of batches."""
    near = max(BATCHES, noise.floor.p99)
    return one.ids == other.ids and all(abs(a - b) <= near for a, b in zip(one.theirs, other.theirs, strict=True))


def _told(now: Answers) -> int | None:
    """Return the version that the server reports; ``None`` without one, as for adapters."""
    spans = [answer.served.spans for answer in now.values() if answer.served.spans and Kind.BARE not in now]
    return spans[0][-1][0] if spans else None
