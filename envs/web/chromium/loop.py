"""One event loop, on one thread that lives as long as the process, for Chromium and the server of its pages.

Environments are used from any event loop, or without one, but Playwright's objects belong to one loop.
"""

from __future__ import annotations

from ....loop_thread import LoopThread

LOOP = LoopThread("turnwise-chromium", "browsers")
