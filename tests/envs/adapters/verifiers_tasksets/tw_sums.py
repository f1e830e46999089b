"""A single-turn taskset of verifiers: add two numbers."""

# mypy: ignore-errors

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: int


class SumTask(vf.Task[SumData]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class SumConfig(vf.TasksetConfig):
    tasks: int = 12


class Sums(vf.Taskset[SumTask, SumConfig]):
    def load(self):
        for n in range(self.config.tasks):
            text = f"What is {n} + {n % 3}? Answer with the number."
            data = SumData(prompt=text, system_prompt="You add.", answer=n + n % 3)
            yield SumTask(data, self.config.task)


__all__ = ["Sums"]
