"""Settings of an evaluation."""

from __future__ import annotations

from typing import Annotated, Any, Self

import pydantic

from ..agents.chat_apis.named import server_of
from ..agents.chat_apis.settings import ApiSettings
from ..agents.named import fingerprint
from ..agents.settings import AgentSettings
from ..config import means_none
from ..inference.policy_spec import is_chat_api
from ..rollouts.branching_search import RolloutSearch
from ..rollouts.episode import FAILURE_RATE
from ..rollouts.options import RolloutsConfig, RunOptions
from ..service.process import ProgramConfig
from ..tasks.family import TaskFamily
from ..tasks.spec import Split
from .sampling import Sample, sample_tasks


def _several(value: Any) -> Any:
    """Return one item, or comma-separated text from a command line, as a list."""
    if isinstance(value, str):
        if means_none(value):
            return ()
        items = [item.strip() for item in value.split(",") if item.strip()]
        if not items:
            raise ValueError("the list is empty; omit the setting to use the default")
        return items
    return [value] if isinstance(value, int) else value


class EvalConfig(RunOptions):
    """Settings of an evaluation: tasks, policy and statistics. It includes the fields of ``RunOptions``."""

    env: str
    """Environment id, e.g. ``turnwise/Maze-v0``."""
    policy: str = ""
    """Policy: oracle, random, null, mixed:0.35, function:module:name, the folder of a model, http://host:port, or a
    model behind a chat API: openai:MODEL, anthropic:MODEL, chat:URL#MODEL."""
    tokenizer: str | None = None
    """Folder with the tokenizer of a server's model (default: the folder that the server names, if it exists here)."""
    program: ProgramConfig | None = None
    """Program that plays the episodes and calls the policy, a model (default: the policy acts itself)."""
    n: int = pydantic.Field(default=100, ge=1)
    """Number of tasks, each played ``group_size`` times. If a family has fewer, all of them are played."""
    splits: Annotated[tuple[Split, ...], pydantic.BeforeValidator(_several)] = ()
    """Splits of the tasks, in equal parts (default: the test splits, or all if a family has no test split)."""
    levels: Annotated[tuple[int, ...], pydantic.BeforeValidator(_several)] = ()
    """Levels of the tasks, in equal parts (default: all)."""
    agent: AgentSettings = AgentSettings()
    """How a model acts; omitted settings are those of its training (``agent.json`` beside it)."""
    temperature: float | None = pydantic.Field(default=None, ge=0)
    """Short for ``agent.temperature``; 0 is greedy (default for a chat API: the provider's)."""
    max_tokens: int | None = pydantic.Field(default=None, ge=1)
    """Short for ``agent.max_tokens``: maximum tokens of an action (default for a chat API: 8192)."""
    device: str = "auto"
    """Device of a model: ``auto`` uses the GPU if torch sees one, otherwise the CPU."""
    api: ApiSettings = ApiSettings()
    """Settings for a model behind a chat API."""
    confidence: float = pydantic.Field(default=0.95, gt=0, lt=1)
    """Nominal coverage of every interval."""
    rollouts: RolloutsConfig = RolloutsConfig()
    """Place of episodes: this process, or workers on a Ray cluster."""
    search: RolloutSearch | None = None
    """Search for each action by rollouts on forks of the environment (default: the policy acts once)."""
    failure_rate: float = pydantic.Field(default=FAILURE_RATE, ge=0, le=1)
    """Share of the episodes in which the infrastructure may fail; beyond it the evaluation is inconclusive."""

    @pydantic.model_validator(mode="after")
    def _said_once(self) -> Self:
        for name in ("temperature", "max_tokens"):
            short, own = getattr(self, name), getattr(self.agent, name)
            if short is not None and name in self.agent.model_fields_set and short != own:
                raise ValueError(f"{name} = {short} contradicts agent.{name} = {own}; set one of them")
        return self

    @pydantic.model_validator(mode="after")
    def _searchable(self) -> Self:
        if self.search is None:
            return self
        if self.group_size > 1:
            raise ValueError("a search plays one episode per task: omit group_size")
        if self.program is not None:
            raise ValueError("a program plays whole episodes, and a search chooses single actions: omit one of them")
        if (self.agent.temperature if self.temperature is None else self.temperature) == 0:
            raise ValueError("at temperature 0 all rollouts of a state are the same: set temperature above 0 to search")
        return self

    @pydantic.model_validator(mode="after")
    def _api_is_local(self) -> Self:
        if self.rollouts.engine != "local" and is_chat_api(self.policy):
            raise ValueError(
                f"{self.policy} is a model behind a chat API, whose costs and answers are kept by one process: play it "
                "with rollouts.engine = 'local'"
            )
        return self

    def sample(self, family: TaskFamily[Any]) -> Sample:
        """Sample the tasks of this evaluation."""
        return sample_tasks(family, self.n, splits=self.splits, levels=self.levels, seed=self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        """Return the settings that a resumed evaluation must share: not ``n``, concurrency, timeouts or retries.

        For the folder of a model, this includes the model itself: a mixture of episodes of two models would evaluate
        neither.
        """
        keep = {"env", "env_kwargs", "policy", "splits", "levels", "group_size", "seed", "temperature", "max_tokens"}
        model = fingerprint(self.policy) if self.policy else None
        identity = self.model_dump(mode="json", include=keep) | ({"model": model} if model else {})
        if is_chat_api(self.policy):
            identity["api"] = self.api.identity | {"server": server_of(self.policy, self.api)[0].address}
        agent = self.agent.model_dump(mode="json", exclude_unset=True)
        identity |= {"agent": agent} if agent else {}
        identity |= {"search": self.search.model_dump()} if self.search is not None else {}
        if self.program is not None:
            identity["program"] = self.program.model_dump(mode="json", include={"command", "fixed_temperature"})
        return identity
