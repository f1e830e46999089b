"""A description of an environment for clients that have none of its code: limits, tools, and the family of tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...errors import EnvironmentFailedError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng, stable_hash
from ...tasks.spec import Split, TaskSpec
from ..asked import has_oracle
from ..base import TurnEnv
from ..contract import Contract
from ..source import source_digest
from ..tools import Tool
from .frames import tools_from_json, tools_to_json


def describe(env: TurnEnv) -> dict[str, Any]:
    """Return what a client needs to know of an environment, as JSON. It leaves out oracle, judge and secrets."""
    inner: TurnEnv = env.unwrapped  # type: ignore[assignment]
    family = inner.tasks()
    return {
        "name": type(inner).__name__,
        "about": (type(inner).__doc__ or "").strip().partition("\n\n")[0],
        "max_turns": int(env.get_wrapper_attr("max_turns")),
        "max_turns_truncates": bool(env.get_wrapper_attr("max_turns_truncates")),
        "tools": tools_to_json(inner.tools),
        "source": source_digest(env),
        "oracle": has_oracle(inner),
        "contract": {**asdict(inner.contract), "exempt": dict(inner.contract.exempt)},
        "family": {
            "name": family.name,
            "seeded": type(family) is SeededFamily,
            "levels": list(family.levels),
            "usual": list(family.usual),
            "seeds": family.seeds,
            "templates": {str(split): list(family.templates(split)) for split in family.splits},
        },
    }


def instance(env: TurnEnv, task: TaskSpec) -> str:
    """Return a digest of the task that a specification generates, equal for equal tasks."""
    inner: TurnEnv = env.unwrapped  # type: ignore[assignment]
    return stable_hash(repr(inner.tasks().generate(task))).hex()


@dataclass(frozen=True, slots=True)
class Instance:
    """A task that exists only on the server: equal tasks have equal keys."""

    key: str


class RemoteFamily(TaskFamily[Instance]):
    """The family of a remote environment: it draws specifications here, and the server generates the tasks.

    Args:
        described: the family in a server's description.
        key_of: function that returns the server's key for a specification.
    """

    def __init__(self, described: Mapping[str, Any], key_of: Callable[[TaskSpec], str]) -> None:
        self.name = described["name"]
        self.levels = tuple(described["levels"])
        self.seeds = described["seeds"]
        self._usual = tuple(described["usual"])
        self._templates = {Split(split): tuple(names) for split, names in described["templates"].items()}
        self.splits = tuple(self._templates)
        self._key_of = key_of

    @property
    def usual(self) -> tuple[int, ...]:
        """Levels to use if a caller names none."""
        return self._usual

    def templates(self, split: Split) -> tuple[str, ...]:
        """Return the template names of a split."""
        return self._templates[Split(split)]

    def build(self, spec: TaskSpec, rng: Rng) -> Instance:
        """Return the task, of which only its key is known here."""
        return Instance(self._key_of(spec))


@dataclass(frozen=True, slots=True)
class Description:
    """An environment as its server describes it.

    Args:
        digest: digest of the environment, its arguments, its source and the release of Turnwise.
        about: first paragraph of its docstring.
        max_turns: limit of turns.
        max_turns_truncates: whether this limit truncates the episode.
        tools: tools before an episode begins.
        family: family of its tasks, as JSON.
        has_oracle: whether its author wrote an oracle.
        contract: limits and exemptions that its author declares.
    """

    digest: str
    about: str
    max_turns: int
    max_turns_truncates: bool
    tools: tuple[Tool, ...]
    family: Mapping[str, Any]
    has_oracle: bool = True
    contract: Contract = field(default_factory=Contract)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Description:
        """Parse a server's answer to ``describe``.

        Raises:
            EnvironmentFailedError: it cannot be read.
        """
        try:
            return cls(
                data["digest"],
                data["about"],
                data["max_turns"],
                data["max_turns_truncates"],
                tools_from_json(data["tools"]),
                data["family"],
                data.get("oracle", True),
                _contract(data.get("contract", {})),
            )
        except (KeyError, TypeError) as error:
            raise EnvironmentFailedError(f"the server's description cannot be read: {error!r}") from None

    def family_of(self, key_of: Callable[[TaskSpec], str]) -> TaskFamily[Any]:
        """Return the family of the environment's tasks."""
        if self.family["seeded"]:
            return SeededFamily(self.family["name"])
        return RemoteFamily(self.family, key_of)


def _contract(given: Mapping[str, Any]) -> Contract:
    """Return the contract in a description; limits that this release does not know are left out."""
    known = {each.name for each in fields(Contract)}
    return Contract(**{name: value for name, value in given.items() if name in known})
