"""The tree of all errors that Turnwise raises.

::

    TurnwiseError
    ├── UsageError                 the user's input is wrong; the message says what to change
    │   ├── ConfigError            a TOML file or an override that cannot be read
    │   ├── UnknownEnvironmentError    no such id; suggests similar names
    │   ├── TaskError              a task specification that its family cannot generate
    │   ├── ModelError             a model or tokenizer that cannot be loaded or used
    │   ├── StoreError             an episode store that is missing, damaged or of another kind
    │   ├── SpendingCapError       a run would spend more on a chat API than its cap allows
    │   ├── NothingScoredError     no episode of a run has a score, so nothing is known about the policy
    │   ├── SandboxUnavailableError    a sandbox that this machine cannot create as specified
    │   └── CheckpointError        a checkpoint that is missing, damaged or of another run
    ├── ContractError              an environment, agent or policy broke its contract (its author's fault)
    ├── ToolError                  raised inside a tool: its text becomes an observation
    ├── UnparseableError           an action that cannot be read: its text becomes an observation
    ├── PolicyError                the policy failed; the episode is ``policy_failed``
    │   ├── PolicyTimeoutError     no completion before the turn's deadline
    │   ├── PromptTooLongError     the prompt leaves no room in the context
    │   └── ProgramFailedError     a black-box agent's program crashed, or did nothing
    ├── RequestError               a client of the endpoint sent an invalid request
    ├── InfrastructureError        an infrastructure failure; the episode is ``infra_failed``: retried, never scored
    │   ├── PolicyServerError          a policy's server sent a wrong answer, or none
    │   │   └── ServerSettingsError        a setting of the server cut an answer short
    │   ├── EnvironmentFailedError     the environment raised
    │   ├── EnvironmentTimeoutError    the environment did not answer before the deadline
    │   ├── SandboxError               a sandbox could not be created this time, or died
    │   └── EnvironmentDiedError       the environment's process died
    ├── DivergedError              training reached a loss that is not a number; the batch is saved for inspection
    └── UnscoredEpisodeError       the return of an episode that has none

``UsageError`` and its children end a command with one line and exit code 2, ``NothingScoredError`` with 3. This module
imports nothing from Turnwise, and every folder may import it.
"""

from __future__ import annotations


class TurnwiseError(Exception):
    """The root of every error that Turnwise raises on purpose."""


class UsageError(TurnwiseError, ValueError):
    """The user's input is wrong; the message says what to change.

    Args:
        args: message.
        option: name of the wrong input, if options of commands set it: ``"split"`` for ``--split``.
    """

    def __init__(self, *args: object, option: str = "") -> None:
        super().__init__(*args)
        self.option = option


class ConfigError(UsageError):
    """A configuration file or an override that cannot be read."""


class UnknownEnvironmentError(UsageError):
    """No environment has this id. The message suggests similar names."""


class TaskError(UsageError):
    """A task specification that its family cannot generate."""


class ModelError(UsageError):
    """A model or tokenizer that cannot be loaded or used."""


class StoreError(UsageError):
    """An episode store that is missing, damaged or of another kind."""


class NothingScoredError(UsageError):
    """No episode of a run has a score, so nothing is known about the policy. The exit code is 3."""


class SpendingCapError(UsageError):
    """A run would spend more on a chat API than its cap allows. Finished episodes are kept."""


class SandboxUnavailableError(UsageError):
    """A sandbox that this machine cannot create as specified; the message says what to install or relax."""


class CheckpointError(UsageError):
    """A checkpoint that is missing, damaged or belongs to another run."""


class ContractError(TurnwiseError):
    """An environment, agent or policy violated its contract; its author must fix it."""


class ToolError(TurnwiseError):
    """Raised inside a tool to refuse a call: the text becomes the observation."""


class UnparseableError(TurnwiseError):
    """An action that cannot be read: the text becomes the observation."""


class PolicyError(TurnwiseError):
    """The policy failed; the episode's outcome is ``policy_failed``."""


class PolicyTimeoutError(PolicyError):
    """The policy returned no completion before the turn's deadline."""


class PromptTooLongError(PolicyError):
    """The prompt leaves no room for an action in the model's context."""


class ProgramFailedError(PolicyError):
    """A black-box agent's program crashed, wrote too much, or ended without having done anything."""


class RequestError(TurnwiseError):
    """A client of the endpoint sent an invalid request; the response has the message.

    Args:
        message: description of the problem, for the client.
        status: HTTP status of the response.
        param: name of the invalid parameter, if any.
        code: machine-readable kind of the error.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str = "invalid_request"
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


class InfrastructureError(TurnwiseError):
    """An infrastructure failure; the episode's outcome is ``infra_failed``: retried, counted, never scored."""


class PolicyServerError(InfrastructureError):
    """A policy's server sent a wrong answer, or none in time: its own fault, never the policy's."""


class ServerSettingsError(PolicyServerError):
    """A setting of a policy's server cut an answer short; if that happens again, a user must change the setting."""


class EnvironmentFailedError(InfrastructureError):
    """The environment raised an exception: a bug of its author, which says nothing about the policy."""

    traceback: str = ""
    """The environment's own traceback, which ``turnwise --debug`` prints."""


class EnvironmentTimeoutError(InfrastructureError):
    """The environment did not answer before the deadline."""


class EnvironmentDiedError(InfrastructureError):
    """The environment's process died."""


class SandboxError(InfrastructureError):
    """A sandbox could not be created this time, or died while running something."""


class DivergedError(TurnwiseError):
    """Training reached a loss or gradient that is not finite; the message names the saved batch."""


class UnscoredEpisodeError(TurnwiseError):
    """Raised when reading the return of an episode that has none (``infra_failed`` or ``cancelled``)."""
