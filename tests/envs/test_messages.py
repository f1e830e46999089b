"""Messages: what an author or an agent hands over becomes what the other side reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs.messages import clip
from turnwise.errors import UnparseableError


def test_text_becomes_one_user_message() -> None:
    assert tw.Observation.of("hello") == tw.Observation((tw.message("user", "hello"),))


def test_messages_may_come_one_by_one_in_a_list_or_from_a_generator() -> None:
    one, two = tw.message("system", "a"), tw.message("user", "b")
    assert tw.Observation.of(one).messages == (one,)
    assert tw.Observation.of([one, two]).messages == (one, two)
    given: Any = (message for message in (one, two))
    assert tw.Observation.of(given).messages == (one, two)
    assert tw.Observation.of(tw.Observation((one,))).messages == (one,)
    assert tw.Observation.of([one, two]).text == "a\nb"


@pytest.mark.parametrize("content", [None, 3, ["text"], {"role": "user"}, b"bytes"])
def test_anything_else_is_no_observation(content: Any) -> None:
    with pytest.raises(TypeError, match=f"got {type(content).__name__}"):
        tw.Observation.of(content)


def test_an_action_is_text_a_call_or_itself() -> None:
    call = tw.ToolCall("look", {"at": 1})
    assert tw.Action.of("go").text == "go"
    assert tw.Action.of(call).tool_calls == (call,)
    assert tw.Action.of(call).message == tw.Message("assistant", (), (call,))
    action = tw.Action("both", (call,))
    assert tw.Action.of(action) is action
    assert action.message.text == "both"
    bad: Any = 3
    with pytest.raises(TypeError, match="got an int, 3"):
        tw.Action.of(bad)


def test_an_action_is_never_compared_with_text() -> None:
    """It was unequal to any, so that an environment which did so was solved by nothing."""
    with pytest.raises(TypeError, match=r"write action\.text == 'left', or action\.word\(\)"):
        bool(tw.Action("left") == "left")
    with pytest.raises(TypeError, match="an Action is not text"):
        bool(tw.Action("left") in ("right", "left"))
    call = tw.Action.of(tw.ToolCall("go", {"n": 1}))
    assert call == tw.Action.of(tw.ToolCall("go", {"n": 1}))
    assert call not in [tw.Action("go"), tw.Action(problem="go"), None, 3]
    assert len({tw.Action("a"), tw.Action("a"), tw.Action("b")}) == 2, "and equal ones have one hash"


def test_text_is_replaced_and_images_stay() -> None:
    picture = tw.ImagePart(b"x")
    message = tw.Message("tool", (tw.TextPart("a"), picture, tw.TextPart("b")), name="n", tool_call_id="1")
    assert message.text == "ab"
    replaced = message.with_text("c")
    assert replaced.parts == (tw.TextPart("c"), picture)
    assert (replaced.name, replaced.tool_call_id) == ("n", "1")


@given(st.integers(-(10**17), 10**17), st.sampled_from(["{}", "I say {}.", "{} !", "guess: {}", "<a>{}</a>"]))
def test_the_only_integer_is_found(number: int, template: str) -> None:
    assert tw.Action(template.format(number)).integer() == number


@pytest.mark.parametrize("text", ["", "none", "3 or 4", "1.5", "1e5", "1,000", "x3y", "9" * 5000, "3 3"])
def test_no_integer_or_several_cannot_be_read(text: str) -> None:
    with pytest.raises(UnparseableError, match="one whole number") as error:
        tw.Action(text).integer()
    assert len(str(error.value)) < 200, "what is quoted back is short"


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (tw.Action(text).integer, tw.Action(text).word, lambda: tw.Action(text).choice(["yes", "No"])):
        refused = ""
        try:
            assert isinstance(read(), int | str)
        except UnparseableError as error:
            refused = str(error)
        assert len(refused) < 300, "what is quoted back is short"


def test_words_and_choices_ignore_case_and_space() -> None:
    assert tw.Action("  LEFT \n").word() == "left"
    assert tw.Action(" no ").choice(["Yes", "No"]) == "No"
    with pytest.raises(UnparseableError, match="Answer with one of: Yes, No; got 'maybe'"):
        tw.Action("maybe").choice(["Yes", "No"])
    with pytest.raises(UnparseableError, match="empty"):
        tw.Action("  ").word()


@given(st.text(max_size=300), st.integers(1, 100))
def test_a_quotation_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    quoted = clip(text, limit)
    assert len(quoted) <= limit
    assert quoted == text or (len(text) > limit and quoted.endswith("…"))
