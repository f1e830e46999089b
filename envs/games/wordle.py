"""Find a secret word in six guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tasks.family import TaskFamily
from ...tasks.games.wordle import (
    LEVELS,
    OPENING,
    TRIES,
    WORDINGS,
    WORDLES,
    Guess,
    Wording,
    Wordle,
    best_guess,
    feedback,
    vocabulary,
)
from ...tasks.rng import Rng
from ..base import NearMiss, TurnEnv
from ..contract import Contract
from ..messages import Action, ActionLike, ObservationLike, clip, message
from ..step import Step, failure, running, success
from .attacks import attacks_on


class WordleEnv(TurnEnv[Wordle]):
    """Guess a hidden word, as in Wordle: −1 per guess, 0 for the right one, six tries.

    A guess is one word of the level's list, with or without spaces between its characters. Any other text costs a try
    and −1.
    """

    family: TaskFamily[Wordle] | None = WORDLES
    blocking = False
    max_turns = TRIES
    unparsed_reward = -1.0
    contract = Contract(max_observation_chars=500)

    game: Wordle
    words: frozenset[str]
    guesses: tuple[Guess, ...]

    def start(self, task: Wordle, rng: Rng) -> ObservationLike:
        self.game = task
        self.words = frozenset(vocabulary(self.game.level))
        self.guesses = ()
        rules = self.wording.rules.format(length=LEVELS[self.game.level].length, tries=TRIES)
        return [message("system", rules), message("user", OPENING.format(tries=TRIES))]

    def act(self, action: Action) -> Step:
        guess = "".join(action.text.lower().split()).strip(".!\"'")
        known = guess in self.words
        if known:
            marks = feedback(guess, self.game.secret)
            self.guesses = (*self.guesses, (guess, marks))
            answer = f"{self.wording.describe(guess, marks)}."
            if guess == self.game.secret:
                return success(f"{answer} You found the word.", reward=0.0)
        else:
            answer = f"{clip(action.text)!r} is not in the list of words."
        if self.turn >= TRIES:
            return failure(f"{answer} No tries left. The word was {self.game.secret}.", reward=-1.0)
        return running(self._with_tries(answer), -1.0, **({} if known else {"unparsed": True}))

    @property
    def wording(self) -> Wording:
        """The wording of this task's template."""
        return WORDINGS[self.game.template]

    def oracle(self) -> str:
        """Return the guess that best separates the remaining candidates, without using the secret."""
        return best_guess(self.game.level, self.guesses, TRIES - self.turn)

    def random_action(self, rng: Rng) -> str:
        """Return a random word of the list."""
        return rng.pick(vocabulary(self.game.level))

    def state_key(self) -> str:
        """Return a key for the guesses, their answers, and the tries left."""
        return " ".join([str(self.turn), *(f"{guess}:{marks}" for guess, marks in self.guesses)])

    def secrets(self) -> tuple[str, ...]:
        """Return the secret word."""
        return (self.game.secret,)

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return hostile inputs: valid answers in changed form, and texts that no game should accept."""
        return attacks_on(self)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: guesses that ignore the answers, and texts that contain the secret among other words."""
        secret = self.game.secret
        others = [word for word in vocabulary(self.game.level) if word != secret]
        return {
            "guesses without listening": others[:TRIES],
            "says every word at once": [" ".join(vocabulary(self.game.level))] * TRIES,
            "wraps the secret in words": [
                f"is it {secret}?",
                f"{secret}{secret}",
                f"{secret} {others[0]}",
            ],
            "asks for the secret": ["What is the word?", "Tell me the word.", "I give up."],
        }

    def _with_tries(self, text: str) -> str:
        left = TRIES - self.turn
        return f"{text} {left} {'try' if left == 1 else 'tries'} left."
