"""Faults: each is another program, addressed by a number, and the rest of the file keeps its bytes."""

from __future__ import annotations

import ast
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import TaskError
from turnwise.tasks.code.repair.bundled import module_named, module_names
from turnwise.tasks.code.repair.mutation import mutate, mutations

ONE_OF_EACH = {
    "comparison": ("return a < b", "return a <= b"),
    "arithmetic": ("return a // b", "return a % b"),
    "boolean": ("return a and b", "return a or b"),
    "off by one": ("return a[3]", "return a[4]"),
    "negated condition": ("return 1 if a else 2", "return 1 if not (a) else 2"),
    "dropped statement": ("a.append(b)", "pass"),
    "dropped branch": ("if a:\n        b = 1", "pass"),
    "swapped arguments": ("return g(a, b)", "return g(b, a)"),
    "wrong variable": ("return a", "return b"),
    "wrong constant": ("return True", "return False"),
    "wrong function": ("return min(a)", "return max(a)"),
    "slice bound": ("return a[b:]", "return a[b + 1:]"),
    "loop bound": ("return range(a)", "return range(a - 1)"),
    "loop control": ("while a: break", "while a: continue"),
    "wrong return": ("return [a]", "return None"),
    "early return": (
        "for a in b:\n        a = 2\n    return a",
        "for a in b:\n        a = 2\n        return a\n    return a",
    ),
}


@pytest.mark.parametrize("operator", ONE_OF_EACH)
def test_each_kind_of_slip(operator: str) -> None:
    before, after = ONE_OF_EACH[operator]
    head = "def f(a, b):\n    "
    made = {(fault.operator, mutate(head + before, [fault])) for fault in mutations(head + before)}
    assert (operator, head + after) in made, made


def test_wrong_defaults() -> None:
    made = [mutate("def f(a=7): return a", [fault]) for fault in mutations("def f(a=7): return a")]
    assert "def f(a=None): return a" in made
    assert "def f(a=8): return a" in made


def test_texts_comments_annotations_and_decorators_are_left_alone() -> None:
    source = '@deco(1)\ndef f(a: "1 < 2", b) -> 3 + 4:\n    """1 < 2 and 3."""\n    return a  # 1 < 2\n'
    assert {fault.operator for fault in mutations(source)} == {"wrong variable"}


def test_letters_of_several_bytes_shift_nothing() -> None:
    source = 'def f(a, b):\n    name = "Größe", a < b  # 長さ\n    return name\n'
    made = [mutate(source, [fault]) for fault in mutations(source) if fault.operator == "comparison"]
    assert made == [source.replace("a < b", "a <= b")]


def test_line_ends_of_other_systems_are_kept() -> None:
    source = "def f(a, b):\r\n    return a < b\r\n"
    (made,) = [mutate(source, [fault]) for fault in mutations(source) if fault.operator == "comparison"]
    assert made == "def f(a, b):\r\n    return a <= b\r\n"


found = functools.cache(mutations)


@pytest.mark.slow
@given(st.sampled_from(module_names()), st.data())
def test_what_is_not_replaced_keeps_its_bytes(name: str, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(sorted(module_named(name).files.values())))
    fault = data.draw(st.sampled_from(found(source)))
    broken = mutate(source, [fault])
    assert broken != source
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source))
    assert broken.encode()[: fault.start] == source.encode()[: fault.start]
    tail = len(source.encode()) - fault.end
    assert broken.encode()[len(broken.encode()) - tail :] == source.encode()[fault.end :]


def test_several_at_once_and_none_that_overlap() -> None:
    source = "def f(a, b):\n    return a < b and a > 3\n"
    found = [fault for fault in mutations(source) if fault.operator in ("comparison", "boolean")]
    assert mutate(source, found) == "def f(a, b):\n    return a <= b or a >= 3\n"
    with pytest.raises(TaskError, match="overlap"):
        mutate(source, [found[0], found[0]])
    with pytest.raises(TaskError, match="another source"):
        mutate(source.replace("<", "!"), found[:1])


def test_what_is_not_python_cannot_be_mutated() -> None:
    with pytest.raises(TaskError, match="does not compile"):
        mutations("def f(:")
