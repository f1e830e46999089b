"""Every template of the search family."""

from __future__ import annotations

from ..templates import combined, simple, timely

TEMPLATES = {one.name: one for one in (*simple.TEMPLATES, *combined.TEMPLATES, *timely.TEMPLATES)}
"""All templates by name."""
