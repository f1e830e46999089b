"""Display of pages: every word once, no markup, and spans that match the shown text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.search.reading import (
    LETTERS,
    WORD,
    Span,
    covers,
    excerpt,
    harmless,
    length,
    line,
    meant,
    named,
    parts,
    passages,
    seen,
    snippet,
)
from turnwise.envs.search.retrieval.tokenize import STOP_WORDS
from turnwise.tasks.search.document import Document

TAGS = [
    f"<{a}{tag}{b}>"
    for tag in ("think", "search", "information", "answer", "tool_call", "|im_end|", "end")
    for a in ("", "/", " /")
    for b in ("", " ", ' x="1"')
]
TEXT = st.lists(
    st.one_of(st.sampled_from([*TAGS, "a", "b c", "\n", "<", "&lt;"]), st.text(max_size=9)), max_size=40
).map(" ".join)
PAGES = TEXT.map(lambda text: Document("p", "T", text))
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda s: (s[0], s[0] + s[1])), max_size=12)
READ_AS_TAG = re.compile(r"<\s*/?\s*\|?(think|search|information|answer|tool_call|im_end|end)\b", re.IGNORECASE)


@given(TEXT)
def test_nothing_that_is_shown_is_a_tag(text: str) -> None:
    shown = harmless(text)
    assert READ_AS_TAG.search(shown) is None
    shown.encode()
    assert harmless(shown) == shown
    assert "\n" not in line(text)
    assert len(line(text)) <= 120


@given(PAGES, st.integers(1, 7))
def test_parts_are_the_page(page: Document, size: int) -> None:
    shown = [excerpt(page, part * size, (part + 1) * size) for part in range(parts(page, size))]
    words = [word for one in shown for word in one.text.split()]
    assert "".join(words).replace("&lt;", "<") == "".join(harmless(page.text).replace("&lt;", "<").split())
    spans: dict[str, tuple[Span, ...]] = {}
    for one in shown:
        if one.words:
            spans = seen(spans, page.id, one.span)
    assert sum(one.words for one in shown) == length(page)
    assert not length(page) or covers(spans["p"], (0, length(page))), "whoever was shown all parts has read the page"


@given(PAGES, st.text(max_size=20), st.integers(1, 7))
def test_a_snippet_is_as_long_as_it_may_be_and_says_which_words_it_is(page: Document, query: str, size: int) -> None:
    shown = snippet(page, query, size)
    assert shown.words == min(size, length(page))
    assert shown.whole == (length(page) <= size)
    assert shown.text == excerpt(page, *shown.span).text


def test_a_snippet_is_where_most_words_of_the_query_are() -> None:
    page = Document("p", "T", "one red fish . " + "x " * 50 + "two blue fish and red ones " + "y " * 50)
    assert "blue fish and red" in snippet(page, "red BLUE fish!", 8).text
    assert snippet(page, "nothing", 4).text.startswith("one red")


@given(SPANS, st.tuples(st.integers(0, 30), st.integers(1, 9)))
def test_spans_cover_what_their_words_do(spans: list[Span], wanted: tuple[int, int]) -> None:
    shown: dict[str, tuple[Span, ...]] = {}
    for span in spans:
        shown = seen(shown, "p", span)
    words = {word for begin, end in spans for word in range(begin, end)}
    begin, end = wanted[0], wanted[0] + wanted[1]
    assert covers(shown.get("p", ()), (begin, end)) == (set(range(begin, end)) <= words)


@given(PAGES, st.sampled_from(["a", "b c", "b  C", "<", "zz"]), st.integers(1, 9))
def test_a_text_is_found_wherever_it_stands(page: Document, text: str, size: int) -> None:
    found, count = passages(page, text, size)
    pattern = r"\s+".join(map(re.escape, text.split()))
    assert count == len(re.findall(pattern, page.text, re.IGNORECASE))
    assert bool(found) == bool(count)
    assert len(found) <= 5
    assert sum(one.words for one in found) <= 5 * 3 * size


def test_a_page_without_spaces_has_words_too() -> None:
    page = Document("p", "T", "x" * 1000)
    assert length(page) == len(WORD.findall(page.text)) == -(-1000 // LETTERS)
    assert len(snippet(page, "x", 3).text) == 3 * LETTERS


def plainly(page: Document, query: str, size: int) -> Span:
    """Find a snippet by searching every stretch from scratch."""
    words = [re.sub(r"\W+", "", word).casefold() for word in WORD.findall(page.text)]
    asked = {re.sub(r"\W+", "", word).casefold() for word in query.split()} - {""}
    wanted = asked - STOP_WORDS or asked
    best, most = 0, 0
    for place, word in enumerate(words):
        begin = max(0, min(place - size // 4, len(words) - size))
        met = len(set(words[begin : begin + size]) & wanted)
        if word in wanted and met > most:
            best, most = begin, met
    return best, min(best + size, len(words))


SAID = st.lists(st.sampled_from(["cat", "dog", "Fox", "owl", "the", "of,", "and", "--", "x", "y"]), max_size=40).map(
    " ".join
)


@given(SAID, SAID, st.integers(1, 9))
def test_a_snippet_is_what_looking_everywhere_finds(text: str, query: str, size: int) -> None:
    page = Document("p", "T", text)
    shown = snippet(page, query, size)
    assert shown.span == (plainly(page, query, size) if length(page) else (0, 0))


def test_stop_words_are_not_looked_for_unless_nothing_else_is() -> None:
    page = Document("p", "T", "the of and in " + "x " * 20 + "the cat " + "y " * 20)
    assert "cat" in snippet(page, "the of and in cat", 5).text
    assert snippet(page, "the of and in cat", 5, stops=True).text.startswith("the of and in")
    assert snippet(page, "the of and in", 5).text.startswith("the of and in")


@pytest.mark.timeout(120)  # comparing every word with every other would take an hour
def test_a_page_full_of_the_words_that_are_wanted_takes_no_time() -> None:
    page = Document("p", "T", "the cat " * 50_000 + "alpha")
    assert "alpha" in snippet(page, "the cat alpha").text


@pytest.mark.parametrize(
    "mark",
    [
        *("<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "[INST]", "[/INST]", "[ /inst ]", "[TOOL_CALLS]"),
        *("<|eot_id|>", "<|start_header_id|>", "<|anything at all|>", "<｜begin▁of▁sentence｜>", "<<SYS>>", "</s>"),
    ],
)
def test_the_tokens_of_chat_templates_are_spelt_out(mark: str) -> None:
    shown = harmless(f"a {mark} b")
    assert mark not in shown
    assert harmless(shown) == shown


def test_what_is_no_markup_stays_as_it_is() -> None:
    text = "a <b> c < d, x[1], [INSTALL], f <| g, |x| <y>, &lt; <strong> <endless> <|> ||"
    assert harmless(text) == text


IDS = st.one_of(
    st.text(max_size=9),
    st.lists(st.sampled_from(["a", "a ", " a", "<end>", "&lt;end>", "[INST]", "&#91;INST]", "…", "/" * 130])).map(
        "".join
    ),
)


@given(st.lists(IDS, unique=True, max_size=8))
def test_ids_are_told_apart_as_they_are_shown(ids: list[str]) -> None:
    shown = [named(id) for id in ids]
    assert len(set(shown)) == len(ids)
    for id, one in zip(ids, shown, strict=True):
        assert len(one) <= 120 + 10
        assert "\n" not in one
        assert harmless(one) == one
        assert meant(one, [id]) == id


def test_ids_that_only_end_differently_are_told_apart() -> None:
    ids = [f"https://example.org/{'long/' * 30}{end}" for end in ("one.html", "two.html")]
    assert [meant(named(id), ids) for id in ids] == ids
    assert named(ids[0]).endswith("one.html"), "its end is shown"
    assert named("culm") == "culm"
    assert meant("nobody", ids) is None
