"""Diagnosis of a server whose answers differ from the trainer's model: the cause, and what to do about it.

This module makes no requests, so hand-written answers can test every cause. It checks them in this order:

- ``truncated``: it read or generated a different number of tokens than requested; or only long prompts are wrong;
- ``retokenized``: it read other ids than were sent; or a text's own ids are right, and others wrong;
- ``cached``: a prompt in its cache is wrong, and one of the same length outside of the cache is right;
- ``adapter dropped``: it answers as it does without the adapter;
- ``not sent``: it answers exactly as before, and reports the version of before;
- ``not applied``: it answers exactly as before, and reports the new version, or none;
- ``numerics``: it picks the same token as the trainer, and the numbers differ slightly too much;
- ``log-probabilities``: it picks the same token as the trainer, and reports other log-probabilities;
- ``other weights``: none of this: its weights changed, but not to those of the trainer;
- ``misnamed``: the numbers are right, and it reports another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ...inference.policy import Finish
from .canary import noise
from .canary_prompts import Answer, Kind

Answers = Mapping[Kind, Answer]
BATCHES = 1e-5
"""Largest difference of two answers of the same 32-bit weights in different batches."""
NEAR, FAR = 100, 0.5
"""Bounds of a difference, in tolerances and in nats, up to which the cause is kernels or precision, not weights."""


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
    "say so with server.dtype, which widens the tolerance, and correct with is_mode = tis",
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
    """

    cause: Cause
    evidence: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.evidence}. What to do: {REMEDIES[self.cause]}"


def diagnose(now: Answers, last: Answers | None, *, version: int, tolerance: float) -> Diagnosis | None:
    """Diagnose a server; return ``None`` if it has the weights.

    Args:
        now: the server's answers about this version.
        last: its answers about an earlier version, which the trainer has left since.
        version: version that was sent.
        tolerance: largest difference of a log-probability.
    """
    asked: dict[Kind, Answer] = {kind: answer for kind, answer in now.items() if kind is not Kind.BARE}
    for answer in asked.values():
        if (found := _altered(answer)) is not None:
            return found
    gaps: dict[Kind, float] = {kind: answer.gap for kind, answer in asked.items()}
    wrong: set[Kind] = {kind for kind, gap in gaps.items() if gap > tolerance}
    told = _told(now)
    numbers = ", ".join(f"{kind} {gap:.2g}" for kind, gap in gaps.items())
    against = f"log-probabilities differ from the trainer's by {numbers} (tolerance {tolerance:g})"
    if wrong and (found := _partly(gaps, wrong, now, against)) is not None:
        return found
    if wrong and Kind.BARE in now and now[Kind.BARE].gap > tolerance:
        bare = f"the base model that it serves is not the one that the adapters belong to: without them {against}"
        return Diagnosis(Cause.OTHER_WEIGHTS, f"{bare}, {Kind.BARE} {now[Kind.BARE].gap:.2g}")
    stayed = still(asked, last, tolerance) if last else ""
    if stayed:
        if Kind.BARE in now and alike(now[Kind.WARM], now[Kind.BARE], tolerance):
            return Diagnosis(Cause.ADAPTER_DROPPED, f"{stayed}, and as without the adapter; {against}")
        old = told is not None and told != version
        said = f"the server says it has version {told}" if told is not None else "the server names no version"
        return Diagnosis(Cause.NOT_SENT if old else Cause.NOT_APPLIED, f"{stayed}; {said}; {against}")
    if wrong:
        return _whole(now, last or {}, max(gaps.values()), tolerance, against)
    if told is not None and told != version:
        return Diagnosis(Cause.MISNAMED, f"version {version} was sent and has arrived; the server calls it {told}")
    return None


def _altered(answer: Answer) -> Diagnosis | None:
    """Diagnose a server that reports having read or generated a different number of tokens than requested."""
    sent, read = answer.question.prompt_ids, answer.served.prompt_ids
    if read != sent:
        first = next((i for i, (a, b) in enumerate(zip(read, sent, strict=False)) if a != b), len(read))
        what = f"of a prompt of {len(sent)} ids the server read {len(read)}"
        if len(read) < len(sent) and read in (sent[: len(read)], sent[len(sent) - len(read) :]):
            return Diagnosis(Cause.TRUNCATED, what)
        return Diagnosis(Cause.RETOKENIZED, f"{what}, others from place {first} on")
    said, wanted = answer.served.completion, answer.question.sampling.max_tokens
    if len(said.token_ids) < wanted and said.finish is not Finish.ABORT:
        return Diagnosis(
            Cause.TRUNCATED,
            f"{wanted} tokens were asked for and {len(said.token_ids)} came back (finish {said.finish.value}), though "
            "no stop token was named",
        )
    return None


def _partly(gaps: Mapping[Kind, float], wrong: set[Kind], now: Answers, against: str) -> Diagnosis | None:
    """Diagnose a server that answers some kinds of questions wrong, and others right."""
    if wrong == {Kind.WARM}:
        cached = now[Kind.WARM].served.cached
        return Diagnosis(Cause.CACHED, f"{cached} tokens of the prompt came from its cache; {against}")
    if Kind.PLAIN in wrong or Kind.PLAIN not in gaps:
        return None
    if Kind.SHORT in wrong:
        chosen = all(now[kind].chosen for kind in (Kind.WARM, Kind.FRESH) if kind in now)
        if wrong == {Kind.SHORT} and chosen and now[Kind.SHORT].question.sampling.temperature != 1:
            temperature = now[Kind.SHORT].question.sampling.temperature
            return Diagnosis(Cause.LOGPROBS, f"only at temperature {temperature:g} they are wrong; {against}")
        return Diagnosis(Cause.RETOKENIZED, f"a text's own ids come out right and others do not; {against}")
    return Diagnosis(Cause.TRUNCATED, f"short prompts come out right and long ones do not; {against}")


def _whole(now: Answers, last: Answers, worst: float, tolerance: float, against: str) -> Diagnosis:
    """Diagnose a server whose answers are all wrong: the trainer has not moved, or the server has moved elsewhere."""
    greedy = [now[kind] for kind in (Kind.WARM, Kind.FRESH, Kind.PLAIN) if kind in now]
    if Kind.BARE in now and alike(now[Kind.WARM], now[Kind.BARE], tolerance):
        return Diagnosis(Cause.ADAPTER_DROPPED, f"it answers exactly as without the adapter; {against}")
    swapped = [answer for answer in greedy if not answer.chosen and abs(answer.theirs[0] - answer.best[0]) <= tolerance]
    if swapped and len(swapped) == sum(not answer.chosen for answer in greedy):
        return Diagnosis(
            Cause.RETOKENIZED,
            f"it gives the trainer's log-probability of the likeliest id, {swapped[0].theirs[0]:.4g}, beside another "
            f"id, {swapped[0].ids[0]}; {against}",
        )
    if worst <= min(NEAR * tolerance, FAR):
        return Diagnosis(Cause.NUMERICS, against)
    if all(answer.chosen for answer in greedy):
        return Diagnosis(Cause.LOGPROBS, f"it picks the ids that the trainer would; {against}")
    unmoved = [kind for kind in last if kind in now and alike(now[kind], last[kind], tolerance)]
    if unmoved and len(unmoved) == len(last.keys() & (now.keys() - {Kind.FRESH})):
        return Diagnosis(Cause.NOT_APPLIED, f"it answers exactly as it did before the update; {against}")
    return Diagnosis(Cause.OTHER_WEIGHTS, against)


def still(now: Answers, last: Answers, tolerance: float) -> str:
    """Describe that a server did not move while the trainer did; empty if the server moved, or the trainer did not.

    A server that answers with other ids has moved. Over all tokens, let d be the server's step and t the trainer's. The
    server did not move if ⟨d, t⟩ / ⟨t, t⟩ < 1/2, which the noise of batches hardly changes. Steps of the trainer within
    that noise prove nothing.
    """
    pairs = [(now[k], last[k]) for k in now if k in last and now[k].question == last[k].question]
    same = [(new, old) for new, old in pairs if new.ids == old.ids]
    theirs = [a - b for new, old in same for a, b in zip(new.theirs, old.theirs, strict=True)]
    mine = [a - b for new, old in same for a, b in zip(new.mine, old.mine, strict=True)]
    furthest = max(map(abs, mine), default=0.0)
    if not moved(now, last, tolerance) or len(same) < len(pairs):
        return ""
    share = sum(a * b for a, b in zip(theirs, mine, strict=True)) / sum(b * b for b in mine)
    if share >= 0.5:
        return ""
    step = max(map(abs, theirs), default=0.0)
    return (
        f"since the version before, the trainer's log-probabilities moved by up to {furthest:.2g} and the server's by "
        f"{step:.2g}"
    )


def moved(now: Answers, last: Answers, tolerance: float) -> bool:
    """Whether the trainer moved further than noise since it scored the same answers."""
    furthest = 0.0
    for kind, new in now.items():
        old = last.get(kind)
        if old is None or new.question != old.question:
            continue
        if new.ids != old.ids:
            return True
        furthest = max([furthest, *(abs(a - b) for a, b in zip(new.mine, old.mine, strict=True))])
    return furthest > noise(tolerance, in_32_bits=BATCHES)


def alike(one: Answer, other: Answer, tolerance: float) -> bool:
    """Whether two answers of a server are the same except for the noise of batches."""
    near = noise(tolerance, in_32_bits=BATCHES)
    return one.ids == other.ids and all(abs(a - b) <= near for a, b in zip(one.theirs, other.theirs, strict=True))


def _told(now: Answers) -> int | None:
    """Return the version that the server reports; ``None`` without one, as for adapters."""
    spans = [answer.served.spans for answer in now.values() if answer.served.spans and Kind.BARE not in now]
    return spans[0][-1][0] if spans else None
