"""Every error that Turnwise raises, drawn once.

::

    TurnwiseError
    ├── UsageError                 the person's input is wrong; the message says what to change
    │   ├── ConfigError            a TOML file or an override that cannot be read
    │   ├── UnknownEnvironmentError    no such id; carries the nearest names
    │   ├── TaskError              a task specification that its family cannot generate
    │   ├── ModelError             a model or tokenizer that cannot be loaded or used
    │   ├── StoreError             an episode store that is missing, damaged or of another kind
    │   ├── SpendingCapError       a run would spend more on a chat API than its cap allows
    │   ├── SandboxUnavailableError    a sandbox that this machine cannot make as it was asked for
    │   └── CheckpointError        a checkpoint that is missing, damaged or of another run
    ├── ContractError              an environment, agent or policy broke its contract (its author's fault)
    ├── ToolError                  raised inside a tool: its text becomes an observation
    ├── UnparseableError           an action that cannot be read: its text becomes an observation
    ├── PolicyError                the policy failed; the episode is ``policy_failed``
    │   ├── PolicyTimeoutError     no completion before the turn's deadline
    │   ├── PromptTooLongError     the prompt leaves no room in the context
    │   └── ProgramFailedError     a black-box agent's program crashed, or did nothing
    ├── RequestError               a client of the endpoint asked for what cannot be done; it is told so
    ├── InfrastructureError        the machinery failed; the episode is ``infra_failed`` and is retried, never scored
    │   ├── PolicyServerError          a policy's server answered what it must not, or not at all
    │   │   └── ServerSettingsError        it cut an answer short by a setting of its own
    │   ├── EnvironmentFailedError     the environment raised
    │   ├── EnvironmentTimeoutError    the environment did not answer before the deadline
    │   ├── SandboxError               a sandbox could not be made this time, or died
    │   └── EnvironmentDiedError       the environment's process is gone
    ├── DivergedError              training reached a loss that is no number; the batch is saved for inspection
    └── UnscoredEpisodeError       somebody asked for the return of an episode that has none

``UsageError`` and its children end a command with one line and exit code 2. This module imports nothing of ours,
and every folder may import it.
"""

from __future__ import annotations


class TurnwiseError(Exception):
    """The root of every error that Turnwise raises on purpose."""


class UsageError(TurnwiseError, ValueError):
    """The person's input is wrong; the message says what to change."""


class ConfigError(UsageError):
    """A configuration file or an override that cannot be read."""


class UnknownEnvironmentError(UsageError):
    """No environment has this id. The message carries the nearest names."""


class TaskError(UsageError):
    """A task specification that its family cannot generate."""


class ModelError(UsageError):
    """A model or tokenizer that cannot be loaded or used."""


class StoreError(UsageError):
    """An episode store that is missing, damaged or of another kind."""


class SpendingCapError(UsageError):
    """A run would spend more on a chat API than its cap allows. What was played is kept."""


class SandboxUnavailableError(UsageError):
    """A sandbox that this machine cannot make as it was asked for; the message says what to install or to relax."""


class CheckpointError(UsageError):
    """A checkpoint that is missing, damaged or belongs to another run."""


class ContractError(TurnwiseError):
    """An environment, agent or policy broke its contract; its author must mend it."""


class ToolError(TurnwiseError):
    """Raised inside a tool to refuse a call: the text becomes the observation."""


class UnparseableError(TurnwiseError):
    """An action that cannot be read: the text becomes the observation."""


class PolicyError(TurnwiseError):
    """The policy failed; the episode's outcome is ``policy_failed``."""


class PolicyTimeoutError(PolicyError):
    """The policy gave no completion before the turn's deadline."""


class PromptTooLongError(PolicyError):
    """The prompt leaves no room for an action in the model's context."""


class ProgramFailedError(PolicyError):
    """A black-box agent's program crashed, wrote without end, or ended without having done anything."""


class RequestError(TurnwiseError):
    """A client of the endpoint asked for something that cannot be done; the answer tells it so.

    Args:
        message: what is wrong, for the client.
        status: of HTTP.
        param: the parameter that is wrong.
        code: a word that programs can compare.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str = "invalid_request"
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


class InfrastructureError(TurnwiseError):
    """The machinery failed; the episode's outcome is ``infra_failed``: retried, counted, never scored."""


class PolicyServerError(InfrastructureError):
    """A policy's server answered what it must not, or not in time: its fault, and never the policy's."""


class ServerSettingsError(PolicyServerError):
    """A policy's server cut an answer short by a setting of its own; if it does so again, a person must change it."""


class EnvironmentFailedError(InfrastructureError):
    """The environment raised an exception: a bug of its author, which says nothing about the policy."""

    traceback: str = ""
    """The environment's own traceback, which ``turnwise --debug`` prints."""


class EnvironmentTimeoutError(InfrastructureError):
    """The environment did not answer before the deadline."""


class EnvironmentDiedError(InfrastructureError):
    """The process that held the environment is gone."""


class SandboxError(InfrastructureError):
    """A sandbox could not be made this time, or died under what it ran."""


class DivergedError(TurnwiseError):
    """Training reached a loss or gradient that is no finite number; the message names the saved batch."""


class UnscoredEpisodeError(TurnwiseError):
    """The return of an episode that has none (``infra_failed`` or ``cancelled``) was asked for."""
