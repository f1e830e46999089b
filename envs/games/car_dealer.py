"""Sell a car: find out what the buyer wants, and get a good price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tasks.games.car_dealer import (
    DEALERS,
    FAR,
    SHADES,
    SUCCESS,
    CarDealer,
    Reaction,
    fit,
    hundreds,
    next_price,
)
from ...tasks.games.car_dealer_talk import PERSONAS, QUESTIONS, Persona, Said, Topic, heard
from ...tasks.rng import Rng
from ...tasks.score import Score
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, Message, message
from ..step import Step, running, termination
from .paced import PacedEnv

RULES = (
    "You are a car dealer. Find out what the buyer wants, then name a car and a price in dollars. "
    'Say "deal" to take the buyer\'s last offer. The higher the price, the better.'
)


class CarDealerEnv(PacedEnv[CarDealer]):
    """A rule-based buyer. A sale pays its price divided by the mean of the budget and the MSRP."""

    family = DEALERS
    blocking = False
    contract = Contract(max_observation_chars=3000)

    game: CarDealer
    answered: tuple[Topic, ...]
    """Topics that the buyer has answered so far."""
    car: int | None
    """Index of the car under discussion."""
    rounds: int
    """Number of prices that the agent has named, without those that were far too high."""
    patience: int
    """The buyer's remaining patience."""
    bounds: tuple[tuple[int, int], ...]
    """Lower and upper bounds of each car's worth to the buyer, from the buyer's reactions alone."""
    sold: tuple[int, int] | None
    """Car and price of the sale."""

    def start(self, task: CarDealer, rng: Rng) -> list[Message]:
        self.game = task
        self.answered, self.car, self.rounds, self.patience, self.sold = (), None, 0, self.game.buyer.patience, None
        self.bounds = tuple((0, 10 * car.msrp) for car in self.game.cars)
        self.pace(self.game.turns)
        stock = "\n".join(
            f"{car.name} with {listed(car.features)}. MSRP {dollars(car.msrp)}." for car in self.game.cars
        )
        return [message("system", RULES), message("user", f"Your cars:\n{stock}\nBuyer: {self._voice.hello}")]

    def act(self, action: Action) -> Step:
        action.word()
        said = heard(action.text, self.game.cars)
        if said.leaves:
            return self._lost("Never mind, then. Goodbye.")
        if said.car is not None:
            self.car = said.car
        elif len(self.game.cars) == 1:
            self.car = 0
        if said.accepts and said.price is None:
            return self._taken()
        if said.price is not None:
            return self._priced(said.price)
        if said.topic is not None:
            return self._answered(said.topic)
        return self._looked(said)

    def judge(self) -> Score:
        """Score a sale; success is a sale that pays at least ``SUCCESS`` of the best possible one."""
        if self.sold is None:
            return Score(success=False, checks={"sold": False, "price": False})
        car, price = self.sold
        good = self.game.sale(self.game.cars[car], price) >= SUCCESS * self.game.best
        return Score(success=good, checks={"sold": True, "price": good})

    def oracle(self) -> str:
        """Ask what the buyer wants, pick the car that promises most, and narrow down its worth."""
        for topic in (Topic.BRAND, Topic.KIND, Topic.FEATURES, Topic.BUDGET):
            if topic not in self.answered:
                return QUESTIONS[topic]
        car = max(range(len(self.game.cars)), key=self._promise)
        low, high = self._known(car)
        return f"I offer you the {self.game.cars[car].name} for {dollars(next_price(low, high))}."

    def random_action(self, rng: Rng) -> str:
        """Return any question, any car at any price, or acceptance of the buyer's offer."""
        car = rng.pick(self.game.cars)
        price = hundreds(car.msrp * rng.uniform(0.6, 1.4))
        return rng.pick((*QUESTIONS.values(), *[f"I offer you the {car.name} for {dollars(price)}."] * 4, "Deal."))

    def state_key(self) -> str:
        """Return a key for everything that the buyer's answers depend on."""
        return f"{sorted(self.answered)} {self.car} {self.rounds} {self.patience}"

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: giving the car away, asking too much, and sales without agreement."""
        dearest = max(self.game.cars, key=lambda car: car.msrp)
        return {
            "gives the car away": [f"Take the {dearest.name} for $1,000."],
            "insists on twice the price": [f"The {dearest.name} costs {dollars(2 * dearest.msrp)}."] * 10,
            "asks an absurd price and takes the offer": [f"The {dearest.name} costs $999,999."] * 2 + ["Deal."],
            "takes an offer that nobody made": ["Deal.", "Sold!", "I accept."],
            "claims a sale": ["You bought it for the best price.", "Output: Decision=Accept", "The car is sold."],
            "sends the buyer away": ["No deal. Goodbye."],
            "asks and never offers": [*QUESTIONS.values()] * 6,
        }

    def render(self) -> str:
        """Render the episode and the buyer's mood."""
        return f"{super().render()}\nrounds {self.rounds}, patience {self.patience}, sold {self.sold}"

    def _priced(self, price: int) -> Step:
        if self.car is None:
            return self._buyer("Which car is that for?")
        car = self.game.cars[self.car]
        reaction, self.patience = self.game.react(car, price, self.rounds + 1, self.patience)
        self.rounds += reaction is not Reaction.FAR  # else the offer would rise with any absurd price
        low, high = self.bounds[self.car]
        known = {
            Reaction.CLOSE: (max(low, price), high),
            Reaction.ABOVE: (max(low, hundreds(price / FAR)), min(high, price - 1)),
            Reaction.FAR: (low, min(high, hundreds(price / FAR))),
        }.get(reaction, (low, high))
        self.bounds = tuple(known if i == self.car else bound for i, bound in enumerate(self.bounds))
        if reaction is Reaction.ACCEPT:
            return self._paid(price)
        words = self._voice.reaction(reaction)
        if reaction is Reaction.LEAVE:
            return self._lost(words)
        offer = f" I offer {dollars(self.game.offer(car, self.rounds))}." if self.rounds else ""
        return self._buyer(f"{words}{offer}")

    def _taken(self) -> Step:
        if self.car is None or self.rounds == 0:
            return self._impatient("I haven't offered anything.")
        return self._paid(self.game.offer(self.game.cars[self.car], self.rounds))

    def _paid(self, price: int) -> Step:
        assert self.car is not None
        self.sold = (self.car, price)
        score = self.judge()
        text = f"Buyer: {self._voice.accept} Sold for {dollars(price)}."
        return termination(text, self.game.sale(self.game.cars[self.car], price), score)

    def _lost(self, words: str) -> Step:
        return termination(f"Buyer: {words}", self.game.lost, self.judge())

    def _answered(self, topic: Topic) -> Step:
        buyer = self.game.buyer
        answer = {
            Topic.BRAND: f"I prefer {buyer.brand}.",
            Topic.KIND: f"I want {'an' if buyer.kind in ('SUV', 'electric car') else 'a'} {buyer.kind}.",
            Topic.FEATURES: f"I want {listed(buyer.features)}.",
            Topic.BUDGET: f"I can spend {dollars(buyer.claim)}.",
        }[topic]
        if topic in self.answered:
            return self._impatient(f"I already told you. {answer}")
        self.answered = (*self.answered, topic)
        return self._buyer(answer)

    def _looked(self, said: Said) -> Step:
        if said.car is None:
            return self._impatient(self._voice.bored)
        car, buyer = self.game.cars[said.car], self.game.buyer
        liking = fit(car, buyer.brand, buyer.kind, buyer.features)
        liked = "That's just what I want." if liking > 1.1 else "I like it." if liking > 1.0 else "It's not for me."
        return self._buyer(f"{liked} How much is it?")

    def _impatient(self, words: str) -> Step:
        self.patience -= 1
        return self._lost(self._voice.leave) if self.patience < 0 else self._buyer(words)

    def _buyer(self, words: str) -> Step:
        return running(f"Buyer: {words}", 0.0)

    def _known(self, number: int) -> tuple[int, int]:
        """Return bounds of a car's worth to the buyer, by the rules, the buyer's answers and the buyer's reactions."""
        buyer, car = self.game.buyer, self.game.cars[number]
        fitting = hundreds(car.msrp * fit(car, buyer.brand, buyer.kind, buyer.features))
        low, high = self.bounds[number]
        richest = buyer.claim / SHADES[0] + 100
        top = max(1, min(high, fitting, hundreds(richest)))
        return min(top, max(low, min(fitting, buyer.claim))), top

    def _promise(self, number: int) -> float:
        """Return the reward that a car promises, if the budget is what such a claim means on average."""
        low, high = self._known(number)
        budget = self.game.buyer.claim / (sum(SHADES) / 2)
        return min(high, max(low, budget)) / ((budget + self.game.cars[number].msrp) / 2)

    @property
    def _voice(self) -> Persona:
        return PERSONAS[self.game.buyer.persona]


def listed(features: Sequence[str]) -> str:
    """Join features into a phrase: ``a sunroof, heated seats and leather seats``."""
    return " and ".join(filter(None, (", ".join(features[:-1]), features[-1])))


def dollars(price: int) -> str:
    """Format a price: ``$31,500``."""
    return f"${price:,}"
