"""The outcome of a run: its folder and model, success before and after, and steps in which nothing was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...rollouts.episode import CUT_RATE, FAILURE_RATE, FEWEST_FAILURES
from ...rollouts.stats import wilson_interval

Line = Mapping[str, Any]
"""One line of ``metrics.jsonl``."""
WINDOW = 10
"""Number of steps in a row over which lost training episodes are counted, so that a long good run hides no bad part."""
FAILED_STEPS = 3
"""Number of steps in a row without any success after which it is not chance that a policy fails."""

OUTSIDE_RATE = 0.05
"""Largest share of a critic's targets beyond its bins that is not worth a warning."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a training run.

    Args:
        folder: the run's folder.
        model: the exported model.
        steps: steps trained in all.
        metrics: the last numbers seen of each name.
        note: remarks on how it ended, such as why it stopped early.
        success: success before and after, in words; empty where nothing was measured.
    """

    folder: Path
    model: Path
    steps: int
    metrics: Mapping[str, float]
    note: str = ""
    success: str = ""


def success_line(log: Sequence[Line], split: str) -> str:
    """Describe the first and last success of a run, with an interval for the last one.

    For example ``"success in 50 dev episodes: 18.0 % → 88.0 % (76.2 – 94.4, Wilson 95 %)"``.

    Args:
        log: the lines of ``metrics.jsonl``.
        split: the split of the held-out tasks.

    Returns:
        Success on held-out tasks, or on training tasks in a run without evaluations; empty without either.
    """
    held_out = [line for line in log if line.get("eval/success") is not None]
    if held_out:
        tasks = f"{held_out[-1].get('eval/episodes', 0):.0f} {split} episodes"
        first, last = (
            sum(float(line.get(f"eval/{name}") or 0) for name in ("episodes", "unscored"))
            for line in (held_out[0], held_out[-1])
        )
        if first != last:  # a resumed run may change eval.episodes, and then its tasks are others
            tasks += f" (the first evaluation had {first:.0f}, and cannot be compared)"
            held_out = held_out[-1:]
        ends = held_out if len(held_out) == 1 else [held_out[0], held_out[-1]]
        shares = [f"{100 * line['eval/success']:.1f} %" for line in ends]
        return f"success in {tasks}: {' → '.join(shares)}{_interval(ends[-1])}"
    played = [line for line in log if line.get("success") is not None]
    return (
        f"success on training tasks in step {played[-1]['step']}: {100 * played[-1]['success']:.1f} %" if played else ""
    )


def only_critic(steps: int, warmup: int) -> str:
    """Say that a run ended while only its critic was learning, so that its model is the one that it started from.

    Args:
        steps: steps of the whole run.
        warmup: first steps, in which only the critic learns.
    """
    if steps > warmup:
        return ""
    return (
        f"the policy has not learned: in the first {warmup} steps only the critic does (values.warmup); resume with "
        "more steps"
    )


def _interval(line: Line) -> str:
    n, rate = float(line.get("eval/episodes") or 0), float(line["eval/success"])
    if n < 1:
        return ""
    low, high = wilson_interval(rate * n, n)
    return f" ({100 * low:.1f} – {100 * high:.1f}, Wilson 95 %)"


def episodes_lost(log: Sequence[Line]) -> str:
    """Say that infrastructure failures lost so many episodes that success and gradients may be biased.

    A lost episode reaches no advantage and no average. Its task is then missing from both, and a policy could make the
    infrastructure fail on purpose: the share that evaluations tolerate holds here, too.

    Args:
        log: the lines of ``metrics.jsonl``.

    Returns:
        One sentence for the worst ten steps of training in a row, one for the worst evaluation; empty where each lost
        at most 5 % of the episodes, or fewer than three.
    """
    found = []
    for prefix, what, width in (("", "training", WINDOW), ("eval/", "held-out", 1)):
        lines = [line for line in log if f"{prefix}unscored" in line]
        spans = [lines[at : at + width] for at in range(max(len(lines) - width, 0) + 1)]
        counts = [_lost_of_played(span, prefix) for span in spans]
        lost, played = max(counts, key=lambda pair: pair[0] / max(pair[1], 1))
        if lost:
            found.append(
                f"infrastructure failures lost {lost:.0f} of {played:.0f} {what} episodes in a row "
                f"(limit {FAILURE_RATE:.0%}): the results are inconclusive; fix the failures (unscored in "
                "metrics.jsonl), then run again"
            )
    return "; ".join(found)


def _lost_of_played(span: Sequence[Line], prefix: str) -> tuple[float, float]:
    """Return the episodes that were lost and those that were played; none lost where it is within the limit."""
    lost = _total(span, f"{prefix}unscored")
    played = lost + _total(span, f"{prefix}episodes") + (0.0 if prefix else _total(span, "policy_failed"))
    return (lost if lost >= FEWEST_FAILURES and lost > FAILURE_RATE * played else 0.0), played


class LastSuccess:
    """The last step in which some attempt succeeded, and what followed: steps without success, and learning.

    Args:
        log: the lines of ``metrics.jsonl`` so far.
    """

    def __init__(self, log: Sequence[Line] = ()) -> None:
        self._step, self._rate, self._failed, self._learned = 0, 0.0, 0, False
        for line in log:
            self.see(line)

    def see(self, line: Line) -> None:
        """Process the numbers of a step or an evaluation."""
        rate = max(float(line.get(name) or 0.0) for name in ("success", "eval/success"))
        if rate > 0:
            self._step, self._rate, self._failed, self._learned = int(line["step"]), rate, 0, False
        elif line.get("success") is not None:
            self._failed += 1
        self._learned = self._learned or bool(line.get("updates"))

    @property
    def lost(self) -> bool:
        """Whether a policy that succeeded has learned, and has then failed every attempt of several steps."""
        return bool(self._rate) and self._learned and self._failed >= FAILED_STEPS

    @property
    def remedy(self) -> str:
        """Remedy for a step without success, if the policy succeeded before and may do so again; else empty."""
        share = f"{100 * self._rate:.1f} %"
        if self.lost:
            return (
                f"success has fallen to 0 since step {self._step} ({share}): lower optimizer.lr, keep the model of the "
                "best evaluation (eval.keep_best), and make sure that unreadable actions earn no more than others "
                "(unparsed_reward)"
            )
        if self._rate and self._failed < FAILED_STEPS:
            return f"{share} did in step {self._step}, so it may be chance; a larger tasks_per_step makes that rare"
        return ""


def nothing_learned(log: Sequence[Line], remedy: str = "") -> str:
    """Say that no step changed the model, and why; empty if one did, or if the algorithm counts no updates.

    Args:
        log: the lines of ``metrics.jsonl``, or some of them.
        remedy: what to do if no attempt succeeded, though some did before: see ``LastSuccess``.
    """
    steps = [line for line in log if line.get("updates") is not None]
    if not steps or any(line["updates"] for line in steps):
        return ""
    span = f"step {steps[0]['step']}" if len(steps) == 1 else f"{len(steps)} steps"
    return f"nothing was learned in {span}: {_reason(steps, remedy)}"


def actions_cut(line: Line) -> str:
    """Say that actions were cut at the token limit, more than a healthy policy has; empty otherwise.

    Args:
        line: the numbers of a step.
    """
    if (line.get("cut_actions") or 0.0) <= CUT_RATE:
        return ""
    return (
        f"{line['cut_actions']:.0%} of the actions in step {line['step']} were cut at agent.max_tokens (limit "
        f"{CUT_RATE:.0%}), so the policy learns from what it did not finish saying: raise agent.max_tokens, or look "
        "whether it stops at all (keep_episodes = sample)"
    )


def targets_outside(line: Line) -> str:
    """Say that a critic of distributions has targets beyond its bins, which it can never predict; empty otherwise.

    Args:
        line: the numbers of a step.
    """
    if (line.get("critic/outside") or 0.0) <= OUTSIDE_RATE:
        return ""
    return (
        f"{line['critic/outside']:.0%} of the critic's targets in step {line['step']} are outside of its bins, and it "
        "learns the nearest end instead: start again with critic_model.histogram.low and .high around all returns"
    )


def _reason(steps: Sequence[Line], remedy: str) -> str:
    same, success = _total(steps, "groups_without_variance"), _mean(steps, "success")
    if not _total(steps, "episodes"):
        return "no episode was played to its end; see unscored and policy_failed in metrics.jsonl"
    if _total(steps, "groups") > same + _total(steps, "groups_without_baseline"):  # ``groups`` are those learned from
        return "attempts at a task had different returns, and the algorithm gave none of them an advantage"
    if not same:
        return "no episode had an advantage; see metrics.jsonl"
    reason = f"in {same:.0f} group{'s' * (same != 1)} all attempts at a task had the same return"
    if success == 0:
        cut = _mean(steps, "cut_actions") or 0.0
        hint = f", and {cut:.0%} of actions were cut at agent.max_tokens" if cut > 0.5 else ""
        cure = remedy or (
            "start from a model that succeeds sometimes (`turnwise train bc`), choose easier levels, or check "
            "agent.parser and agent.max_tokens"
        )
        return f"{reason}, and no attempt succeeded{hint}; {cure}"
    if success == 1:
        return f"{reason}: every attempt succeeded; choose harder tasks"
    return f"{reason}; use more attempts per task (group_size) or a higher agent.temperature"


def _total(steps: Sequence[Line], name: str) -> float:
    return sum(float(line.get(name) or 0.0) for line in steps)


def _mean(steps: Sequence[Line], name: str) -> float | None:
    there = [float(line[name]) for line in steps if line.get(name) is not None]
    return sum(there) / len(there) if there else None
