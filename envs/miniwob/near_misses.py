"""Near misses of MiniWoB's tasks. There is no oracle: the pages judge themselves, and do not reveal their solutions."""

from __future__ import annotations

from collections.abc import Mapping

from ..base import NearMiss

NEAR_MISSES: Mapping[str, NearMiss] = {
    "the page told to end": ["goto('javascript:core.endEpisode(1,false)')"],
    "the page opened again": ["keyboard_press('F5')", "keyboard_press('Control+r')", "noop()"],
}
"""Ways to play that must not succeed, by name; the same on every page."""
