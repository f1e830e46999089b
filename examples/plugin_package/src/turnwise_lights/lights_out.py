"""Lights out on a line: a press switches a light and its neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import turnwise as tw

LIGHTS = 7  # with 7 lights every position has exactly one solution, as a set of presses


class LightsOut(tw.TurnEnv):
    """Switch all lights on; pressing one switches its neighbors too."""

    max_turns = LIGHTS

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        """Draw a position that is not solved yet."""
        self.lit = [True] * LIGHTS
        for light in rng.sample(range(LIGHTS), rng.randint(2, LIGHTS)):
            self._press(light)
        return f"Switch all lights on. Answer with the number of a light to press. {self._shown()}"

    def act(self, action: tw.Action) -> tw.Step:
        """Press the light that the agent names."""
        light = action.integer()
        if not 1 <= light <= LIGHTS:
            raise tw.UnparseableError(f"There is no light {light}; answer with a number from 1 to {LIGHTS}.")
        self._press(light - 1)
        return tw.success(f"All lights are on. {self._shown()}") if all(self.lit) else tw.running(self._shown())

    def oracle(self) -> str:
        """Return the first press of the shortest solution."""
        return str(next(presses for presses in _subsets() if self._solves(presses))[0] + 1)

    def random_action(self, rng: tw.Rng) -> str:
        """Press any light."""
        return str(rng.randint(1, LIGHTS))

    def best_return(self) -> float:
        """Every position can be solved within the turn limit."""
        return 1.0

    def state_key(self) -> str:
        """The lights, which are the whole state."""
        return self._shown()

    def _shown(self) -> str:
        return " ".join("on" if lit else "off" for lit in self.lit)

    def _press(self, light: int) -> None:
        for near in range(max(0, light - 1), min(LIGHTS, light + 2)):
            self.lit[near] = not self.lit[near]

    def _solves(self, presses: Sequence[int]) -> bool:
        return all(
            lit ^ bool(sum(abs(light - press) <= 1 for press in presses) % 2) for light, lit in enumerate(self.lit)
        )


def _subsets() -> list[tuple[int, ...]]:
    return [presses for size in range(1, LIGHTS + 1) for presses in combinations(range(LIGHTS), size)]
