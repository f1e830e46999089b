"""How some MiniWoB tasks are solved, as plain data for upstream's driver and for ours; imports nothing of either.

An act is a list of words: ``click TEXT``, ``check TEXT`` (the box so labelled), ``type N TEXT`` (into the N-th field),
``focus N``, ``at X Y`` (click that point of the window, in pixels).
"""

from __future__ import annotations

import re

Act = list[str | int]
ORDINALS = {"1st": 0, "2nd": 1, "3rd": 2}


def quoted(utterance: str) -> list[str]:
    """Return the text between quotation marks."""
    return re.findall(r'"([^"]*)"', utterance)


def listed(utterance: str) -> list[str]:
    """Return the items to select: ``Select a, b and click Submit.``"""
    found = re.fullmatch(r"Select (.*) and click Submit\.", utterance)
    assert found is not None, utterance
    return [] if found[1] == "nothing" else found[1].split(", ")


def checked(labels: list[str]) -> list[Act]:
    """Check these boxes, and submit."""
    boxes: list[Act] = [["check", label] for label in labels]
    return [*boxes, ["click", "Submit"]]


def plays(task: str, utterance: str) -> dict[str, list[Act]]:
    """Return ways to play a task with this request, by name."""
    words = quoted(utterance)
    match task:
        case "click-test":
            return {"right": [["click", "Click Me!"]]}
        case "click-test-2":
            return {"right": [["click", "ONE"]], "wrong": [["click", "TWO"]]}
        case "click-button" | "click-link" | "click-dialog-2":
            return {"right": [["click", words[0]]]}
        case "click-button-sequence":
            return {
                "right": [["click", "ONE"], ["click", "TWO"]],
                "wrong": [["click", "TWO"], ["click", "ONE"]],
            }
        case "enter-text" | "enter-text-dynamic":
            return {
                "right": [["type", 0, words[0]], ["click", "Submit"]],
                "wrong": [["type", 0, words[0] + "x"], ["click", "Submit"]],
            }
        case "enter-password":
            return {
                "right": [["type", 0, words[0]], ["type", 1, words[0]], ["click", "Submit"]],
                "wrong": [["type", 0, words[0]], ["click", "Submit"]],
            }
        case "login-user":
            return {
                "right": [["type", 0, words[0]], ["type", 1, words[1]], ["click", "Login"]],
                "wrong": [["type", 0, words[1]], ["type", 1, words[0]], ["click", "Login"]],
            }
        case "focus-text":
            return {"right": [["focus", 0]]}
        case "focus-text-2":
            wanted = next(place for word, place in ORDINALS.items() if word in utterance)
            return {"right": [["focus", wanted]], "wrong": [["focus", (wanted + 1) % 3]]}
        case "click-checkboxes" | "click-option" | "click-checkboxes-large":
            return {
                "right": checked(listed(utterance)),
                "half": checked(listed(utterance)[1:]),
            }
        case "bisect-angle" | "circle-center" | "find-midpoint" | "right-angle":
            return {
                "near": [["at", 80, 125], ["click", "Submit"]],
                "far": [["at", 30, 80], ["click", "Submit"]],
            }
        case "grid-coordinate":
            return {"any": [["at", 79, 129]]}
        case "click-shades" | "click-color" | "identify-shape":
            return {"any": [["at", 49, 103]]}
    raise AssertionError(f"there is no solution for {task}; add one to this file")


PLAYED = (
    "click-test",
    "click-test-2",
    "click-button",
    "click-link",
    "click-dialog-2",
    "click-button-sequence",
    "enter-text",
    "enter-text-dynamic",
    "enter-password",
    "login-user",
    "focus-text",
    "focus-text-2",
    "click-checkboxes",
    "click-option",
    "bisect-angle",
    "circle-center",
    "find-midpoint",
    "right-angle",
    "grid-coordinate",
    "click-color",
)
SEEDS = (0, 1, 2)
EVERYWHERE = (0, 7)
"""Seeds at which every task's utterance is written down."""
