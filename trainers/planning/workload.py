"""One step of a run in numbers: the input of all estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...inference.hardware import Gpu
from ..learning.logprobs import LARGE, Logits
from .shapes import ModelShape

SamplerKind = Literal["model", "copy", "engine", "servers", "none"]


@dataclass(frozen=True, slots=True)
class Passes:
    """The reading and training of a model in one step.

    Args:
        shape: shape of the model.
        width: bytes of a weight: 4, or 2 in bfloat16.
        rank: rank of its adapters; ``None`` if all weights are trained.
        autocast: whether matrix products are in bfloat16.
        recompute: whether layers keep only their input.
        packed: whether rows share one sequence.
        microbatch_tokens: tokens in one forward pass.
        row_tokens: tokens of the longest row.
        rows: rows of a step.
        learned: forward and backward passes over them.
        scored: forward passes over them without gradient.
        judged: share of the tokens that need logits; 0 for a critic.
        tf32: whether 32-bit products are in TF32.
        logits: whether logits exist as a whole, as in ``logprobs.Logits``.
        masked: whether attention takes a mask of all pairs of a row's tokens, as for trees of utterances.
        compiled: whether layers run as compiled code.
    """

    shape: ModelShape
    width: int
    rank: int | None
    autocast: bool
    recompute: bool
    packed: bool
    microbatch_tokens: int
    row_tokens: int
    rows: int
    learned: float
    scored: float
    judged: float
    tf32: bool = False
    logits: Logits = "auto"
    masked: bool = False
    compiled: bool = False

    @property
    def fused(self) -> bool:
        """Whether layers are compiled in the way that was fitted: all weights in 32 bits, under autocast."""
        return self.compiled and self.autocast and self.rank is None and self.width == 4

    @property
    def chunked(self) -> bool:
        """Whether logits are computed for some tokens at a time."""
        return self.logits == "chunked" or (self.logits == "auto" and self.shape.vocabulary >= LARGE)

    @property
    def tokens(self) -> int:
        """Tokens of the largest forward pass; a row is never divided."""
        return max(self.microbatch_tokens // self.row_tokens, 1) * self.row_tokens

    @property
    def trained(self) -> int:
        """Number of trained weights."""
        return self.shape.weights if self.rank is None else self.shape.adapters(self.rank)

    @property
    def read(self) -> int:
        """Tokens of a step, each counted once."""
        return self.rows * self.row_tokens


@dataclass(frozen=True, slots=True)
class Sampler:
    """The sampling of episodes.

    Args:
        kind: the learner's own model, a copy of it, vLLM's engine beside the learner, servers, or nothing.
        replicas: number of servers.
        share: share of a GPU's memory for an engine or server.
        rows: requests that are decoded together.
        context: longest prompt plus action, in tokens.
        eager: whether it works without CUDA graphs.
        sampled: tokens to sample in a step.
        prompted: tokens to read in a step, where prefixes are cached.
        sleeps: whether servers free their memory while the learner learns.
    """

    kind: SamplerKind
    replicas: int
    share: float
    rows: int
    context: int
    eager: bool
    sampled: int
    prompted: int
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """One step of a run on some GPUs.

    Args:
        name: name for people.
        gpu: kind of the GPUs.
        gpus: number of GPUs.
        policy: reading and training of the policy.
        sampler: its sampling.
        episodes: episodes of a step.
        critic: reading and training of a critic, if it is as large as the policy.
        critic_copies: slow copies of the critic's trained weights.
        reference: whether a frozen copy of the policy is kept.
        sent: bytes of a weight on the way to servers.
        whole: whether all weights are sent, and not adapters alone.
        by_nccl: whether weights go from GPU to GPU.
        transfers: transfers of weights in a step.
        alone: whether only one process can learn.
        steps: steps of the run.
        replicas: complete copies of the sharded model.
        moments: bytes of the optimizer's moments per trained weight.
        fused: whether an update needs no temporary copy of the weights.
        offload: whether weights, gradients and optimizer are in the machine's own memory.
    """

    name: str
    gpu: Gpu
    gpus: int
    policy: Passes
    sampler: Sampler
    episodes: int
    critic: Passes | None = None
    critic_copies: int = 0
    reference: bool = False
    sent: int = 2
    whole: bool = True
    by_nccl: bool = False
    transfers: int = 1
    alone: bool = False
    steps: int = 1
    replicas: int = 1
    moments: int = 8
    fused: bool = False
    offload: bool = False

    @property
    def shards(self) -> int:
        """GPUs that share one copy of the model."""
        return max(1, self.learners // self.replicas)

    @property
    def sampling_gpus(self) -> int:
        """GPUs for servers alone; 0 where they share the learner's."""
        return self.sampler.replicas if self.sampler.kind == "servers" and self.gpus > self.sampler.replicas else 0

    @property
    def learners(self) -> int:
        """GPUs that learn, one process on each."""
        return self.gpus - self.sampling_gpus
