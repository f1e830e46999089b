"""The clone that a run started from: learners are compared in pairs of one seed, and a clone can be trained twice.

A clone that is not on a machine is trained there again. The same settings give other weights on another kind of
processor, so runs of one seed on two machines may start from two clones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from study_config import Study
from study_episodes import compared
from study_rows import Row

WEIGHTS, CLONE = "weights", "clone"
"""Names in a line of results: digest of the weights of a model that others start from, and of the one started from."""
APART = (
    "Pairs of one seed whose runs started from two clones, trained apart on two machines: both are fair, but they are "
    "not one start. Older lines do not name their clone. Of them, those count here whose evaluations before the first "
    "episode differ, and there may be more:"
)
"""Text before the list of pairs."""


def weights_digest(model: Path) -> str | None:
    """Return twelve hex digits of a model's weights; ``None`` if there are none."""
    files = sorted(model.glob("*.safetensors"))
    found = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return found.hexdigest()[:12] if files else None


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the runs of two lines are known to have started from different weights."""
    clones = one.get(CLONE), other.get(CLONE)
    if None not in clones:
        return clones[0] != clones[1]
    first = [line["curve"][0] for line in (one, other) if line.get("curve")]
    return len(first) == 2 and first[0][0] == first[1][0] == 0 and first[0][1] != first[1][1]


def apart_list(study: Study, rows: Sequence[Row]) -> list[str]:
    """List the comparisons with pairs that did not start from one clone, and how many such pairs are known."""
    by_name = {row.name: {line["seed"]: line for line in row.lines} for row in rows}
    lines = []
    for slow, fast in compared(study):
        one, other = by_name.get(slow, {}), by_name.get(fast, {})
        pairs = [(one[seed], other[seed]) for seed in one.keys() & other.keys()]
        known = sum(apart(a, b) for a, b in pairs)
        if known and study[slow].after == study[fast].after is not None:
            lines.append(f"- {slow} : {fast}: {known} of {len(pairs)}")
    return lines
