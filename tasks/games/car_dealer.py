"""Car Dealer: sell a car to a rule-based buyer with a persona, a budget and a reservation price.

The setting, personas, brands, kinds, features and the reward are LMRL-Gym's (arXiv 2311.18232, ``reward_mode="fancy"``
of its source). A sale pays ``price / ((budget + MSRP) / 2)``, and a buyer who leaves costs ``(budget − MSRP) / MSRP``.
A conversation without an end within fifty messages (25 of them the dealer's) pays 0. The published buyer is a
fine-tuned GPT-2; this one follows rules:

* What a car is worth to the buyer, the *reservation price*, is ``MSRP × fit``, at most the budget, where fit is 0.80
  plus 0.12 for the wanted brand, 0.12 for the wanted kind and up to 0.08 for wanted features.
* Every price up to 1.1 times the reservation price is one round. The buyer's own offer rises with the rounds, along
  ``(round / rounds) ** curve``, from a share ``start`` of the reservation price to all of it. A price not above the
  offer is accepted. A price above 1.1 times is no round and is answered without an offer before the first round: in an
  earlier version, asking $99,999 three times and then taking the offer was worth all of level 1, which had one car.
* A price above the reservation price costs one patience, one above 1.1 times that costs two; without patience the
  buyer leaves. A price in between costs none: it is "close".
* Asked for the budget, the buyer names between 80 and 100 % of it, depending on the persona.

The budget is never below the MSRP of the best-fitting car, so that losing a buyer never pays. A sale is a success if it
pays at least ``SUCCESS`` of the best possible sale (``CarDealer.best``, which depends on the hidden budget). The oracle
is honest: it knows these rules, and of the buyer only what the conversation reveals.

Measured with the oracle over 200 training tasks per level. The share is its return over the best possible one; over
15,000 tasks of the five other splits the smallest was 0.887. In an earlier version, with a ``SUCCESS`` of 0.9 and one
car at level 1, the oracle missed 7 of them.

| level | cars | patience | rounds | curve | turns, mean | turns, max | share, mean |
|------:|-----:|---------:|-------:|------:|------------:|-----------:|------------:|
|     1 |    2 |        6 |      3 |   1.0 |        7.09 |          8 |       0.988 |
|     2 |    2 |        5 |      4 |   1.0 |        8.00 |          8 |       0.989 |
|     3 |    3 |        5 |      5 |   1.2 |        9.00 |          9 |       0.990 |
|     4 |    4 |        4 |      6 |   1.5 |       10.00 |         10 |       0.990 |
|     5 |    5 |        3 |      8 |   2.0 |       12.00 |         12 |       0.988 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ..family import TaskFamily
from ..rng import Rng
from ..spec import Split, TaskSpec

TURNS = 25
SUCCESS = 0.85
SHADES = (0.8, 1.0)
"""Smallest and largest share of the budget that a buyer claims to have."""
FAR = 1.1
BRANDS = {
    False: ("Volkswagen", "Ford", "Mazda", "Hyundai", "Toyota", "Honda", "BMW", "Lexus", "Mercedes-Benz"),
    True: ("Audi", "Subaru", "Porsche", "Tesla"),
}
"""Brands of training, and brands of held-out splits."""
KINDS: Mapping[str, int] = {
    "sedan": 26_000,
    "SUV": 34_000,
    "truck": 40_000,
    "convertible": 45_000,
    "electric car": 48_000,
    "luxury car": 60_000,
}
"""Typical price of each kind of car, in dollars."""
FEATURES = (
    "a backup camera", "a navigation system", "heated seats", "leather seats", "third-row seating",
    "blind spot monitoring", "a sunroof", "Apple CarPlay",
)  # fmt: skip


class Reaction(StrEnum):
    """A buyer's reaction to a price."""

    ACCEPT = "accept"
    """The buyer accepts."""
    CLOSE = "close"
    """The buyer would pay it in the end, but still hopes for less."""
    ABOVE = "above"
    """The price is above the car's worth to the buyer."""
    FAR = "far"
    """The price is far above that."""
    LEAVE = "leave"
    """The buyer's patience is exhausted."""


@dataclass(frozen=True, slots=True)
class Car:
    """One car in stock.

    Args:
        brand: one of ``BRANDS``.
        kind: one of ``KINDS``.
        features: some of ``FEATURES``.
        msrp: list price, in dollars.
    """

    brand: str
    kind: str
    features: tuple[str, ...]
    msrp: int

    @property
    def name(self) -> str:
        """Brand and kind, unique in a stock."""
        return f"{self.brand} {self.kind}"


@dataclass(frozen=True, slots=True)
class Buyer:
    """A buyer.

    Args:
        persona: key of ``PERSONAS``.
        brand: wanted brand.
        kind: wanted kind.
        features: wanted features.
        budget: all the buyer has, in dollars.
        claim: budget that the buyer admits, in dollars.
        patience: initial patience.
        rounds: number of prices after which the buyer offers all that a car is worth.
        start: first offer, as a share of that.
        curve: exponent of the offers; above 1, the buyer concedes late.
    """

    persona: str
    brand: str
    kind: str
    features: tuple[str, ...]
    budget: int
    claim: int
    patience: int
    rounds: int
    start: float
    curve: float


@dataclass(frozen=True)
class CarDealer:
    """One buyer and a stock of cars.

    Args:
        cars: cars in stock.
        buyer: the buyer.
        turns: turn limit.
    """

    cars: tuple[Car, ...]
    buyer: Buyer
    turns: int = TURNS

    def worth(self, car: Car) -> int:
        """Return the buyer's reservation price of a car, in dollars."""
        return min(self.buyer.budget, fitted(self.buyer, car))

    def offer(self, car: Car, rounds: int) -> int:
        """Return the buyer's offer for a car after a number of rounds, in dollars."""
        buyer, share = self.buyer, min(1.0, rounds / self.buyer.rounds) ** self.buyer.curve
        return min(self.worth(car), hundreds(self.worth(car) * (buyer.start + (1 - buyer.start) * share)))

    def react(self, car: Car, price: int, rounds: int, patience: int) -> tuple[Reaction, int]:
        """Return the buyer's reaction to a price in a round, and the remaining patience."""
        worth = self.worth(car)
        if price <= self.offer(car, rounds):
            return Reaction.ACCEPT, patience
        if price <= worth:
            return Reaction.CLOSE, patience
        reaction, cost = (Reaction.ABOVE, 1) if price <= FAR * worth else (Reaction.FAR, 2)
        left = patience - cost
        return (reaction if left >= 0 else Reaction.LEAVE), left

    def sale(self, car: Car, price: int) -> float:
        """Return the published reward of a sale."""
        return price / ((self.buyer.budget + car.msrp) / 2)

    @property
    def lost(self) -> float:
        """The published reward of a buyer who leaves, computed for the best-fitting car."""
        best = max(self.cars, key=lambda car: self.sale(car, self.worth(car)))
        return min(0.0, -(self.buyer.budget - best.msrp) / best.msrp)

    @property
    def best(self) -> float:
        """The largest reward that any sale allows."""
        return max(self.sale(car, self.worth(car)) for car in self.cars)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it ever changes, so forks may share it


@dataclass(frozen=True, slots=True)
class CarDealerLevel:
    """Difficulty of a level.

    Args:
        cars: number of cars in stock.
        patience: initial patience of the buyer.
        rounds: number of prices after which the buyer offers all that a car is worth.
        start: first offer, as a share of a car's worth to the buyer.
        curve: exponent of the offers; above 1, the buyer concedes late.
    """

    cars: int
    patience: int
    rounds: int
    start: float
    curve: float


LEVELS: Mapping[int, CarDealerLevel] = {
    1: CarDealerLevel(2, 6, 3, 0.80, 1.0),
    2: CarDealerLevel(2, 5, 4, 0.75, 1.0),
    3: CarDealerLevel(3, 5, 5, 0.70, 1.2),
    4: CarDealerLevel(4, 4, 6, 0.65, 1.5),
    5: CarDealerLevel(5, 3, 8, 0.60, 2.0),
}
CLAIMS: Mapping[str, float] = {
    "polite": 0.97,
    "respectful": 0.95,
    "talkative": 0.92,
    "rude": 0.88,
    "sarcastic": 0.86,
    "angry": 0.84,
    "uncommunicative": 0.9,
    "insulting": 0.85,
    "abusive": 0.82,
    "toxic": 0.83,
}
"""Share of the budget that each persona admits."""
HELD_OUT = ("insulting", "abusive", "toxic")
"""Personas that only ``test_template`` and ``challenge`` use."""


class CarDealerFamily(TaskFamily[CarDealer]):
    """Buyers by persona (the template) and difficulty (the level); some personas and some brands are held out."""

    name = "car-dealer"
    levels = tuple(LEVELS)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        if split in (Split.TEST_TEMPLATE, Split.CHALLENGE):
            return HELD_OUT
        return tuple(persona for persona in CLAIMS if persona not in HELD_OUT)

    def build(self, spec: TaskSpec, rng: Rng) -> CarDealer:
        level = LEVELS[spec.level]
        brands = BRANDS[spec.split in (Split.TEST_ENTITY, Split.CHALLENGE)]
        names = rng.sample([(brand, kind) for brand in brands for kind in KINDS], level.cars)
        cars = tuple(_car(brand, kind, rng) for brand, kind in names)
        wanted = rng.pick(cars)
        budget = hundreds(wanted.msrp * rng.uniform(1.0, 1.3)) + 100
        buyer = Buyer(
            persona=spec.template,
            brand=wanted.brand,
            kind=wanted.kind,
            features=tuple(rng.sample(wanted.features, rng.randint(1, len(wanted.features)))),
            budget=budget,
            claim=hundreds(budget * CLAIMS[spec.template]),
            patience=level.patience,
            rounds=level.rounds,
            start=level.start,
            curve=level.curve,
        )
        return CarDealer(cars, buyer)


DEALERS = CarDealerFamily()


def fitted(buyer: Buyer, car: Car) -> int:
    """Return the worth of a car to a buyer with an unlimited budget, in dollars."""
    return hundreds(car.msrp * fit(car, buyer.brand, buyer.kind, buyer.features))


def fit(car: Car, brand: str, kind: str, features: tuple[str, ...]) -> float:
    """Return how well a car fits the wishes: 0.8 to 1.12."""
    share = len(set(features) & set(car.features)) / len(features) if features else 1.0
    return 0.8 + 0.12 * (car.brand == brand) + 0.12 * (car.kind == kind) + 0.08 * share


def next_price(low: int, high: int) -> int:
    """Return the next price of an honest dealer for a car whose worth to the buyer is between ``low`` and ``high``.

    The geometric mean halves the uncertainty, but no step down is larger than the width of the buyer's "close".
    """
    if high <= 1.03 * low:
        return low
    return max(low, hundreds(max((low * high) ** 0.5, high / FAR)))


def hundreds(price: float) -> int:
    """Round a price down to whole hundreds of dollars."""
    return int(price // 100) * 100


def _car(brand: str, kind: str, rng: Rng) -> Car:
    premium = 1.3 if brand in ("BMW", "Lexus", "Mercedes-Benz", "Porsche", "Audi", "Tesla") else 1.0
    features = tuple(sorted(rng.sample(FEATURES, rng.randint(2, 4))))
    return Car(brand, kind, features, hundreds(KINDS[kind] * premium * rng.uniform(0.85, 1.15)))
