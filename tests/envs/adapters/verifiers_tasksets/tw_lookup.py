"""A taskset of verifiers with a tool, which a server of its own answers."""

# mypy: ignore-errors

import verifiers.v1 as vf

FACTS = {"ada": "the first program", "grace": "the first compiler", "alan": "the first test"}


class Facts(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "facts"

    @vf.tool
    def lookup(self, name: str) -> str:
        """Look up what someone wrote."""
        return FACTS.get(name, "nothing is known")


class LookupData(vf.TaskData):
    answer: str


class LookupTask(vf.Task[LookupData]):
    @vf.reward
    async def found(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)


class LookupConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class Lookups(vf.Taskset[LookupTask, LookupConfig]):
    @classmethod
    def toolsets(cls, config: LookupConfig) -> list[vf.Toolset]:
        return [Facts(config.tools)]

    def load(self):
        for name, fact in FACTS.items():
            data = LookupData(prompt=f"What did {name} write? Use the tool, then answer with its words.", answer=fact)
            yield LookupTask(data, self.config.task)


__all__ = ["Lookups"]

if __name__ == "__main__":
    Facts.run()
