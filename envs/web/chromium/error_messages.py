"""Explanations of Playwright's errors for the agent."""

from __future__ import annotations

import re

REASONS = (
    (r"intercepts pointer events", "something else covers this element"),
    (r"element is not enabled", "this element is disabled"),
    (r"element is not visible|element is hidden", "this element is not visible"),
    (r"element is not editable", "this field cannot be changed"),
    (r"outside of the viewport", "this element is outside the window and cannot be scrolled into view"),
    (
        r"not attached to the DOM|No element|Element is not attached",
        "the page has changed and no longer has this element",
    ),
    (r"Cannot type text into input\[type=number\]", "this field takes a number"),
    (r"Malformed value", "this field takes a value in another format, such as 2024-03-09 for a date"),
    (r"Element is not an <input>|cannot be filled", "this element does not accept text"),
    (r"Not a checkbox or radio", "this element is not a checkbox or radio button"),
    (r"Cannot uncheck radio", "a radio button cannot be unchecked; select another one instead"),
    (r"did not change its state", "the page reversed this change"),
    (r"Element is not a <select>", "this element is not a list of options"),
    (r"Unknown key", "unknown key; use names such as Enter, Tab, ArrowDown, a or Control+a"),
    (r"ERR_SSL_PROTOCOL_ERROR", "no answer over https; the sites are at http://"),
    (r"element is not stable", "this element keeps moving"),
)
GONE = re.compile(r"has been closed|Target closed|Connection closed|crashed|Browser closed|was detached")
WAITED = re.compile(r"Timeout \d+m?s exceeded")


def reason(text: str) -> str | None:
    """Return why an action failed; ``None`` if the agent did not cause it.

    Args:
        text: Playwright's error message, with its log.
    """
    for pattern, words in REASONS:
        if re.search(pattern, text):
            return words
    if WAITED.search(text):
        # Playwright waited for the element and never found it: the page has lost it, and the machine is not slow.
        only_waited = "waiting for locator" in text and "locator resolved" not in text
        return "the page has changed and no longer has this element" if only_waited else None
    return "this did not work: " + " ".join(text.split("Call log:")[0].split())[:200]
