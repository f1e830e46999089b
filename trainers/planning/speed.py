"""Seconds of a step: matrix products, attention, memory traffic and messages, each over a share of the GPU's peak.

The shares of learning are fitted to the updates of two trials on an H200 (docs/hardware.md); those of play and
transfer are predictions from profiles of similar code. ``calibration.py`` corrects learning by another trial.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...inference.hardware import Gpu
from .memory import GIB, layer_bytes
from .workload import Passes, Sampler, Workload

PRODUCTS, ATTENTION, MASKED, MEMORY = 0.53, 0.65, 0.07, 0.75
"""Shares of the peak in matrix products, in attention without and with a mask, and in memory traffic."""
TF32, FLOAT32 = 0.5, 0.07
"""Speed of 32-bit matrix products relative to bfloat16, in TF32 and in full precision."""
TRAFFIC, TRAFFIC_FORWARD = 24.0, 4.5
"""Memory traffic between matrix products, in units of the bytes that are saved for the gradient."""
FUSED, FUSED_FORWARD = 10.0, 2.0
"""The same in compiled layers, which also save less."""
SOFTMAX, SOFTMAX_FORWARD = 36.0, 12.0
"""Memory traffic of the softmax of whole logits, in units of the logits in 32 bits."""
CHUNKS, CHUNKS_FORWARD = 3.5, 1.0
"""The same by chunks of 16 bits: each is written and read once, and again with its gradient in the backward pass."""
GRAPHS, EAGER, PYTHON = 2e-3, 4e-4, 9e-4
"""Seconds of a decoding step that do not depend on the GPU: with CUDA graphs; without, per layer; in transformers."""
DISK, INSIDE, NCCL = 0.6e9, 5e9, 2e10
"""Bytes of weights per second through files, within a process, and between GPUs."""
HANDSHAKE, CANARY = 0.5, 0.5
"""Seconds of one transfer of weights beside the bytes, and of one replica's canary."""


def pass_seconds(passes: Passes, gpu: Gpu, tokens: float, *, gradient: bool) -> float:
    """Return the seconds that reading some tokens takes on one GPU, in full micro-batches.

    Args:
        passes: reading and training of the model.
        gpu: the GPU.
        tokens: tokens to read, whose rows are of the longest length.
        gradient: whether gradients are computed, too.
    """
    shape = passes.shape
    speed = gpu.tflops * 1e12
    if not passes.autocast and passes.width == 4:
        speed *= TF32 if passes.tf32 else FLOAT32
    # A frozen weight has no gradient of its own: one product less of three.
    times = (3 if passes.rank is None else 2) if gradient else 1
    again = 1 if gradient and passes.recompute else 0
    blocks = 2 * shape.layers * shape.block_matrices * (times + again)
    head = 2 * shape.embedding * passes.judged * (times + (1 if gradient and passes.chunked else 0))
    attended = 2 * shape.layers * shape.queries * passes.row_tokens
    attended *= (3 if gradient else 1) + again
    both, forward = (FUSED, FUSED_FORWARD) if passes.fused else (TRAFFIC, TRAFFIC_FORWARD)
    moved = shape.layers * layer_bytes(passes) * ((both if gradient else forward) + forward * again)
    softmax = (CHUNKS, CHUNKS_FORWARD) if passes.chunked else (SOFTMAX, SOFTMAX_FORWARD)
    moved += 4 * passes.judged * shape.vocabulary * softmax[0 if gradient else 1]
    each = (blocks + head) / (PRODUCTS * speed)
    each += attended / ((MASKED if passes.masked else ATTENTION) * speed) + moved / (MEMORY * gpu.bandwidth * 1e9)
    return tokens * each


def learning_seconds(passes: Passes, gpu: Gpu, gpus: int) -> float:
    """Return the seconds in which a step's rows are scored and learned from, shared by some GPUs."""
    share = passes.read / gpus
    found = passes.learned * pass_seconds(passes, gpu, share, gradient=True)
    found += passes.scored * pass_seconds(passes, gpu, share, gradient=False)
    if gpus == 1:
        return found
    # FSDP2 gathers weights twice and sums gradients once in each micro-batch, while it computes.
    batches = share / passes.tokens * (passes.learned + passes.scored / 3)
    moved = 3 * passes.width * passes.shape.weights * (gpus - 1) / gpus * batches
    return max(found, moved / (0.7 * gpu.link * 1e9))


def sampling_seconds(load: Workload) -> float:
    """Return the seconds in which a step's tokens are sampled."""
    sampler, gpu, shape = load.sampler, load.gpu, load.policy.shape
    if sampler.kind == "none" or not sampler.sampled:
        return 0.0
    if sampler.kind in ("model", "copy"):
        rows = max(1, min(sampler.rows, load.episodes))
        read = pass_seconds(load.policy, gpu, sampler.prompted, gradient=False)
        return sampler.sampled / rows * PYTHON * shape.layers + read
    rows = running_rows(load)
    cached = rows * load.policy.row_tokens / 2 * shape.cached()
    fixed = EAGER * shape.layers if sampler.eager else GRAPHS
    step = fixed + (2 * shape.weights + cached) / (MEMORY * gpu.bandwidth * 1e9)
    read = sampler.prompted * 2 * shape.weights / (0.8 * PRODUCTS * gpu.tflops * 1e12)
    return (sampler.sampled / rows * step + read) / max(1, sampler.replicas)


def running_rows(load: Workload) -> int:
    """Return the number of requests that one replica decodes together: as many as its cache holds, and asked of it."""
    sampler = load.sampler
    room = cache_bytes(sampler, load) / (load.policy.row_tokens * load.policy.shape.cached())
    return max(1, min(int(room), sampler.rows, -(-load.episodes // max(1, sampler.replicas))))


def cache_bytes(sampler: Sampler, load: Workload) -> float:
    """Return vLLM's bytes for keys and values: its share, less the weights and 3 GiB of activations and graphs."""
    return max(0.0, (sampler.share * load.gpu.gib - 3) * GIB - 2 * load.policy.shape.weights)


def transfer_seconds(load: Workload) -> float:
    """Return the seconds of all transfers of weights in a step."""
    sampler, policy = load.sampler, load.policy
    sent = load.sent * policy.shape.weights if load.whole else 4 * policy.trained
    if sampler.kind == "none" or sampler.kind == "model":
        return 0.0
    if sampler.kind == "copy":
        return load.transfers * sent / INSIDE
    rate = INSIDE if sampler.kind == "engine" else NCCL if load.by_nccl else DISK
    gathered = 4 * policy.shape.weights / INSIDE if load.learners > 1 else 0.0
    return load.transfers * (HANDSHAKE + gathered + sent / rate + CANARY * max(1, sampler.replicas))


def seconds_of(load: Workload) -> Mapping[str, float]:
    """Return the seconds of a step by what they are for."""
    found = {"play": sampling_seconds(load), "learn": learning_seconds(load.policy, load.gpu, load.learners)}
    if load.critic is not None:
        found["critic"] = learning_seconds(load.critic, load.gpu, load.learners)
    return {**found, "sync": transfer_seconds(load)}
