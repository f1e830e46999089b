"""Settings of a language-model agent: the ``[agent]`` table, saved beside a trained model as ``agent.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pydantic

from ..config import Config
from ..errors import ModelError
from .context import context_strategy
from .parsers import AUTO, action_parser

SETTINGS = "agent.json"
"""File beside a model's weights with the settings of its training."""


class AgentSettings(Config):
    """Settings of a language-model agent: one ``[agent]`` table for training and evaluation.

    They are saved beside a trained model, and a later run takes omitted settings from there.
    """

    context: str = "full"
    """Context strategy: ``full``, ``last:K``, ``last:K:bare`` (without system messages), ``short:K:N`` (N characters of
    every observation but the last K), ``summary`` or ``summary:N`` (a summary of at most N characters)."""
    parser: str = AUTO
    """How text becomes an action: ``auto`` (the tool calls of the model's chat template if the environment offers
    tools, otherwise text), ``text``, ``tagged``, ``search``, or one kind of tool call: ``tools`` (Qwen, Hermes),
    ``llama``, ``mistral``, ``deepseek``, ``glm``, ``phi``, ``qwen-coder`` or ``seed``."""
    system: str | None = None
    """Text added to the system message."""
    show_tools: bool = True
    """Describe the environment's tools in the prompt: by the chat template, or in the system message if the template
    has no place for tools."""
    temperature: float = pydantic.Field(default=1.0, ge=0)
    """Sampling temperature; 0 is greedy."""
    top_p: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Sample from the most likely tokens that together have this probability. Evaluation only: training needs 1."""
    max_tokens: int = pydantic.Field(default=256, ge=1)
    """Maximum tokens of an action, including reasoning."""
    enable_thinking: bool | None = None
    """Switch the reasoning of a hybrid model on or off, if its chat template has such a switch."""
    chat_template_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Further variables for the chat template, e.g. ``{date_string = "26 Jul 2024"}`` for Llama."""

    @pydantic.field_validator("context")
    @classmethod
    def _context(cls, name: str) -> str:
        context_strategy(name)
        return name

    @pydantic.field_validator("parser")
    @classmethod
    def _parser(cls, name: str) -> str:
        if name != AUTO:
            action_parser(name)
        return name

    @property
    def template_kwargs(self) -> dict[str, Any]:
        """The variables for the chat template; model families name the switch for reasoning differently."""
        switch = {} if self.enable_thinking is None else dict.fromkeys(SWITCHES, self.enable_thinking)
        return switch | self.chat_template_kwargs

    def save(self, folder: Path | str) -> None:
        """Write the settings beside a model."""
        Path(folder, SETTINGS).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def beside(cls, folder: Path | str) -> AgentSettings:
        """Read the settings saved beside a model; only those in the file count as set.

        Returns:
            The saved settings, or the defaults if there is no file.

        Raises:
            ModelError: the file exists but cannot be read.
        """
        path = Path(folder, SETTINGS)
        if not path.exists():
            return AgentSettings()
        try:
            return AgentSettings.model_validate_json(path.read_bytes())
        except (OSError, pydantic.ValidationError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, pydantic.ValidationError) else error
            raise ModelError(f"cannot read {path}: {reason}; fix it, or remove it to use the defaults") from None

    def overridden(self, given: AgentSettings) -> Self:
        """Return these settings, overridden by those that are set in ``given``."""
        own = given.model_dump(include=given.model_fields_set & set(AgentSettings.model_fields))
        return self.model_copy(update=own)

    def departures(self, trained: AgentSettings) -> str:
        """Return one line on settings that differ from a model's training, or "" if none does."""
        pairs = [(name, getattr(self, name), getattr(trained, name)) for name in sorted(trained.model_fields_set)]
        changed = [f"agent.{name} = {now!r} (trained with {before!r})" for name, now, before in pairs if now != before]
        return f"the model acts differently from how it was trained: {', '.join(changed)}" if changed else ""


SWITCHES = ("enable_thinking", "thinking")
"""Names of the chat-template variable that switches reasoning on: Qwen's and GLM's, DeepSeek's and Granite's."""
