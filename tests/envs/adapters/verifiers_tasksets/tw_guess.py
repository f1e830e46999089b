"""A multi-turn taskset of verifiers without end, whose environment answers as the user."""

# mypy: ignore-errors

import itertools

import verifiers.v1 as vf


class GuessData(vf.TaskData):
    number: int


class GuessTask(vf.Task[GuessData]):
    @vf.metric
    async def guesses(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)


class GuessConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(max_turns=4)


class Guess(vf.Env[GuessConfig]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn("Guess a number from 0 to 9.")
            while not segment.terminated:
                said = segment.last_reply
                if said == "fail":
                    raise ValueError("the world broke")
                if said == str(task.data.number):
                    break
                known = said.isdigit() and len(said) == 1
                hint = ("higher" if int(said) < task.data.number else "lower") if known else "a digit, please"
                segment = await interaction.turn(f"{hint}.")
        interaction.trace.record_reward("found", float(said == str(task.data.number)), 0.5)


class Guesses(vf.Taskset[GuessTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for n in itertools.count():
            yield GuessTask(GuessData(prompt=None, number=n * 7 % 10), self.config.task)


__all__ = ["Guess", "Guesses"]
