"""The smallest environment that is worth training on: guess a number."""

import turnwise as tw


class GuessNumber(tw.TurnEnv):
    """Find the number between 1 and 16 within five turns."""

    max_turns, unparsed_reward = 5, -0.1  # an unreadable reply costs as much as a wrong guess

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.left = list(range(1, 17))
        self.secret = rng.pick(self.left)
        return "Guess my number between 1 and 16."

    def act(self, action: tw.Action) -> tw.Step:
        guess = action.integer()  # an unreadable reply becomes an observation
        if guess == self.secret:
            return tw.success("Correct!")
        self.left = [n for n in self.left if (n > guess) == (self.secret > guess) and n != guess]
        return tw.running("Too low." if guess < self.secret else "Too high.", reward=-0.1)

    def oracle(self) -> str:
        return str(self.left[len(self.left) // 2])


tw.register("demo/GuessNumber-v0", GuessNumber)
