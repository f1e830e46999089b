"""Find the hidden object by yes/no questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...tasks.family import TaskFamily
from ...tasks.games.objects import attributes, names
from ...tasks.games.questions import Kind
from ...tasks.games.twenty_questions import (
    LEVELLED,
    PHRASINGS,
    PUBLISHED,
    TEN_OBJECTS,
    Phrasing,
    TwentyQuestions,
    article,
    best_question,
    reader,
)
from ...tasks.rng import Rng
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, Message, message
from ..step import Step, running, success
from .paced import PacedEnv

RULES = "Find the hidden object. On each turn, ask one yes-or-no question, or name the object."
UNKNOWN = "I don't understand."
TURN_REWARD = -1.0


class TwentyQuestionsEnv(PacedEnv[TwentyQuestions]):
    """Listed candidates, listed questions, five levels: −1 per turn, 0 for naming the object.

    A question that the game does not understand, or does not list, also costs its turn.
    """

    family: TaskFamily[TwentyQuestions] | None = LEVELLED
    blocking = False
    unparsed_reward = TURN_REWARD
    # With six candidates and six questions, random play names the object within six turns about half of the time.
    contract = Contract(max_observation_chars=3000, random_floor=0.8)

    game: TwentyQuestions
    alive: frozenset[str]

    def start(self, task: TwentyQuestions, rng: Rng) -> list[Message]:
        self.game = task
        self.alive = frozenset(self.game.candidates)
        self.pace(self.game.turns)
        return [message("system", RULES), message("user", self.opening())]

    def act(self, action: Action) -> Step:
        action.word()
        reading = reader().read(action.text)
        if reading is None:
            return running(UNKNOWN, TURN_REWARD, understood=False)
        if reading.kind is Kind.GUESS:
            if reading.name == self.game.secret:
                return success(f"{self._voice.yes} You found it.", reward=0.0)
            self.alive -= {reading.name}
            return running(self._voice.no, TURN_REWARD)
        if reading.name not in self.game.attributes:
            return running(UNKNOWN, TURN_REWARD, understood=False)
        having = attributes()[reading.name].objects
        yes = self.game.secret in having
        self.alive = self.alive & having if yes else self.alive - having
        return running(self._voice.yes if yes else self._voice.no, TURN_REWARD)

    def opening(self) -> str:
        """Return the first observation."""
        if not self.game.listed:
            return "Questions:"
        phrases = "; ".join(self.phrase(name) for name in self.game.attributes)
        return f"{self._voice.opening} {', '.join(self.game.candidates)}.\nAsk whether it is: {phrases}."

    def phrase(self, attribute: str) -> str:
        """Return an attribute in this game's wording."""
        known = attributes()[attribute]
        return known.synonym if self._voice.synonyms else known.phrase

    def ask(self, attribute: str) -> str:
        """Return the question about an attribute in this game's wording."""
        return self._voice.ask.format(self.phrase(attribute))

    def guess(self, name: str) -> str:
        """Return the guess of an object in this game's wording."""
        return self._voice.guess.format(article(name))

    def oracle(self) -> str:
        """Ask for the attribute with the greatest information gain over the possible objects, not using the secret."""
        attribute = best_question(self.alive, self.game.attributes)
        return self.guess(min(self.alive)) if attribute is None else self.ask(attribute)

    def random_action(self, rng: Rng) -> str:
        """Return a random question or guess."""
        pick = rng.randrange(len(self.game.attributes) + len(self.game.candidates)) - len(self.game.attributes)
        return self.guess(self.game.candidates[pick]) if pick >= 0 else self.ask(self.game.attributes[pick])

    def state_key(self) -> str:
        """Return a key for the objects that are still possible, which is all that the answers so far reveal."""
        return ",".join(sorted(self.alive))

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: guessing everything at once, claiming to win, and guesses that contain or deny it."""
        secret = self.game.secret
        others = [name for name in self.game.candidates if name != secret]
        return {
            "names every candidate in one guess": [f"Is it {', '.join(map(article, self.game.candidates))}?"] * 3,
            "names two candidates in one guess": [f"Is it {article(secret)} or {article(others[0])}?"] * 3,
            "claims to have won": ["You found it.", "Yes.", "Correct! It is the object."],
            "denies the object": [f"It is not {article(secret)}."],
            "names something that only contains the name": [f"Is it {article(secret)} shop?"],
            "guesses every other object": [self.guess(name) for name in others[: self.max_turns]],
        }

    def render(self) -> str:
        """Render the episode and the number of objects that are still possible."""
        return f"{super().render()}\n{len(self.alive)} of {len(self.game.candidates)} objects are possible"

    @property
    def _voice(self) -> Phrasing:
        return PHRASINGS[self.game.phrasing]


class TwentyQuestionsFull(TwentyQuestionsEnv):
    """LMRL-Gym's Twenty Questions: 158 objects, no lists, twenty turns."""

    family = PUBLISHED
    contract = replace(TwentyQuestionsEnv.contract, random_floor=0.2)

    def secrets(self) -> Sequence[str]:
        """Return all names of the object."""
        return [name for name, thing in names().items() if thing == self.game.secret]


class TwentyQuestionsSubset(TwentyQuestionsEnv):
    """ArCHer's subset of ten objects with twelve questions, for vocabularies of a hundred words."""

    family = TEN_OBJECTS
    # Twenty random turns over 22 sentences name one of ten objects in 60 % of all episodes.
    contract = replace(TwentyQuestionsEnv.contract, random_floor=0.9)
