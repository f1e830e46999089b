"""A scripted user: withholds details at first, corrects a proposal once, and confirms the right one.

The user understands questions and plans as people do. An agent that recites every keyword, lists all possibilities
or writes what it will *not* do has neither asked nor proposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ...rows.expected import plain, stands_in, whole_words

LONGEST = 500
"""Limit on a message, in characters; the user does not read longer ones."""
AT_ONCE = 2
"""Number of questions that the user answers in one message."""
VOCABULARY = 6
"""Limit on the keywords of questions in a message; with more, it is a recital and not a question."""

SILENT = "Your message is empty."
TOO_LONG = f"That message is too long for me. Please keep it under {LONGEST} characters."
ONE_THING = "One thing at a time, please. What do you want to know first?"
LOST = "I'm not sure what you mean. Ask me about the details, or tell me exactly what you are about to do."
GO = "Yes, that's right. Go ahead."
NOT_QUITE = "That's not quite right. Tell me exactly what you are about to do, with all the details."
SEVERAL = (
    "I can't agree to that: it names several possibilities, or something that you will not do. "
    "Tell me only what you are about to do, with one value for each detail."
)

ASKING = ("tell me", "let me know", "give me", "i need", "please name", "please say")
"""Phrases that make a message without a question mark a question."""
DENYING = re.compile(r"\b(not|never|no longer|neither|nor|cannot|without|or|either)\b|n['’]t\b")
"""Words that change the meaning of a proposal."""
SORTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # an address
        r"\b\d{3}-\d{3}-\d{4}\b",  # a telephone number
        r"\b\d{4}-\d{2}-\d{2}\b",  # a day
        r"\b\d{1,2}:\d{2}\b",  # a time
        r"\b\d+\.\d{2}\b",  # an amount of money
    )
)
"""Kinds of details. A proposal that has a detail of one kind may not name another of the same kind."""

Part = str | tuple[str, ...]
"""A text that a message must contain, or several, of which it must contain one."""


@dataclass(frozen=True)
class Slot:
    """A detail that the user gives in answer to a question.

    Args:
        asked_by: keywords; a question with any of them asks for the detail.
        says: answer of the user.
    """

    asked_by: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class Talk:
    """The user's side of a conversation.

    Args:
        slots: details that the agent can ask for.
        confirm: texts that a message must contain for the user to agree. If empty, the user never agrees; the agent
            need not ask if ``proposal`` is empty, too.
        proposal: texts of a message that proposes the user's first wish, which the user then withdraws.
        correction: message that withdraws the first wish; empty if the user keeps it.
        rivals: wrong values for a detail; a message that contains one of them proposes nothing.
    """

    slots: tuple[Slot, ...] = ()
    confirm: tuple[Part, ...] = ()
    proposal: tuple[Part, ...] = ()
    correction: str = ""
    rivals: tuple[str, ...] = ()

    @property
    def guarded(self) -> bool:
        """Whether the agent may change nothing before the user agrees."""
        return bool(self.confirm or self.proposal)


@dataclass(frozen=True, slots=True)
class Heard:
    """The state of a conversation.

    Args:
        corrected: whether the user has withdrawn the first wish.
        confirmed: whether the user has agreed.
        acted_first: whether the agent changed something before the user agreed.
    """

    corrected: bool = False
    confirmed: bool = False
    acted_first: bool = False


def reply(talk: Talk, heard: Heard, text: str) -> tuple[str, Heard]:
    """Return the user's reply to a message, and the new state of the conversation. No message is an error.

    Args:
        talk: user's side of the conversation.
        heard: state of the conversation.
        text: message of the agent.
    """
    if len(text) > LONGEST:
        return TOO_LONG, heard
    said = plain(text)
    if not said:
        return SILENT, heard
    first = bool(talk.correction) and not heard.corrected
    if _named(talk.proposal if first else talk.confirm, said):
        if not _clear(talk, said, corrected=not first):
            return SEVERAL, heard
        return (talk.correction, replace(heard, corrected=True)) if first else (GO, replace(heard, confirmed=True))
    if talk.correction and heard.corrected and _named(talk.proposal, said):
        return talk.correction, heard
    asked = _asked(talk, text, said)
    if len(asked) > AT_ONCE:
        return ONE_THING, heard
    if asked:
        return " ".join(asked), heard
    near = any(_named((part,), said) for part in (*talk.confirm, *talk.proposal))
    return (NOT_QUITE if near else LOST), heard


def _named(parts: tuple[Part, ...], said: str) -> bool:
    """Return whether a message contains every part; false if there are no parts."""
    return bool(parts) and all(any(stands_in(text, said) for text in _texts((part,))) for part in parts)


def _clear(talk: Talk, said: str, *, corrected: bool) -> bool:
    """Return whether a message that names all details names none of their rivals."""
    wanted = _texts(talk.confirm if corrected else talk.proposal)
    withdrawn = set(_texts(talk.proposal) if corrected else _texts(talk.confirm)) - set(wanted)
    rest = said
    for text in sorted(wanted, key=len, reverse=True):
        rest = whole_words(plain(text)).sub(" … ", rest) if plain(text) in rest else rest
    named = (text for text in (*withdrawn, *talk.rivals) if text.casefold() in rest)
    if DENYING.search(rest) or any(stands_in(text, rest) for text in named):
        return False
    return not any(sort.search(rest) and any(sort.search(plain(text)) for text in wanted) for sort in SORTS)


def _asked(talk: Talk, text: str, said: str) -> list[str]:
    """Return the answers to the questions of a message."""
    if "?" not in text and not any(stands_in(words, said) for words in ASKING):
        return []
    used = {word for slot in talk.slots for word in slot.asked_by if stands_in(word, said)}
    if len(used) > VOCABULARY:
        return []
    return [slot.says for slot in talk.slots if used & set(slot.asked_by)]


def _texts(parts: tuple[Part, ...]) -> list[str]:
    return [text for part in parts for text in ((part,) if isinstance(part, str) else part)]
