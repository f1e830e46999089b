"""Memory of a GPU that learns: bytes by purpose, at the moments of a step that need most.

Bytes of activations are exact for the layers of transformers that ``benchmarks/saved_bytes.py`` measured: a sum over
the widths of a layer, with a coefficient for each. What a GPU adds, such as work space, is an allowance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..learning.head_logprobs import CHUNK_ON_GPU
from .shapes import ModelShape
from .workload import Passes, Workload

GIB = 2**30
CONTEXT_BYTES = int(0.8 * GIB)
"""A CUDA context and the libraries' work space."""
SLACK = 1.05
"""Factor for memory that the allocator holds and cannot use: a guess."""
SCRATCH = 3 * (1 << 26)
"""Temporary arrays of a chunk of the softmax of whole logits: see ``token_logprobs.CHUNK``."""
MOMENTS = 8
"""Bytes of AdamW's two moments per trained weight, in 32 bits."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes that a layer keeps per token for its gradient: a coefficient for each of its widths.

    Args:
        hidden: times the width of the residual stream.
        heads: times the widths of queries and of keys, without norms of heads.
        norms: the same in addition, with norms of heads.
        intermediate: times the width inside the MLP.
        rank: times the rank of adapters.
        attended: bytes of one number in attention.
        queries_more: more times the width of queries, where adapters read the output of attention once more.
    """

    hidden: int
    heads: int
    norms: int
    intermediate: int
    rank: int
    attended: int
    queries_more: int = 0

    def layer(self, shape: ModelShape, *, rank: int = 0, masked: int = 0) -> int:
        """Return bytes per token and layer.

        Args:
            shape: shape of the model.
            rank: rank of its adapters.
            masked: length of sequences with a mask; 0 without a mask.
        """
        wide = shape.queries + shape.keys
        found = self.hidden * shape.hidden + self.heads * wide + self.queries_more * shape.queries
        found += self.intermediate * shape.intermediate + self.rank * rank + 4 * shape.heads + 8
        if shape.head_norms:
            found += self.norms * wide + 4 * (shape.heads + shape.kv_heads)
        if masked:  # keys and values are repeated for each head, and the mask becomes numbers
            found += self.attended * (2 * (shape.queries - shape.keys) + masked)
        return found


FULL32, FULL16 = Saved(24, 8, 8, 16, 0, 4), Saved(26, 4, 6, 8, 0, 2)
ADAPTED16, ADAPTED = Saved(18, 4, 4, 8, 14, 2, 2), Saved(16, 8, 4, 16, 28, 4)
ADAPTED_COPIES = Saved(28, 4, 4, 10, 28, 2, 4)
SAVED: Mapping[tuple[bool, int, bool], Saved] = {
    (False, 4, False): FULL32,
    (False, 4, True): FULL16,
    (True, 2, True): ADAPTED16,
    (True, 4, True): ADAPTED16,
    (True, 4, False): ADAPTED,
    (True, 2, False): ADAPTED_COPIES,  # bfloat16 without autocast: adapters copy their input to 32 bits
}
"""Coefficients by adapters, bytes of a weight, and autocast; ``benchmarks/saved_bytes.py`` prints them."""
COMPILED16 = Saved(12, 4, 2, 6, 0, 2)
"""Layers as compiled code: the residual stream in 32 bits, and the inputs of products and attention in 16. Two shapes
of updates on an H200 kept 0.94 times as much (docs/hardware.md)."""


def layer_bytes(passes: Passes, *, masked: int = 0) -> int:
    """Return the bytes that a layer keeps per token for its gradient.

    Args:
        passes: how the model is trained; compiled layers count as plain ones where no GPU has measured them.
        masked: length of sequences with a mask; 0 without a mask.
    """
    kept = COMPILED16 if passes.fused else SAVED[passes.rank is not None, passes.width, passes.autocast]
    return kept.layer(passes.shape, rank=passes.rank or 0, masked=masked)


def saved_bytes(passes: Passes, tokens: int) -> int:
    """Return the bytes that a forward pass of the backbone keeps for the backward pass, without the weights.

    Args:
        passes: how the model is trained.
        tokens: tokens of the pass.
    """
    shape, adapted = passes.shape, passes.rank is not None
    length = passes.row_tokens if passes.masked else 0
    one = layer_bytes(passes, masked=length)
    casts = 2 * shape.block_matrices if passes.autocast and passes.width == 4 else 0
    casts += 2 * shape.adapters(passes.rank or 0) // shape.layers if passes.autocast else 0
    if passes.recompute:  # the inputs of all layers, and the inside of the one whose gradient is computed
        return tokens * (shape.layers * passes.width * shape.hidden + one + 8 * shape.hidden) + casts
    outside = 8 * shape.head_dim + (0 if adapted else 8 * shape.hidden + 12)
    return tokens * (shape.layers * one + outside) + shape.layers * casts


def saved_logits(passes: Passes, tokens: int) -> int:
    """Return the bytes that the output layer keeps for the backward pass.

    Whole logits: these, and the layer's copy in 16 bits. By chunks: its inputs, and three numbers per sampled token.
    """
    if passes.chunked and passes.judged:
        return int(passes.judged * tokens) * (passes.width * passes.shape.hidden + 12)
    # Rows beside one another need the logits of every column in which one of them has a sampled token.
    share = passes.judged if passes.packed or tokens <= passes.row_tokens else 1.0
    width = 2 if passes.autocast or passes.width == 2 else 4
    head = 2 * passes.shape.embedding if passes.autocast and passes.width == 4 else 0
    return int(share * tokens * passes.shape.vocabulary * width) + head if passes.judged else 0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one GPU that learns.

    Args:
        always: held all the time, by what for.
        moments: held at one moment of a step each, by moment and what for.
        loading: bytes while the model is loaded and sharded.
        host: bytes of the machine's own memory for loading, transfers of weights and checkpoints.
        room: bytes of the GPU.
    """

    always: Mapping[str, int]
    moments: Mapping[str, Mapping[str, int]]
    loading: int
    host: int
    room: int

    @property
    def worst(self) -> str:
        """The moment that needs most."""
        return max(self.moments, key=lambda moment: sum(self.moments[moment].values()))

    @property
    def peak(self) -> int:
        """The largest need of any moment, with the allocator's slack."""
        engine, always = self.always.get("vLLM", 0), sum(self.always.values())
        held = []
        for moment in self.moments.values():
            fixed = engine + moment.get("vLLM", 0)  # vLLM takes all of its share, and no more
            held.append(SLACK * (always + sum(moment.values()) - fixed) + fixed)
        return int(max(*held, self.loading + CONTEXT_BYTES + engine))

    @property
    def least(self) -> int:
        """A need that no setting of the micro-batches changes: weights, optimizer and gradients."""
        return sum(self.always.values()) + max(moment.get("gradients", 0) for moment in self.moments.values())

    @property
    def fits(self) -> bool:
        """Whether there is room for it."""
        return self.peak <= self.room


def memory_of(load: Workload) -> Memory:
    """Return the memory of a workload on each GPU that learns."""
    policy, critic, learners, shards = load.policy, load.critic, load.learners, load.shards
    here = 0 if load.offload and learners > 1 else 1  # offloaded shards are in the machine's own memory
    shape, adapters = policy.shape, 0 if policy.rank is None else policy.trained
    whole = policy.width * shape.weights + 4 * adapters
    always = {
        "CUDA": CONTEXT_BYTES,
        "weights": here * whole // shards,
        "optimizer": here * load.moments * policy.trained // shards,
    }
    outside = shape.weights - shape.layers * shape.block
    if learners > 1:  # FSDP2 gathers two blocks at a time, and what stands outside of blocks
        always["gathered weights"] = policy.width * (outside + 2 * shape.block)
    if load.reference:
        always["reference"] = policy.width * shape.weights // learners
    if load.sampler.kind == "copy":
        always["copy for sampling"] = whole
    engine: dict[str, int] = {}
    if load.sampler.kind == "engine" or (load.sampler.kind == "servers" and not load.sampling_gpus):
        each = -(-max(1, load.sampler.replicas) // load.gpus)
        engine = {"vLLM": int(each * load.sampler.share * load.gpu.gib * GIB)}
    if not load.sampler.sleeps:
        always |= engine
    divided = learners if critic is not None and critic.rank is None else 1  # every process has whole adapters
    if critic is not None:
        base = 0 if critic.rank is not None else critic.width * critic.trained
        each = MOMENTS + 4 * (critic.rank is not None) + 4 * load.critic_copies
        always["critic"] = (base + each * critic.trained) // divided
    gradients = {"gradients": here * 4 * policy.trained // shards}
    moments = {
        "learn": {**gradients, **_inside(policy)},
        "optimizer step": {**gradients, "temporary": 0 if load.fused else here * 4 * policy.trained // shards},
        "play": {**_played(load), **(engine if load.sampler.sleeps else {})},
    }
    if critic is not None:
        moments["critic"] = {"gradients": 4 * critic.trained // divided, **_inside(critic)}
    host, loading = whole + 2 * 4 * policy.trained, whole
    if learners > 1:  # process 0 alone reads all of the model, and GPUs get it block by block
        host, loading = whole, whole // shards + policy.width * max(outside, shape.block)
        host += 0 if here else learners // shards * (whole + (load.moments + 4) * policy.trained)
    return Memory(always, moments, loading, host, int(load.gpu.gib * GIB))


def _inside(passes: Passes) -> dict[str, int]:
    """Return what a forward and backward pass needs."""
    return {
        "activations": saved_bytes(passes, passes.tokens),
        "logits and their gradient": _logits(passes) if passes.judged else 0,
        "work space": 4 * passes.tokens * (2 * passes.shape.hidden + passes.shape.intermediate),
    }


def _logits(passes: Passes) -> int:
    """Return what the output layer needs in the backward pass.

    By chunks: one chunk of logits, which becomes its own gradient; the weights in 16 bits; and, where they learn, their
    gradient in 32 bits with the product that is added to it.
    """
    saved = saved_logits(passes, passes.tokens)
    if not passes.chunked:
        return 2 * saved + SCRATCH
    width = 2 if passes.autocast else passes.width
    weights = passes.shape.embedding * (width if width < passes.width else 0)
    gradient = passes.shape.embedding * (4 + width) if passes.rank is None else 0
    return saved + width * CHUNK_ON_GPU + weights + gradient


def _played(load: Workload) -> dict[str, int]:
    """Return what sampling in the learner's process needs."""
    if load.sampler.kind not in ("model", "copy"):
        return {"keys and values": 0}
    policy, sampler = load.policy, load.sampler
    cache = sampler.rows * sampler.context * policy.shape.cached(policy.width)
    return {"keys and values": cache, "logits": 4 * sampler.rows * policy.shape.vocabulary}
