"""What Playwright says went wrong, in words for an agent."""

from __future__ import annotations

import re

REASONS = (
    (r"intercepts pointer events", "something else covers this element"),
    (r"element is not enabled", "this is disabled"),
    (r"element is not visible|element is hidden", "this cannot be seen"),
    (r"element is not editable", "this field cannot be changed"),
    (r"outside of the viewport", "this is outside of the window and cannot be scrolled to"),
    (
        r"not attached to the DOM|No element|Element is not attached",
        "the page has changed and no longer has this element",
    ),
    (r"Cannot type text into input\[type=number\]", "this field takes a number"),
    (r"Malformed value", "this field takes a value of another form, such as 2024-03-09 for a day"),
    (r"Element is not an <input>|cannot be filled", "nothing can be written into this"),
    (r"Not a checkbox or radio", "this is not a checkbox or a radio button"),
    (r"Cannot uncheck radio", "a radio button is cleared by setting another one"),
    (r"did not change its state", "the page set this back"),
    (r"Element is not a <select>", "this is not a list of options"),
    (r"Unknown key", "there is no such key; keys are called Enter, Tab, ArrowDown, a or Control+a"),
    (r"ERR_SSL_PROTOCOL_ERROR", "this is not answered: the sites are at http://"),
    (r"element is not stable", "this does not hold still"),
)
GONE = re.compile(r"has been closed|Target closed|Connection closed|crashed|Browser closed|was detached")
WAITED = re.compile(r"Timeout \d+m?s exceeded")


def reason(text: str) -> str | None:
    """Why an act could not be done; ``None`` if that is not the agent's doing.

    Args:
        text: of Playwright's error, with its log.
    """
    for pattern, words in REASONS:
        if re.search(pattern, text):
            return words
    if WAITED.search(text):
        # The element was waited for and never found: not the machine is slow, but the element is gone.
        only_waited = "waiting for locator" in text and "locator resolved" not in text
        return "the page has changed and no longer has this element" if only_waited else None
    return "this did not work: " + " ".join(text.split("Call log:")[0].split())[:200]
