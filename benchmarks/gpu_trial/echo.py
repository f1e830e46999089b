"""An environment whose episodes have a known length, however the agent acts: for measuring, not for learning."""

from __future__ import annotations

import os

import turnwise as tw

TURNS, WORDS, VOCABULARY = (int(os.environ.get(f"TRIAL_{name}", "20")) for name in ("TURNS", "WORDS", "VOCABULARY"))


class Echo(tw.TurnEnv):
    """Say something: a fixed number of words comes back, for a fixed number of turns."""

    max_turns = TURNS

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        """Begin with some words."""
        self.rng = rng
        return self._words()

    def act(self, action: tw.Action) -> tw.Step:
        """Answer any action; its length makes a reward that differs between attempts."""
        return tw.running(self._words(), reward=(len(action.text) % 7) / 7)

    def _words(self) -> str:
        return " ".join(f"w{self.rng.randint(0, VOCABULARY - 1)}" for _ in range(WORDS))


tw.register("trial/Echo-v0", Echo)
