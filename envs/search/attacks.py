"""Hostile inputs for a search: queries that are syntax elsewhere, texts at their limits, and every page there is."""

from __future__ import annotations

from collections.abc import Sequence

from ..messages import Action, ActionLike, ToolCall
from ..toolenv import ToolEnv

QUERIES = (
    '"', '""', '"a', "a*", "*", "^a", "title : a", "{title text} : a", "a NEAR b", "NEAR(a b, 999999999)", "a AND",
    "OR", "NOT a", "(a", "((((((a", "-a", "+a", "a:b:c", "a.b", "a/b", "\\", "%", "_", "'; DROP TABLE found; --", "?",
    "[a-z", "rank MATCH 1", "a\0b", "\x1b[2J", "\u202e a", "\ufeff", "\uffff", "𝕬" * 299, "İ" * 300, "ß" * 300,
    "ﷺ" * 300, "e" + "\u0301" * 299, "\u200b" * 300, "٣" * 300, "a" * 300, "a " * 150, ". " * 150, '" ' * 150,
    "* " * 150, " ".join(map(str, range(75))), "the of and", "<answer>x</answer>", "</information><|im_end|>",
)  # fmt: skip
"""Queries of at most 300 characters: operators, quotes, alphabets that grow in lower case, and very many words."""
PATTERNS = ("(a+)+$", "(", "[", "a{99999}", "\\", "\\1", "(?P<x>", ".*" * 100, "e", ".", " e ", "e " * 150, "a" * 300)
"""Texts to find that are regular expressions, or that occur everywhere."""
IDS = (
    "",
    " ",
    ".",
    "../" * 900,
    "\0",
    "\ud800",
    "x" * 100_000,
    "…",
    "[1]",
    "1 OR 1=1",
    "%",
    "rowid",
    "e" + "\u0301" * 999,
)
"""Ids of pages that do not exist."""
NUMBERS = (0, -1, 2**31, 2**63, 10**30, -(10**30), 10**400)


def attacks_on(ids: Sequence[str]) -> dict[str, Sequence[ActionLike]]:
    """Return ways to break an episode, by name.

    Args:
        ids: ids of pages of the corpus, at least one.
    """
    first = ToolCall("open", {"id": ids[0]})
    found = [ToolCall("search", {"query": ids[0], "k": 10})]
    patterns = [ToolCall("find", {"text": text}) for text in PATTERNS]
    every = [ToolCall("open", {"id": id, "part": part}) for part in (1, 2) for id in ids]
    plays: dict[str, Sequence[ToolCall]] = {
        "searches for what is a language elsewhere": [ToolCall("search", {"query": query}) for query in QUERIES],
        "searches without end": found * 300,
        "searches for ever more": [ToolCall("search", {"query": f"{i} " * 20, "k": 10}) for i in range(300)],
        "asks for odd numbers of pages": [ToolCall("search", {"query": "a", "k": k}) for k in (*NUMBERS, 11)],
        "opens every page": every,
        "opens every page, and finds what is everywhere": [
            call for id in ids for call in (ToolCall("open", {"id": id}), ToolCall("find", {"text": "e"}))
        ],
        "opens one page without end": [first] * 300,
        "opens odd pages": [ToolCall("open", {"id": id}) for id in IDS],
        "opens odd parts": [ToolCall("open", {"id": ids[0], "part": part}) for part in NUMBERS],
        "finds patterns": [first, *patterns],
        "finds patterns without a page": patterns,
        "finds without end": [first, *patterns * 20],
        "searches, opens and finds when its words are used up": [*every, *found, first, *patterns],
        "cites as much as it can": [_answer("x" * 2_000, ["y" * 100_000] * 50)],
        "cites more than it can": [_answer("x", ["y"] * 50_000)],
        "cites odd pages": [*found, _answer("x", [*IDS, *ids[:20]])],
        "cites every page that it was shown": [*every, _answer("x", list(ids[:50]))],
        "answers in odd letters": [*found, *(_answer(query * 6) for query in QUERIES)],
        "answers in punctuation": [_answer("'.,;:!?\"-()[]{}" * 130)],
        "answers with a number of 2,000 digits": [_answer("9" * 2_000)],
        "answers twice, and searches on": [_answer(""), _answer("x"), *found],
        "calls too much": [*found, *every, *found],
    }
    return {name: _in_messages(calls) for name, calls in plays.items()}


def _answer(text: str, citations: Sequence[str] = ()) -> ToolCall:
    return ToolCall("answer", {"text": text, "citations": list(citations)})


def _in_messages(calls: Sequence[ToolCall]) -> list[ActionLike]:
    most = ToolEnv.max_calls
    return [Action(tool_calls=tuple(calls[begin : begin + most])) for begin in range(0, len(calls), most)]
