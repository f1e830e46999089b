"""Choose whole episodes for a report, and format their messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..envs.messages import ImagePart, Message, TextPart, call_text
from ..rollouts.episode import Episode, Outcome
from .failures import failure_label

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that a browser shows without running anything (SVG may carry scripts)."""
LONGEST_TEXT = 20_000
"""Maximum characters of one text in a report; longer texts are cut with a note."""


@dataclass(frozen=True, slots=True)
class SampleEpisode:
    """One episode to read.

    Args:
        episode: the episode.
        verdict: ``"solved"``, the kind of failure, or the outcome of an unscored episode.
    """

    episode: Episode
    verdict: str

    @property
    def solved(self) -> bool:
        """Whether the task was solved."""
        return self.verdict == "solved"


def choose(episodes: Iterable[Episode], *, solved: int = 3, failed: int = 4, broken: int = 1) -> list[SampleEpisode]:
    """Choose a few episodes: a short, a medium and a long success, failures of every kind, and one unscored.

    The choice depends on the episodes alone, not on their order, and not on how good they look.

    Args:
        episodes: all episodes of the run.
        solved: maximum number of successes.
        failed: maximum number of failures; the most frequent kinds first, then again from the top.
        broken: maximum number of infrastructure failures.
    """
    ordered = sorted(episodes, key=lambda e: (len(e.turns), e.episode_id))
    successes = [e for e in ordered if e.scored and e.success]
    kinds: dict[str, list[Episode]] = {}
    for episode in ordered:
        if episode.scored and not episode.success:
            kinds.setdefault(failure_label(episode) or "failed", []).append(episode)
    queues = [(kind, _spread(members, failed)) for kind, members in sorted(kinds.items(), key=lambda k: -len(k[1]))]
    failures = [SampleEpisode(q[i], kind) for i in range(failed) for kind, q in queues if i < len(q)][:failed]
    lost = [e for e in ordered if e.outcome is Outcome.INFRA_FAILED]
    return [
        *(SampleEpisode(episode, "solved") for episode in _spread(successes, solved)),
        *failures,
        *(SampleEpisode(episode, f"not scored: {episode.outcome}") for episode in lost[:broken]),
    ]


def _spread(ordered: Sequence[Episode], count: int) -> list[Episode]:
    """Return up to ``count`` of them at even distances, including the first and the last."""
    if len(ordered) <= count:
        return list(ordered)
    if count == 1:
        return [ordered[len(ordered) // 2]]
    return [ordered[round(i * (len(ordered) - 1) / (count - 1))] for i in range(count)]


def shown(text: str) -> str:
    """Return a text as a report shows it: complete, unless it is very long."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… {len(text) - LONGEST_TEXT:,} more characters are in the store"


def speaker(message: Message) -> str:
    """Return the speaker of a message: the role, and a tool's name."""
    return f"{message.role} {message.name}" if message.name else message.role


def pieces(message: Message) -> list[tuple[str, str]]:
    """Return the message's parts in order as ``(kind, content)``: ``text``, ``image`` (a data URI) or ``call``."""
    found: list[tuple[str, str]] = []
    for part in message.parts:
        match part:
            case TextPart(text):
                found.append(("text", shown(text)))
            case ImagePart(mime=mime) if mime in IMAGES:
                found.append(("image", part.data_url))
            case ImagePart(data, mime):
                found.append(("text", f"[{mime}, {len(data):,} bytes]"))
    return found + [("call", shown(call_text(call))) for call in message.tool_calls]
