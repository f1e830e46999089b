"""Format numbers for people, with the same words on the terminal, in Markdown and in HTML."""

from __future__ import annotations

from collections.abc import Sequence

from ..rollouts.episode import CUT_RATE
from .failures import ENVIRONMENT_FAILED
from .statistics import Estimate
from .summary import Summary

OPERATIONAL = frozenset(
    {
        "concurrency",
        "turn_timeout",
        "env_timeout",
        "episode_timeout",
        "retries",
        "hedge_resets",
        "isolation",
        "confidence",
    }
)
"""Settings that change no result; a report omits them."""
TIME_NOTE = (
    "Wall time of the scored episodes, added up, with all waiting: the policy's share includes the queue of a batch or "
    "a server, the environment's that for a thread, a process or a server. Turnwise's share is bookkeeping and waiting "
    "for other episodes of the run; where the policy answers at once, it is nearly all there is."
)
"""Explanation of the time split."""
EMPTY: tuple[object, ...] = (None, "", [], {})


def signed(number: float, digits: int, *, plus: bool = True) -> str:
    """Format a number with a real minus sign, and by default a plus sign: ``"+12.0"``, ``"−3.1"``."""
    text = f"{abs(number):.{digits}f}"
    negative = number < 0 and float(text) != 0
    return ("−" if negative else "+" if plus else "") + text


def plain(number: float) -> str:
    """Format a number with as many digits as it needs: ``"6.2"``, ``"−0.25"``, ``"1,234"``."""
    size = abs(number)
    if size >= 1000:
        text = f"{size:,.0f}"
    elif size >= 100 or size == int(size):
        text = f"{size:.0f}"
    else:
        text = f"{size:.1f}" if size >= 10 else f"{size:.2f}"
    return ("−" if number < 0 and text.strip("0.") else "") + text


def by_number(count: int, one: str, many: str) -> str:
    """Return the singular of a phrase for one, and its plural for any other number."""
    return one if count == 1 else many


def percent(share: float) -> str:
    """Format a share of one: ``"61.5 %"``."""
    return f"{100 * share:.1f} %"


def whole_percent(share: float) -> str:
    """Format a share of one without decimals: ``"71 %"``; ``"<1 %"`` if rounding would hide it."""
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def interval(estimate: Estimate, *, rate: bool = False) -> str:
    """Format the ends of an interval, ``"54.6 – 68.0"``, in percent for a rate; without one, the reason."""
    if estimate.low is None or estimate.high is None:
        return "no interval from one value" if estimate.n == 1 else "no interval"
    if rate:
        return f"{100 * estimate.low:.1f} – {100 * estimate.high:.1f}"
    return f"{plain(estimate.low)} – {plain(estimate.high)}"


def method(estimate: Estimate) -> str:
    """Describe the method of an interval: ``"Wilson 95 %"``."""
    return f"{estimate.method} {100 * estimate.confidence:g} %"


def success(summary: Summary) -> str:
    """Format the success rate: ``"61.5 %"``; ``"inconclusive"`` if the infrastructure failed too often."""
    return "inconclusive" if summary.inconclusive else percent(summary.success.value)


def success_interval(summary: Summary) -> str:
    """Format the interval of success, or its possible range if the infrastructure failed too often."""
    if not summary.inconclusive:
        return interval(summary.success, rate=True)
    return "{:.1f} – {:.1f}".format(*(100 * end for end in summary.possible)) if summary.possible else "unknown"


def success_method(summary: Summary) -> str:
    """Describe the method of ``success_interval``."""
    return "possible" if summary.inconclusive else method(summary.success)


def time_split(summary: Summary) -> str:
    """Format the time split: ``"policy 71 % · environment 28 % · turnwise 1 %"``; ``TIME_NOTE`` says what it counts."""
    names = ("policy", "environment", "turnwise")
    return " · ".join(f"{name} {whole_percent(share)}" for name, share in zip(names, summary.time.shares, strict=True))


def failures(summary: Summary) -> str:
    """List failures by kind, and unscored episodes: ``"41 wrong answer · 5 infrastructure (not scored)"``."""
    parts = [f"{count} {kind}" for kind, count in summary.failures.items()]
    bugs = summary.infrastructure.get(ENVIRONMENT_FAILED, 0)
    if bugs:
        parts.append(f"{bugs} environment bug (not scored)")
    broken = sum(summary.infrastructure.values()) - bugs
    if broken:
        parts.append(f"{broken} infrastructure (retried, not scored)")
    if summary.cancelled:
        parts.append(f"{summary.cancelled} cancelled (not scored)")
    return " · ".join(parts) or "none"


def environment_notes(summary: Summary) -> list[str]:
    """Return notes on failed infrastructure; each error of the environment's code has its author's line."""
    notes = [summary.inconclusive] if summary.inconclusive else []
    if summary.after_action and not notes:
        bugs = summary.infrastructure.get(ENVIRONMENT_FAILED, 0)
        what = "the environment or the infrastructure" if bugs else "the infrastructure"
        episodes = "1 episode" if summary.after_action == 1 else f"{summary.after_action} episodes"
        notes = [f"in {episodes} {what} failed after an action of the agent"]
    return notes + [
        f"{count} of {summary.episodes} episodes are not scored, because the {error}"
        for error, count in summary.environment_errors.items()
    ]


def cut_note(summary: Summary) -> str:
    """Say that many actions ended at the token limit; empty for no more than a healthy policy has."""
    if summary.cut_actions <= CUT_RATE * summary.actions:
        return ""
    return f"{summary.cut_actions} of {summary.actions} actions ended at the token limit; raise agent.max_tokens?"


def seconds(amount: float) -> str:
    """Format a duration: ``"0.8 ms"``, ``"12 s"``, ``"3 min 20 s"``, ``"2 h 5 min"``."""
    if amount < 1:
        return f"{1000 * amount:.1f} ms" if amount < 0.1 else f"{1000 * amount:.0f} ms"
    if amount < 60:
        return f"{amount:.1f} s" if amount < 10 else f"{amount:.0f} s"
    minutes, left = divmod(round(amount), 60)
    return f"{minutes} min {left} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def dollars(amount: float) -> str:
    """Format an amount of money: ``"$12.34"``, ``"$0.0012"``."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def facts(summary: Summary) -> list[tuple[str, str, str]]:
    """Return further numbers of a summary: name, value, and a remark (mostly an interval)."""
    rows = [("mean return", plain(summary.mean_return.value), interval(summary.mean_return))]
    if (last := summary.largest_k) is not None:
        rows.append((f"pass@{last.k}", percent(last.at.value), interval(last.at, rate=True)))
        rows.append((f"pass^{last.k}", percent(last.hat.value), interval(last.hat, rate=True)))
    rows.append(("turns", plain(summary.turns.value), "per episode"))
    if summary.action_tokens.value:
        rows.append(("tokens sampled", plain(summary.action_tokens.value), "per episode"))
        rows.append(("tokens read", plain(summary.prompt_tokens.value), "per episode, all prompts"))
    rows.append(("episodes scored", f"{summary.scored:,}", f"of {summary.episodes:,}, {summary.tasks:,} tasks"))
    if summary.time.total > 0:
        rows.append(("time", seconds(summary.time.total / summary.scored), "per episode"))
    if (api := summary.api) is not None:
        if api.cost is not None:
            rows.append(("cost", dollars(api.cost), f"{dollars(api.cost / summary.episodes)} per episode"))
        rows.append(("latency", seconds(api.median_seconds), f"median of a request; 95 % {seconds(api.p95_seconds)}"))
        if api.cached_tokens:
            share = whole_percent(api.cached_tokens / max(1, api.prompt_tokens))
            rows.append(("read from the provider's cache", share, "of the tokens read"))
        if api.kept:
            rows.append(("answers kept", f"{api.kept:,}", f"of {api.answers:,}; not asked for again"))
    if summary.unparsed_actions:
        rows.append(("unparseable actions", f"{summary.unparsed_actions:,}", f"of {summary.actions:,}"))
    if summary.cut_actions:
        rows.append(("cut at token limit", f"{summary.cut_actions:,}", f"of {summary.actions:,} actions"))
    return rows


def made(summary: Summary) -> list[tuple[str, str]]:
    """Describe how a summary was made, as names and values; empty if that is unknown."""
    if (how := summary.made) is None:
        return []
    settings = {name: value for name, value in how.settings.items() if name not in OPERATIONAL and value not in EMPTY}
    rows = [
        ("date", how.date),
        ("command", how.command),
        ("settings", ", ".join(f"{name}={value}" for name, value in settings.items())),
        ("software", ", ".join(f"{name} {version}" for name, version in how.versions.items())),
        ("git commit", how.commit or "none"),
    ]
    return [row for row in rows if row[1]]


def not_scored(summary: Summary) -> str:
    """Describe the unscored episodes in a sentence; empty if there are none."""
    parts = [f"{count} infrastructure ({name})" for name, count in summary.infrastructure.items()]
    if summary.cancelled:
        parts.append(f"{summary.cancelled} cancelled")
    text = f"Not scored, counted in nothing: {', '.join(parts)}." if parts else ""
    text = f"{summary.inconclusive[:1].upper()}{summary.inconclusive[1:]}. {text}" if summary.inconclusive else text
    text += "".join(f" The {error}; {count} times." for error, count in summary.environment_errors.items())
    if summary.retried:
        text += f" {summary.retried} episodes needed more than one attempt."
    return text.strip()


def subtitle(summaries: Sequence[Summary], title: str = "") -> str:
    """Describe the tasks in one line, without repeating the title."""
    episodes, scored = sum(s.episodes for s in summaries), sum(s.scored for s in summaries)
    environments = [id for id in dict.fromkeys(id for s in summaries for id in s.env_ids) if id not in title]
    splits = sorted({part.name for s in summaries for part in s.splits})
    parts = [*environments, f"{scored:,} of {episodes:,} episodes scored", *([", ".join(splits)] if splits else [])]
    return " · ".join(parts) if summaries else ""


def training_note(seeds: int) -> str:
    """Explain the bands of the learning curves."""
    if seeds > 1:
        return f"Mean over {seeds} seeds; bands are Student's t intervals over seeds, 95 %."
    return "One seed. Bands are Wilson intervals over its episodes; they say nothing about other seeds."
