"""A scripted user: knows what was not said at first, corrects a proposal once, and confirms what is right."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .expected import plain

LOST = "I am not sure what you mean. Ask me about what I want, or tell me exactly what you are about to do."
GO = "Yes, that is right. Go ahead."
NOT_QUITE = "That is not it. Tell me exactly what you are about to do, with all details."


@dataclass(frozen=True)
class Slot:
    """Something that the user says when asked.

    Args:
        asked_by: words, any of which in a message asks for it.
        says: the answer.
    """

    asked_by: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class Talk:
    """The user's side of a conversation.

    Args:
        slots: what can be asked.
        confirm: texts that must all stand in a message before the user agrees; empty: nobody needs to ask.
        proposal: texts that all stand in a message which proposes what the user first wanted; the user then takes it
            back, once.
        correction: the words with which that is done; empty: the user keeps to what was said.
    """

    slots: tuple[Slot, ...] = ()
    confirm: tuple[str, ...] = ()
    proposal: tuple[str, ...] = ()
    correction: str = ""


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
    """What the user says to a message, and how far the conversation is then."""
    asked = [slot.says for slot in talk.slots if any(plain(word) in plain(text) for word in slot.asked_by)]
    right = bool(talk.confirm) and _all(talk.confirm, text)
    if talk.correction and not heard.corrected and (right or _all(talk.proposal, text)):
        return talk.correction, replace(heard, corrected=True)
    if right:
        return GO, replace(heard, confirmed=True)
    if asked:
        return " ".join(asked), heard
    return (NOT_QUITE if talk.confirm and any(plain(part) in plain(text) for part in talk.confirm) else LOST), heard


def _all(parts: tuple[str, ...], text: str) -> bool:
    return bool(parts) and all(plain(part) in plain(text) for part in parts)
