"""The load of a vLLM server, from the text of its ``/metrics``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from ..server import ServerLoad

NAMES: Mapping[str, str] = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "cache_use": "vllm:kv_cache_usage_perc",
    "queried": "vllm:prefix_cache_queries_total",
    "found": "vllm:prefix_cache_hits_total",
}
"""Metrics of vLLM 0.26 to 0.32, with one line for each of a server's engines."""


def read_load(metrics: object) -> ServerLoad | None:
    """Return the load in an answer of ``/metrics``; ``None`` from a server that does not count.

    Args:
        metrics: the answer, in the text format of Prometheus.
    """
    values = {name: _values(word, str(metrics)) for name, word in NAMES.items()}
    if not all(values.values()):
        return None
    sums = {name: sum(found) for name, found in values.items()}
    sums["cache_use"] /= len(values["cache_use"])
    return ServerLoad(**sums)


def _values(name: str, metrics: str) -> list[float]:
    """Return the values of a metric, all of them finite and none negative; otherwise nothing."""
    try:
        found = [float(word) for word in re.findall(rf"^{name}(?:\{{[^\n]*\}})?[ \t]+(\S+)", metrics, re.MULTILINE)]
    except ValueError:
        return []
    return found if all(0 <= value < math.inf for value in found) else []
