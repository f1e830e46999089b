"""Hostile inputs for MiniWoB pages: every key and mouse button everywhere, extreme texts, and buttons held down."""

from __future__ import annotations

from collections.abc import Sequence

from ..messages import ActionLike
from ..web.attacks import KEYS, VALUES, call, in_messages, on_elements

SCRIPTS = ("javascript:core.endEpisode(1,false)", "<img src=x onerror=window.close()>", "document.write('')", "{{7*7}}")
"""Texts that a page may take for code."""


def attacks_on(ids: Sequence[str]) -> dict[str, Sequence[ActionLike]]:
    """Return ways to break an episode, by name.

    Args:
        ids: ids of the page's elements.
    """
    some, far = ids[:: max(1, len(ids) // 12)], (-100_000, -1, 0, 80, 160, 100_000)
    points = [{"x": x, "y": y} for x in far for y in far]
    plays = on_elements(list(some))
    del plays["chooses thousands of options"]
    plays |= {
        f"fills everything with {name}": [call("fill", id=id, value=value) for id in some]
        for name, value in VALUES.items()
    }
    plays |= {
        "clicks beyond everything": [call("mouse_click", **point) for point in points],
        "moves beyond everything": [call("mouse_move", **point) for point in points],
        "drags beyond everything": [
            call("mouse_drag_and_drop", from_x=point["x"], from_y=point["y"], to_x=80, to_y=100) for point in points
        ],
        "scrolls beyond everything": [call("scroll", delta_x=x, delta_y=y) for x in far for y in far],
        "holds the mouse down": [
            *[call("mouse_down")] * 20, call("mouse_click", x=80, y=100), call("mouse_move", x=0, y=0),
        ],
        "lets go of what it does not hold": [call("mouse_up")] * 20,
        "holds the mouse down and types": [
            call("mouse_move", x=80, y=100), call("mouse_down"), *(call("keyboard_press", key=key) for key in KEYS),
        ],
        "drags without end": [call("mouse_drag_and_drop", from_x=5, from_y=5, to_x=150, to_y=200)] * 60,
        "clicks without end": [call("mouse_click", x=80, y=30 + 5 * i) for i in range(36)] * 2,
        "presses without end": [call("keyboard_press", key=key) for key in ("Tab", "Enter") * 30],
        "loads the page again": [call("keyboard_press", key=key) for key in ("F5", "Control+r", "Alt+ArrowLeft")],
        "opens other pages": [call(how) for how in ("go_back", "go_forward", "new_tab", "tab_close")]
        + [call("goto", url=url) for url in ("about:blank", "chrome://crash", "javascript:while(1){}", "data:,x")],
        "types scripts": [
            one for text in SCRIPTS for id in some[::3]
            for one in (call("focus", id=id), call("keyboard_type", text=text))
        ],
        "types a book": [call("keyboard_type", text="x\n" * 10_000)] * 3,
        "chooses what is not there": [call("select_option", id=id, options=["x"] * 5_000) for id in some],
        "waits as long as it can": [call("noop", wait_ms=5_000)] * 16,
    }  # fmt: skip
    return {name: in_messages(calls) for name, calls in plays.items()}
