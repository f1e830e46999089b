"""Keys, by their names in browsers (UI Events ``code`` values of a US keyboard), and combinations."""

from __future__ import annotations

import string

from ...errors import ToolError

SIGNS = {
    "Space": " ", "Minus": "-", "Equal": "=", "Backslash": "\\", "Backquote": "`", "BracketLeft": "[",
    "BracketRight": "]", "Semicolon": ";", "Quote": "'", "Comma": ",", "Period": ".", "Slash": "/",
    **{f"Key{letter}": letter.lower() for letter in string.ascii_uppercase},
    **{f"Digit{digit}": digit for digit in string.digits},
    "\n": "Enter", "\r": "Enter", "NumpadEnter": "Enter",
}  # fmt: skip
"""Characters that keys type, by the names of the keys."""
NAMES = frozenset((
    "Escape", "Tab", "Enter", "Backspace", "Delete", "Insert", "Home", "End", "PageUp", "PageDown", "ArrowLeft",
    "ArrowUp", "ArrowRight", "ArrowDown", "CapsLock", "NumLock", "ScrollLock", "Pause", "PrintScreen", "ContextMenu",
    "Shift", "ShiftLeft", "ShiftRight", "Control", "ControlLeft", "ControlRight", "ControlOrMeta", "Alt", "AltLeft",
    "AltRight", "AltGraph", "Meta", "MetaLeft", "MetaRight", "NumpadDivide", "NumpadMultiply", "NumpadSubtract",
    "NumpadAdd", "NumpadDecimal", "AudioVolumeMute", "AudioVolumeDown", "AudioVolumeUp", "MediaTrackNext",
    "MediaTrackPrevious", "MediaPlayPause",
    *(f"F{number}" for number in range(1, 13)), *(f"Numpad{digit}" for digit in string.digits),
))  # fmt: skip
"""Names of keys that type nothing."""
LETTERS = frozenset(string.ascii_letters + string.digits + string.punctuation + " ")


def pressed(keys: str) -> str:
    """Return the character that a key types, or the name of a key that types none; a combination stays as it is.

    Args:
        keys: a key or combination, such as ``Enter``, ``a``, ``KeyA`` or ``Control+a``.

    Raises:
        ToolError: the key is unknown.
    """
    parts = _parts(keys)
    if any(part not in LETTERS and part not in NAMES and part not in SIGNS for part in parts):
        raise ToolError("unknown key; use names such as Enter, Tab, ArrowDown, a or Control+a")
    return SIGNS.get(keys, keys)


def _parts(keys: str) -> list[str]:
    """Split a combination into its keys; a plus sign after another one is a key itself."""
    parts = [""]
    for letter in keys:
        if letter == "+" and parts[-1]:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
