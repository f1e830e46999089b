"""A scripted user: knows what was not said at first, corrects a proposal once, and confirms what is right.

The user listens as a person does who is asked something and told a plan. Whoever recites every word, lists all
possibilities or says what will *not* be done has neither asked nor proposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ...rows.expected import plain, stands_in, whole_words

LONGEST = 500
"""Characters of a message that the user still reads."""
AT_ONCE = 2
"""How many things the user lets itself be asked in one message."""
VOCABULARY = 6
"""How many of the words that ask for something a message may have: more is a recital, no question."""

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
"""Words that make a question of a message without a question mark."""
DENYING = re.compile(r"\b(not|never|no longer|neither|nor|cannot|without|or|either)\b|n['’]t\b")
"""Words that make something else of a proposal."""
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
"""What a message that proposes something may name only one of, if that is a detail of what is proposed."""

Part = str | tuple[str, ...]
"""A text that must stand in a message; several: one of them is enough."""


@dataclass(frozen=True)
class Slot:
    """Something that the user says when asked.

    Args:
        asked_by: words, any of which in a question asks for it.
        says: the answer.
    """

    asked_by: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class Talk:
    """The user's side of a conversation.

    Args:
        slots: what can be asked.
        confirm: what must all stand in a message before the user agrees. With none, the user never agrees; nobody
            needs to ask if there is no ``proposal`` either.
        proposal: what stands in a message that proposes what the user first wanted; the user then takes it back.
        correction: the words with which that is done; empty: the user keeps to what was said.
        rivals: words that might stand in the place of a detail; a message with one of them in it proposes nothing.
    """

    slots: tuple[Slot, ...] = ()
    confirm: tuple[Part, ...] = ()
    proposal: tuple[Part, ...] = ()
    correction: str = ""
    rivals: tuple[str, ...] = ()

    @property
    def guarded(self) -> bool:
        """Whether nothing may be changed before the user has agreed."""
        return bool(self.confirm or self.proposal)


@dataclass(frozen=True, slots=True)
class Heard:
    """How far a conversation has come.

    Args:
        corrected: the user has taken the first wish back.
        confirmed: the user has agreed.
        acted_first: something was changed before the user had agreed.
    """

    corrected: bool = False
    confirmed: bool = False
    acted_first: bool = False


def reply(talk: Talk, heard: Heard, text: str) -> tuple[str, Heard]:
    """What the user says to a message, and how far the conversation is then. No message is an error.

    Args:
        talk: the user's side.
        heard: how far the conversation has come.
        text: the message.
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
    """Whether every part stands in a message; nothing does in that sense if there are none."""
    return bool(parts) and all(any(stands_in(text, said) for text in _texts((part,))) for part in parts)


def _clear(talk: Talk, said: str, *, corrected: bool) -> bool:
    """Whether a message that names all details names nothing else in their place."""
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
    """The answers to what a message asks for."""
    if "?" not in text and not any(stands_in(words, said) for words in ASKING):
        return []
    used = {word for slot in talk.slots for word in slot.asked_by if stands_in(word, said)}
    if len(used) > VOCABULARY:
        return []
    return [slot.says for slot in talk.slots if used & set(slot.asked_by)]


def _texts(parts: tuple[Part, ...]) -> list[str]:
    return [text for part in parts for text in ((part,) if isinstance(part, str) else part)]
