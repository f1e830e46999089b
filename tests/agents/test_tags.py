"""Text between tags: what a regular expression alone would find, but in a time that grows with the text alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.tags import apart, inside, without

PAIR = re.compile("<t>(.*?)</t>", re.DOTALL)
written = st.lists(st.sampled_from(["<t>", "</t>", "<t", "t>", "a", "\n", "<u>"]), max_size=12).map("".join)


@given(written)
def test_it_is_what_the_expression_alone_finds(text: str) -> None:
    assert apart(text, "t") == PAIR.split(text)
    assert inside(text, "t") == PAIR.findall(text)
    assert without(text, "t") == PAIR.sub("", text)


@pytest.mark.timeout(20)
def test_what_is_never_closed_costs_no_more_than_its_length() -> None:
    text = "a</t>" + "<t>" * 300_000  # hours, if each were followed to the end
    assert without(text, "t") == text
    assert inside(text, "t") == []
