"""A tool environment with ``CodeTool``, which adds a Python tool that runs in a sandbox."""

import turnwise as tw
from turnwise.envs import CodeTool


class BigProduct(CodeTool):
    """Multiply two numbers that are too large for mental arithmetic."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.factors, self.given = (rng.randrange(10**20, 10**21), rng.randrange(10**20, 10**21)), None
        return f"What is {self.factors[0]} times {self.factors[1]}?"

    @tw.tool(ends=True)
    def answer(self, digits: str) -> None:
        """Give the answer; the episode ends."""
        self.given = digits

    def judge(self) -> tw.Score:
        return tw.Score(success=self.given == str(self.factors[0] * self.factors[1]))

    def oracle(self) -> tw.ToolCall:
        if self.episode_sandbox.digest is None:  # no code has run
            return tw.ToolCall("python", {"code": f"print({self.factors[0]} * {self.factors[1]})"})
        return tw.ToolCall("answer", {"digits": str(self.factors[0] * self.factors[1])})


tw.register("demo/BigProduct-v0", BigProduct)
