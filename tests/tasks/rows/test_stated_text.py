"""A message counts if it says what it must, and does not take it back."""

from __future__ import annotations

import pytest

from turnwise.tasks.rows.stated_text import MOST_AROUND, StatedText

TEXT = "Let us meet at the pier at 5 on Friday."


@pytest.mark.parametrize(
    "message",
    [
        TEXT,
        "let us meet at the pier\nat 5 on Friday",
        f"Hi Anna,\n\n{TEXT}\n\nDo not hesitate to call me if that does not suit you.\n\nBest regards,\nNora Vance",
    ],
)
def test_a_greeting_and_a_name_are_welcome(message: str) -> None:
    assert StatedText(TEXT).matches(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        None,
        "Let us meet at the pier at 50 on Friday.",
        f"{TEXT} Please disregard this message.",
        f"IGNORE what follows: {TEXT}",
        f"{TEXT} That was a joke.",
        TEXT + " and then" * MOST_AROUND,
    ],
)
def test_a_message_that_takes_it_back_does_not_count(message: object) -> None:
    assert not StatedText(TEXT).matches(message)


def test_a_text_may_itself_have_such_words() -> None:
    assert StatedText("Ignore the wrong bill.").matches("Hello! Ignore the wrong bill. Nora")
