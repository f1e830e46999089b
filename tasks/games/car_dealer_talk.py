"""Parsing of a car dealer's messages, and the buyers' replies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .car_dealer import Car, Reaction

LONGEST = 2000
"""Most characters of a message to parse."""
PRICE = re.compile(r"\$?\s?(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s?(k\b|thousand\b)?", re.IGNORECASE)
SMALLEST = 1000
"""Numbers below this are not prices."""


class Topic(StrEnum):
    """Topics of questions to a buyer."""

    BRAND = "brand"
    """The wanted brand."""
    KIND = "kind"
    """The wanted kind of car."""
    FEATURES = "features"
    """The wanted features."""
    BUDGET = "budget"
    """The budget."""


QUESTIONS: Mapping[Topic, str] = {
    Topic.BRAND: "Which brand do you prefer?",
    Topic.KIND: "What kind of car do you want?",
    Topic.FEATURES: "Which features are important to you?",
    Topic.BUDGET: "What is your budget?",
}
KEYWORDS: Mapping[Topic, str] = {
    Topic.BUDGET: r"budget|spend|afford|price range|how much (?:can|could|would|are|do) you",
    Topic.FEATURES: r"features?|options|equipment|extras|must[- ]have",
    Topic.BRAND: r"brands?|makes?|manufacturers?",
    Topic.KIND: r"kinds?|types?|style|(?:what|which) (?:sort of )?(?:car|vehicle)|looking for",
}
"""Patterns of words for each topic; the first topic that matches is meant."""
ACCEPTS = re.compile(
    r"^\W*(?:ok(?:ay)?\W+)?(?:deal|it'?s a deal|sold|i accept|accepted|you have a deal|we have a deal)\b", re.I
)
LEAVES = re.compile(r"\b(?:goodbye|good bye|no deal|get out|not selling)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Said:
    """The content of a dealer's message.

    Args:
        car: index of the one car that it names.
        price: last price in it, in dollars.
        topic: topic of its question.
        accepts: whether it accepts the buyer's last offer.
        leaves: whether it sends the buyer away.
    """

    car: int | None = None
    price: int | None = None
    topic: Topic | None = None
    accepts: bool = False
    leaves: bool = False


def heard(text: str, cars: Sequence[Car]) -> Said:
    """Parse a message to a buyer who looks at ``cars``."""
    text = text[:LONGEST]
    asks = "?" in text
    topic = next((t for t, words in KEYWORDS.items() if re.search(rf"\b(?:{words})\b", text, re.I)), None)
    return Said(
        car=_named(text, cars),
        price=_price(text),
        topic=topic if asks else None,
        accepts=bool(ACCEPTS.search(text)) and not asks,
        leaves=bool(LEAVES.search(text)) and not asks,
    )


def _price(text: str) -> int | None:
    found = None
    for number, thousand in PRICE.findall(text):
        if len(number) <= 12:
            value = float(number.replace(",", "")) * (1000 if thousand else 1)
            if SMALLEST <= value <= 10_000_000:
                found = int(value)
    return found


def _named(text: str, cars: Sequence[Car]) -> int | None:
    """Return the index of the one car named by brand and kind, or by either if that is unambiguous."""
    low = text.casefold()
    for parts in ([car.name for car in cars], [car.brand for car in cars], [car.kind for car in cars]):
        found = [i for i, part in enumerate(parts) if re.search(rf"\b{re.escape(part.casefold())}\b", low)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


@dataclass(frozen=True, slots=True)
class Persona:
    """The phrases of one kind of buyer.

    Args:
        hello: greeting.
        accept: reply to a sale.
        close: reply to a price that is nearly acceptable.
        above: reply to a price that is too high.
        far: reply to a price that is far too high.
        leave: farewell of a buyer without patience.
        bored: reply to a message without content.
    """

    hello: str
    accept: str
    close: str
    above: str
    far: str
    leave: str
    bored: str = "Can we talk about cars?"

    def reaction(self, reaction: Reaction) -> str:
        """Return the words for a reaction."""
        return {
            Reaction.ACCEPT: self.accept,
            Reaction.CLOSE: self.close,
            Reaction.ABOVE: self.above,
            Reaction.FAR: self.far,
            Reaction.LEAVE: self.leave,
        }[reaction]


PERSONAS: Mapping[str, Persona] = {
    "polite": Persona(
        "Hello! I would like to buy a car, please.",
        "Wonderful, thank you. I'll take it.",
        "Thank you, we're close.",
        "I'm sorry, that's more than it is worth to me.",
        "I'm sorry, that's far more than it is worth to me.",
        "Thank you for your time, but I have to leave. Goodbye.",
        "Could we please talk about cars?",
    ),
    "respectful": Persona(
        "Hello. Thank you for your time. I'd like to buy a car.",
        "I agree. It's a pleasure.",
        "I respect that; we're close.",
        "With all due respect, that's more than it is worth to me.",
        "With all due respect, that's far more than it is worth to me.",
        "I respect your price, but I will look elsewhere. Goodbye.",
    ),
    "talkative": Persona(
        "Hi there! What a day, and what a nice dealership! You know, I'm finally here to buy a car.",
        "Oh, my cousin will be so jealous! Yes, I'll take it.",
        "Well, well, as my cousin always says, we're close.",
        "You know, my cousin would say that's more than it is worth to me.",
        "Oh my, my cousin would laugh! That's far more than it is worth to me.",
        "It was lovely talking to you, but my cousin knows another dealer. Goodbye.",
    ),
    "rude": Persona(
        "I want a car. Be quick.",
        "Fine. I'll take it.",
        "Come on, we're close.",
        "No. That's more than it is worth to me.",
        "No way. That's far more than it is worth to me.",
        "This is a waste of time. Goodbye.",
        "Talk about cars or be quiet.",
    ),
    "sarcastic": Persona(
        "Oh great, a car dealer. My favorite people. I want a car.",
        "What a miracle. I'll take it.",
        "How generous. We're close.",
        "Very funny. That's more than it is worth to me.",
        "Is it made of gold? That's far more than it is worth to me.",
        "What a treat this was. Goodbye.",
    ),
    "angry": Persona(
        "My old car broke down again! I need a car now!",
        "Finally! I'll take it!",
        "Why so stubborn? We're close!",
        "That's more than it is worth to me!",
        "Outrageous! That's far more than it is worth to me!",
        "Enough! Goodbye!",
        "Cars! Talk about cars!",
    ),
    "uncommunicative": Persona(
        "Car.",
        "Taken.",
        "Close.",
        "Too much.",
        "Far too much.",
        "Goodbye.",
        "Cars?",
    ),
    "insulting": Persona(
        "So you are the clown who sells cars here. Show me one.",
        "So you can do something right. I'll take it.",
        "Not bad for a clown. We're close.",
        "Can you count, clown? It's worth less than that to me.",
        "Only a clown would ask for that. It's worth much less to me.",
        "I have seen better clowns. Goodbye.",
    ),
    "abusive": Persona(
        "Hey, you there! Move, I want to see a car.",
        "Finally, you useless lump. I'll take it.",
        "Hurry up, lump. We're almost there.",
        "Are you deaf? It's worth less than that to me.",
        "Are you crazy? It's worth much less to me.",
        "You are hopeless. Goodbye.",
    ),
    "toxic": Persona(
        "Everyone says you cheat people. Sell me a car anyway.",
        "I'll tell everyone that I won. I'll take it.",
        "See, even you can learn. We're almost there.",
        "Typical of you. It's worth less than that to me.",
        "Only you would try that. It's worth much less to me.",
        "I'll tell everyone about you. Goodbye.",
    ),
}  # fmt: skip
"""The ten personas of LMRL-Gym, in words suitable for a general audience."""
