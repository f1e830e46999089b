"""The settings of a task: ``task.toml`` in version 1.x of Harbor's format."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

import pydantic

NetworkMode = Literal["public", "no-network", "allowlist"]
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
MEGABYTES = {"": 1 / 2**20, "K": 1 / 2**10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}
MAJOR = "1"
"""Major version of the schema that this module reads."""


class Table(pydantic.BaseModel):
    """Base class of the tables of ``task.toml``. Unknown keys are ignored, since each minor version adds some."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="ignore", use_attribute_docstrings=True, allow_inf_nan=False, populate_by_name=True
    )


class EnvironmentTable(Table):
    """The ``[environment]`` table, also found as ``[verifier.environment]``."""

    docker_image: str | None = pydantic.Field(default=None, min_length=1)
    """Prebuilt image; omitted, the image is built from the Dockerfile."""
    build_timeout_sec: float = pydantic.Field(default=600.0, gt=0)
    """Seconds for building the image."""
    cpus: float | None = pydantic.Field(default=None, gt=0)
    """Processor seconds per second."""
    memory_mb: int | None = pydantic.Field(default=None, ge=16)
    """Memory in MiB."""
    storage_mb: int | None = pydantic.Field(default=None, ge=1)
    """Size of all files in MiB."""
    gpus: int = pydantic.Field(default=0, ge=0)
    """Number of GPUs."""
    os: str = "linux"
    """Operating system."""
    network_mode: NetworkMode | None = None
    """Access to networks."""
    allow_internet: bool | None = None
    """Former name: true for ``public``, false for ``no-network``."""
    env: dict[str, str] = pydantic.Field(default_factory=dict)
    """Environment variables of every command."""
    workdir: str | None = None
    """Working directory; omitted, the image's own."""
    mcp_servers: tuple[Any, ...] = ()
    """MCP servers beside the container."""
    healthcheck: Any = None
    """Command that reports when the services of the container are up."""
    skills_dir: str | None = None
    """Folder of skills for the agent."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _sizes(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        read = dict(given)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in read:
                read.setdefault(new, megabytes(read.pop(old)))
        return read

    @property
    def network(self) -> NetworkMode | None:
        """Access to networks under either name."""
        if self.network_mode is not None or self.allow_internet is None:
            return self.network_mode
        return "public" if self.allow_internet else "no-network"


class AgentTable(Table):
    """The ``[agent]`` table."""

    timeout_sec: float | None = pydantic.Field(default=None, gt=0)
    """Seconds for the commands of an episode together."""
    network_mode: NetworkMode | None = None
    """Access to networks while the agent acts; overrides that of the environment."""


class VerifierTable(Table):
    """The ``[verifier]`` table."""

    timeout_sec: float = pydantic.Field(default=600.0, gt=0)
    """Seconds for ``test.sh``."""
    env: dict[str, str] = pydantic.Field(default_factory=dict)
    """Additional environment variables of ``test.sh``."""
    environment_mode: Literal["shared", "separate"] | None = None
    """Whether Harbor grades in the agent's container; omitted, ``separate`` with a table ``[verifier.environment]``."""
    environment: EnvironmentTable | None = None
    """Environment of a separate verifier; omitted, that of the agent."""
    network_mode: NetworkMode | None = None
    """Access to networks while ``test.sh`` runs."""
    collect: tuple[Any, ...] = ()
    """Commands that collect artifacts in the agent's container."""


class SolutionTable(Table):
    """The ``[solution]`` table."""

    env: dict[str, str] = pydantic.Field(default_factory=dict)
    """Additional environment variables of ``solve.sh``."""


class InfoTable(Table):
    """The ``[task]`` table."""

    name: str | None = None
    """Name, as ``organization/name``."""


class Artifact(Table):
    """A file or folder of the agent that a separate verifier receives, at the same path."""

    source: str
    """Absolute path, or one relative to the working directory."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths below the source to leave out."""


class TaskConfig(Table):
    """The content of ``task.toml``."""

    schema_version: str = pydantic.Field(
        default="1.0", validation_alias=pydantic.AliasChoices("schema_version", "version")
    )
    """Version of the format."""
    task: InfoTable = InfoTable()
    """Identity of the task."""
    artifacts: tuple[Artifact, ...] = ()
    """Paths that a separate verifier receives."""
    agent: AgentTable = AgentTable()
    """Limits of the agent."""
    verifier: VerifierTable = VerifierTable()
    """Limits and environment of the verifier."""
    environment: EnvironmentTable = EnvironmentTable()
    """Environment of the agent."""
    solution: SolutionTable = SolutionTable()
    """Settings of the oracle."""
    steps: tuple[Any, ...] = ()
    """Steps of a task with several instructions."""

    @pydantic.field_validator("schema_version")
    @classmethod
    def _known(cls, value: str) -> str:
        if value.partition(".")[0] != MAJOR:
            raise ValueError(f"version {value} of the format is unknown; this release reads {MAJOR}.x")
        return value

    @pydantic.field_validator("artifacts", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        return [{"source": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.verifier.environment_mode == "shared" and self.verifier.environment is not None:
            raise ValueError('environment_mode = "shared" excludes a table [verifier.environment]')
        return self

    @property
    def separate(self) -> bool:
        """Whether the task itself names what its verifier receives."""
        mode = self.verifier.environment_mode
        return mode == "separate" or (mode is None and self.verifier.environment is not None)

    @property
    def networks(self) -> tuple[str, ...]:
        """The parts of the task that expect a network; Harbor's default is ``public``."""
        env, verifier = self.environment.network or "public", self.verifier
        inside = verifier.environment.network if verifier.environment else None
        asked = {"agent": self.agent.network_mode or env, "verifier": verifier.network_mode or inside or env}
        return tuple(who for who, mode in asked.items() if mode != "no-network")


def megabytes(size: Any) -> Any:
    """Return a size such as ``"2G"`` in MiB; anything else is returned as it is, and refused by its field."""
    match = SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    return max(1, round(float(match[1]) * MEGABYTES[match[2].upper()])) if match else size
