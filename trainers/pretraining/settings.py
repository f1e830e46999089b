"""Settings of pre-training: the model, the text and its shares, the optimizer, and held-out evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic

from ...agents.parsers import AUTO
from ...config import Config
from ...inference.nano import NanoConfig, Size, TokenizerKind
from ...rollouts.options import Seed
from ..tracking.settings import RENAMED, RENAMED_VALUES, TrackingConfig

Share = Annotated[float, pydantic.Field(ge=0, le=1)]


SHORTEST_CONTEXT = 512
"""Tokens of the smallest context that holds every exercise and its answer, also where each byte is a token."""


class TranscriptConfig(Config):
    """Episodes of one environment, played by scripted agents and written as conversations."""

    env: str
    """The environment's id."""
    episodes: int = pydantic.Field(default=1000, ge=1)
    """Number of training episodes, each of a different task."""
    weight: float = pydantic.Field(default=1.0, gt=0)
    """Relative number of tokens among all transcripts."""
    skills: list[Share] = pydantic.Field(default=[0.0, 0.5, 0.8, 1.0], min_length=1)
    """Each episode draws one of these: the share of its turns that the oracle takes; the others are random."""
    levels: list[int] | None = None
    """Levels of the tasks (default: all)."""
    parser: str = AUTO
    """How actions are written, as in ``agent.parser``."""
    env_kwargs: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Constructor arguments of the environment."""


BRIEF = {"brief": True, "k": 1, "snippet": 3, "max_turns": 5}
"""Search with short pages and results, so that an episode fits a small model's context."""
GAMES = (
    TranscriptConfig(env="turnwise/Wordle-v1", episodes=6000, weight=3),
    TranscriptConfig(env="turnwise/TwentyQuestions-v1", episodes=4000, weight=2),
    TranscriptConfig(env="turnwise/TwentyQuestionsLevels-v1", episodes=4000, weight=2),
    TranscriptConfig(env="turnwise/TwentyQuestionsSubset-v1", episodes=1000, weight=0.5),
    TranscriptConfig(env="turnwise/GuessMyCity-v1", episodes=2000),
    TranscriptConfig(env="turnwise/GuessMyCityLevels-v1", episodes=3000, weight=2),
    TranscriptConfig(env="turnwise/Maze-v0", episodes=2000),
    TranscriptConfig(env="turnwise/MazeFO-v0", episodes=500, weight=0.5),
    TranscriptConfig(env="turnwise/MazePO-v0", episodes=500, weight=0.5),
    TranscriptConfig(env="turnwise/TextNav-v0", episodes=2000),
    TranscriptConfig(env="turnwise/TextNavPO-v0", episodes=1000),
    TranscriptConfig(env="turnwise/CarDealer-v2", episodes=2000),
    TranscriptConfig(env="turnwise/ChessEndgames-v1", episodes=300, weight=0.25),
)
ASSISTANTS = (
    TranscriptConfig(
        env="turnwise/SearchTags-v1", episodes=3000, weight=3, skills=[0.8, 1.0], parser="search", env_kwargs=BRIEF
    ),
    TranscriptConfig(env="turnwise/Search-v1", episodes=1500, weight=1.5, skills=[0.8, 1.0], env_kwargs=BRIEF),
    TranscriptConfig(env="turnwise/SearchDocuments-v1", episodes=1500, weight=1.5, skills=[1.0]),
    TranscriptConfig(env="turnwise/Apps-v2", episodes=1000, skills=[0.8, 1.0]),
    TranscriptConfig(env="turnwise/WebHTML-v1", episodes=400, weight=0.5, skills=[0.8, 1.0]),
    TranscriptConfig(env="turnwise/CodeSynthesis-v1", episodes=300, weight=0.25, skills=[0.8, 1.0]),
    TranscriptConfig(env="turnwise/CodeSQL-v2", episodes=300, weight=0.25, skills=[0.8, 1.0]),
)


class TextConfig(Config):
    """The text to learn from, all of it written by generators; held-out text comes from the split ``dev``."""

    exercises: Share = 0.5
    """Share of the tokens from exercises: copy, spell, count, compare, look up, follow hints. Only answers count
    towards the loss, with the weight of their questions."""
    documents: Share = 0.1
    """Share of the tokens from pages of fictional wikis."""
    transcripts: Share = 0.4
    """Share of the tokens from transcripts."""
    wikis: int = pydantic.Field(default=64, ge=1)
    """Number of wikis."""
    pages: int = pydantic.Field(default=120, ge=60)
    """Pages of a wiki."""
    episodes: list[TranscriptConfig] = pydantic.Field(default=[*GAMES, *ASSISTANTS])
    """Environments whose transcripts are learned."""

    @pydantic.model_validator(mode="after")
    def _whole(self) -> Self:
        total = self.exercises + self.documents + self.transcripts
        if abs(total - 1) > 1e-6:
            raise ValueError(f"exercises, documents and transcripts are shares of all tokens, but add up to {total:g}")
        if self.transcripts and not self.episodes:
            raise ValueError(f"transcripts = {self.transcripts:g}, but episodes names no environment")
        names = [one.env for one in self.episodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"episodes names {', '.join(twice)} twice; use one entry with a larger weight")
        return self


class BaseModelConfig(NanoConfig):
    """Shape and tokenizer of the model; a nano model with other defaults."""

    tokenizer: TokenizerKind = "bpe-digits"
    """Tokenizer: ``bpe-digits``, ``bpe`` or ``byte``; each can write names that it has never seen."""
    size: Size = "2M"
    """Parameters outside the embedding: 0.1M, 0.5M, 2M, 8M or 30M."""
    vocab_size: int = pydantic.Field(default=1024, ge=256)
    """Maximum number of ordinary tokens: 256 bytes, and the merges learned from the text."""
    context_length: int = pydantic.Field(default=4096, ge=2)
    """Maximum tokens of prompt plus action."""


class HeldOutConfig(Config):
    """Evaluation on names and tasks that training never shows."""

    every: int = pydantic.Field(default=500, ge=0)
    """Steps between evaluations; 0 means only before the first step and after the last."""
    documents: int = pydantic.Field(default=24, ge=1)
    """Number of held-out documents of each kind of text."""
    probes: int = pydantic.Field(default=100, ge=1)
    """Number of exercises of each skill."""


class PretrainConfig(Config):
    """Settings of pre-training. The defaults are those of ``pretrain-2m``, except ``autocast``."""

    renamed: ClassVar[Mapping[str, str]] = RENAMED
    renamed_values: ClassVar[Mapping[str, Mapping[Any, Any]]] = RENAMED_VALUES

    out: str = "runs/pretrain"
    """The run's folder."""
    seed: Seed = 0
    """Seed of text, weights and order."""
    resume: bool = False
    """Continue the run in ``out`` from its newest whole checkpoint."""
    steps: int = pydantic.Field(default=2400, ge=1)
    """Training steps in all."""
    batch_tokens: int = pydantic.Field(default=8192, ge=2)
    """Tokens of one step."""
    microbatch_tokens: int = pydantic.Field(default=4096, ge=2)
    """Tokens in one forward pass, at least one row."""
    context: int = pydantic.Field(default=1024, ge=2)
    """Tokens of a row, which documents fill one after the other."""
    long_context: int = pydantic.Field(default=4096, ge=2)
    """Tokens of a long row, for documents that do not fit a short one."""
    long_every: int = pydantic.Field(default=8, ge=0)
    """Every so many steps has long rows; 0 for none."""
    nano: BaseModelConfig = BaseModelConfig()
    """The model and its tokenizer."""
    text: TextConfig = TextConfig()
    """The text."""
    lr: float = pydantic.Field(default=2e-3, gt=0, le=1000)
    """Learning rate after the warm-up."""
    warmup: int = pydantic.Field(default=200, ge=0)
    """Steps over which the rate rises linearly from 0."""
    final_lr: Share = 0.05
    """Share of the rate that is left at the last step, after a linear decay."""
    weight_decay: float = pydantic.Field(default=0.1, ge=0)
    """Decoupled weight decay of matrices."""
    max_grad_norm: float = pydantic.Field(default=1.0, gt=0)
    """Norm to which larger gradients are scaled down."""
    autocast: Literal["bfloat16"] | None = None
    """Precision of matrix products; weights and optimizer stay in float32. ``bfloat16`` is faster where the processor
    supports it."""
    eval: HeldOutConfig = HeldOutConfig()
    """Held-out evaluation."""
    checkpoint_every: int = pydantic.Field(default=100, ge=1)
    """Steps between checkpoints."""
    keep_checkpoints: int = pydantic.Field(default=2, ge=1)
    """Number of the newest checkpoints to keep."""
    device: str = "auto"
    """Device of the model: ``auto`` is the GPU if torch sees one, otherwise the CPU."""
    threads: int | None = pydantic.Field(default=None, ge=1)
    """Threads that torch may use on a CPU (default: torch's choice)."""
    progress: bool = True
    """Show a progress bar (on a terminal), or lines."""
    tracking: TrackingConfig = TrackingConfig()
    """Trackers that show the numbers of ``metrics.jsonl``: TensorBoard and others."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.nano.context_length < SHORTEST_CONTEXT:
            own = self.nano.context_length
            raise ValueError(f"nano.context_length = {own} does not hold a probe; use at least {SHORTEST_CONTEXT}")
        longest = max(self.context, self.long_context if self.long_every else 0)
        if longest > self.nano.context_length:
            raise ValueError(f"rows of {longest} tokens exceed nano.context_length = {self.nano.context_length}")
        if longest > self.batch_tokens:
            raise ValueError(f"rows of {longest} tokens do not fit a step of batch_tokens = {self.batch_tokens}")
        if self.warmup > self.steps:
            raise ValueError(f"warmup = {self.warmup} is longer than the run of steps = {self.steps}")
        if self.nano.tokenizer == "word":
            raise ValueError('nano.tokenizer = "word" cannot write a name that it has not seen; use "bpe-digits"')
        return self

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (1 - (1 - self.final_lr) * done)


MAY_CHANGE = (
    "out",
    "resume",
    "eval",
    "checkpoint_every",
    "keep_checkpoints",
    "device",
    "threads",
    "progress",
    "tracking",
    "microbatch_tokens",
)
"""Settings that a resumed run may change: they affect results only in the last digits."""
