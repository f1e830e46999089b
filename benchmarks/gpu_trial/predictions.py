"""The predictions of each measurement, made by arithmetic before any GPU was at hand; the report shows both."""

from __future__ import annotations

from collections.abc import Mapping

PREDICTIONS: Mapping[str, Mapping[str, str]] = {
    "machine": {"tflops": "798 (H100, H200)"},
    "token log-probabilities, fp32": {"value": "< 1e-5", "gradient": "< 1e-5"},
    "token log-probabilities, bf16": {"value": "< 1e-2", "gradient": "< 1e-2"},
    "sampler against scorer": {"mean": "0.04", "p99": "0.2", "max": "> 0.1"},
    "update, 8k x 2, autocast": {"tokens_per_second": "25k to 33k", "mfu": "0.16 to 0.20", "peak_gib": "48 to 53"},
    "update, 8k x 2, autocast, recompute": {"tokens_per_second": "20k to 24k", "peak_gib": "< 24"},
    "update, 8k x 2, autocast, compiled": {"tokens_per_second": "35k to 42k", "mfu": "0.22 to 0.27"},
    "update, 8k x 2, fp32": {"oom": "True (80 GB)"},
    "update, 32k x 1, autocast": {"oom": "True (80 GB)"},
    "attention, flash": {"tflops": "300"},
    "attention, cudnn": {"tflops": "500"},
    "against TRL": {"ratio": ">= 1.5"},
    "start": {"start_seconds": "<= 70"},
    "tokens/s, 64 requests, eager": {"tokens_per_second": "3k to 4k"},
    "tokens/s, 64 requests": {"tokens_per_second": "8k to 12k"},
    "LOOP, echo episodes": {"collect": "16 to 40 s", "learn": "20 to 40 s", "sync": "2 to 3 s"},
    "engine, then resume": {"resumed": "True"},
    "sleep and wake": {"freed_gib_1": "the share of vLLM less 2", "wake_seconds_2": "< 1"},
    "weights by CUDA IPC": {"send_seconds": "< 1 (1.2 GB)", "gap_mean": "0.04", "gap_p99": "0.2", "warnings": "0"},
    "weights through files": {"send_seconds": "2 to 3"},
}
"""By check and by name of the measured value."""
