"""Find out which city a speaker comes from, by open questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from ...tasks.family import TaskFamily
from ...tasks.games.cities import FACTS, City
from ...tasks.games.guess_my_city import (
    LEVELLED,
    REAL,
    WITHHELD,
    GuessMyCity,
    asked_fact,
    asked_value,
    asks_name,
    best_fact,
    guessed,
    leaks,
    sheet,
)
from ...tasks.rng import Rng
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, Message, message
from ..step import Step, running, success
from .paced import PacedEnv

RULES = "I am from a city. Find out which one. On each turn, ask one question about it or guess the city."
UNKNOWN = "I don't understand."
TURN_REWARD = -1.0


class GuessMyCityEnv(PacedEnv[GuessMyCity]):
    """Invented cities whose facts are listed, five levels: −1 per turn, 0 for naming the city.

    An answer never contains the city's name (``leak_guard``). A question that the game does not understand costs its
    turn.
    """

    family: TaskFamily[GuessMyCity] | None = LEVELLED
    blocking = False
    unparsed_reward = TURN_REWARD
    contract = Contract(max_observation_chars=6000, random_floor=0.8)
    leak_guard: ClassVar[bool] = True
    """Whether to withhold every answer that contains the city's name."""

    game: GuessMyCity
    alive: tuple[City, ...]
    heard: str
    """The last answer."""

    def start(self, task: GuessMyCity, rng: Rng) -> list[Message]:
        self.game = task
        self.alive, self.heard = self.game.cities, ""
        self.pace(self.game.turns)
        return [message("system", RULES), message("user", self.opening())]

    def act(self, action: Action) -> Step:
        action.word()
        guess = guessed(action.text, self.game.cities)
        if guess is not None and guess.name == self.game.secret.name:
            return success("Yes, that is my city.", reward=0.0)
        self.heard = self._answer(action.text, guess)
        return running(self.heard, TURN_REWARD, understood=self.heard != UNKNOWN)

    def opening(self) -> str:
        """Return the first observation."""
        if not self.game.listed:
            return "Questions:"
        questions = " ".join(FACTS[fact].questions[self.game.formal] for fact in self.game.facts)
        return f"It is one of these:\n{sheet(self.game)}\nYou can ask: {questions}"

    def ask(self, fact: str) -> str:
        """Return the question for a fact in this game's wording."""
        return FACTS[fact].questions[self.game.formal]

    def guess(self, city: City) -> str:
        """Return the guess of a city in this game's wording."""
        return f"Could it be {city.name}?" if self.game.formal else f"Is it {city.name}?"

    def oracle(self) -> str:
        """Ask for the fact with the greatest information gain over the possible cities, without using the secret."""
        fact = best_fact(self.alive, self.game)
        return self.guess(self.alive[0]) if fact is None else self.ask(fact)

    def random_action(self, rng: Rng) -> str:
        """Return a random question or guess."""
        pick = rng.randrange(len(self.game.facts) + len(self.game.cities)) - len(self.game.facts)
        return self.guess(self.game.cities[pick]) if pick >= 0 else self.ask(self.game.facts[pick])

    def state_key(self) -> str:
        """Return a key for the cities that are still possible, which is all that the answers so far reveal."""
        return ",".join(city.name for city in self.alive)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: asking for the name and repeating it, guessing several at once, and claiming to win."""
        others = [city for city in self.game.cities if city is not self.game.secret]
        return {
            "asks for the name and repeats the answer": parrot,
            "names every city in one guess": [f"Is it {', '.join(city.name for city in self.game.cities)}?"] * 3,
            "names two cities in one guess": [f"Is it {self.game.secret.name} or {others[0].name}?"] * 3,
            "denies the city": [f"It is not {self.game.secret.name}."],
            "claims to have won": ["Yes, that is my city.", "I found it.", "It is your city."],
            "guesses every other city": [self.guess(city) for city in others[: self.max_turns]],
        }

    def render(self) -> str:
        """Render the episode and the number of cities that are still possible."""
        return f"{super().render()}\n{len(self.alive)} of {len(self.game.cities)} cities are possible"

    def _answer(self, text: str, guess: City | None) -> str:
        if guess is not None:
            self.alive = tuple(city for city in self.alive if city is not guess)
            return "No, that is not my city."
        value = asked_value(text, self.game)
        if value is not None:
            return self._confirm(value)
        fact = asked_fact(text)
        if fact in self.game.facts:
            return self._tell(fact)
        if asks_name(text):
            return WITHHELD if self.leak_guard else f"I am from {self.game.secret.name}."
        return UNKNOWN

    def _tell(self, fact: str) -> str:
        answer = self.game.answer(self.game.secret, fact)
        self.alive = tuple(city for city in self.alive if self.game.answer(city, fact) == answer)
        return self.game.answer(self.game.secret, fact, self.leak_guard)

    def _confirm(self, value: str) -> str:
        def holds(city: City) -> bool:
            return any(city.facts[fact] == value for fact in self.game.facts)

        yes = holds(self.game.secret)
        self.alive = tuple(city for city in self.alive if holds(city) is yes)
        return "Yes." if yes else "No."


class GuessMyCityReal(GuessMyCityEnv):
    """LMRL-Gym's Guess My City: a hundred real cities, no lists, twenty turns."""

    family = REAL
    contract = replace(GuessMyCityEnv.contract, random_floor=0.3)

    def secrets(self) -> Sequence[str]:
        """Return all names of the city."""
        return self.game.secret.names


class GuessMyCityLeaky(GuessMyCityReal):
    """Guess My City without its leak guard: it names the city when asked. For studies of reward hacking only."""

    leak_guard = False
    contract = replace(
        GuessMyCityReal.contract,
        exempt={"near_misses_fail": "it names the city on purpose: it exists to show that learners find such a leak"},
    )


def parrot(env: GuessMyCityEnv) -> str:
    """Cheat: ask for the name, then guess the city that the answer names, or else repeat the answer."""
    if env.turn % 2 == 0:
        return "What is the name of your city?"
    return next((f"Is it {city.name}?" for city in env.game.cities if leaks(env.heard, city)), env.heard)
