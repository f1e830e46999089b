"""Thoughts: a reasoning model's text before it acts. They are recorded, but are not part of the action."""

from __future__ import annotations

from dataclasses import dataclass

from .tags import apart, without

OPEN, CLOSE = "<think>", "</think>"
PAIRS = (
    (OPEN, CLOSE),  # DeepSeek, Qwen, GLM and most others
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<thought>", "</thought>"),  # EXAONE
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
)
"""How model families delimit thoughts."""
NEVER_CLOSED = f"Your thought was never closed. Write {CLOSE}, then act."


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The delimiters of one model's thoughts.

    Args:
        pairs: opening and closing delimiters, the usual ones among them.
    """

    pairs: tuple[tuple[str, str], ...] = PAIRS[:1]

    @classmethod
    def of(cls, source: str) -> Delimiters:
        """Find the delimiters that a chat template or a vocabulary mentions.

        Args:
            source: the template and the special tokens, as one text.
        """
        return cls((*PAIRS[:1], *(pair for pair in PAIRS[1:] if pair[0] in source)))

    def opened_by(self, prompt: str) -> bool:
        """Whether a prompt ends inside a thought, as DeepSeek-R1's does."""
        return prompt.rstrip().endswith(tuple(opening for opening, _ in self.pairs))

    def unified(self, text: str, *, opened: bool = False) -> str:
        """Rewrite a completion with ``<think>`` and ``</think>`` as delimiters, which every parser reads.

        Args:
            text: completion of the model.
            opened: whether the prompt ended inside a thought.
        """
        for opening, closing in self.pairs[1:]:
            text = text.replace(opening, OPEN).replace(closing, CLOSE)
        return f"{OPEN}{text}" if opened else text


def without_thoughts(text: str) -> tuple[str, bool]:
    """Return the text without its ``<think>…</think>``, and whether a thought was left open.

    A ``</think>`` without its opening tag closes a thought that the prompt opened. A text with thoughts also loses the
    white space around the rest; any other is returned as it is.
    """
    rest = without(text, "think")
    _, closed, after = rest.rpartition(CLOSE)
    rest = after if closed else rest
    return (rest if rest == text else rest.strip()), OPEN in rest


def thoughts_in(text: str) -> str:
    """Return the text inside the thoughts, without delimiters; one that was left open reaches to the end."""
    pieces = apart(text, "think")
    unopened, _, after = "".join(pieces[::2]).rpartition(CLOSE)
    _, _, unfinished = after.partition(OPEN)
    found = (*unopened.split(CLOSE), *pieces[1::2], unfinished)
    return "\n".join(filter(None, (thought.replace(OPEN, "").strip() for thought in found)))
