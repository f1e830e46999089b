"""Woven source does what it did before, and counts what it does: in Python by statements, in C by elements."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import TaskError
from turnwise.tasks.code.efficiency.family import measured
from turnwise.tasks.code.efficiency.weaving import weave


def work(body: str, *arguments: Any) -> int:
    """The statements that a function of one line or more takes."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return measured(
        f"from itertools import *\nfrom functools import *\nimport operator\ndef f(x):\n{lines}", "f", arguments
    )[1]


HIDDEN_IN_C = {
    "searching a list": "return sum(1 for one in x if one in x)",
    "a list of lists": "return len([x[:] for _ in x])",
    "counting in a list": "return max(map(x.count, x))",
    "sums of slices": "return [sum(x[i:]) for i in range(len(x))]",
    "sums in a map": "return list(map(sum, [x] * len(x)))",
    "a product": "return sum(1 for _ in product(x, x))",
    "a product consumed in C": "return len(list(product(x, x)))",
    "a chain": "return sum(chain(*[x] * len(x)))",
    "inserting in front": "for one in list(x): x.insert(0, one)\nreturn len(x)",
    "deleting in front": "while x:\n    del x[0]",
    "taking from the front": "while x:\n    x.pop(0)",
    "adding lists": "y = []\nfor one in x:\n    y = y + [one]\nreturn len(y)",
    "comparing lists": "return sum(x == list(x) for _ in x)",
    "sorting again and again": "for _ in x: sorted(x)",
    "reducing": "return len(reduce(operator.add, [[one] for one in x]))",
    "building text": "y = ''\nfor one in x:\n    y = f'{y}{one}'\nreturn len(y)",
    "stars": "y = []\nfor one in x:\n    y = [*y, one]\nreturn len(y)",
    "sets": "y = set()\nfor one in x:\n    y = y | {one}\nreturn len(y)",
    "an iterator that is skipped through": "return sum(next(islice(iter(x), i, None)) for i in range(len(x)))",
}
"""Quadratic work of which Python itself sees only a linear part."""


@pytest.mark.slow
@pytest.mark.parametrize("body", HIDDEN_IN_C.values(), ids=HIDDEN_IN_C)
def test_quadratic_work_in_c_is_seen_to_be_quadratic(body: str) -> None:
    small, large = work(body, list(range(400))), work(body, list(range(1600)))
    assert large > 8 * small, f"four times the input took {large / small:.1f} times the work"


LINEAR = {
    "a loop": "t = 0\nfor one in x:\n    t += one\nreturn t",
    "a dictionary": "return list(dict.fromkeys(x))",
    "membership in a set": "y = set(x)\nreturn [one for one in x if one in y]",
    "appending and popping": "y = []\nfor one in x:\n    y.append(one)\nwhile y:\n    y.pop()",
    "a list that grows in place": "y = []\nfor one in x:\n    y += [one]\nreturn y",
    "neighbours": "return [a - b for a, b in zip(x, islice(x, 1, None))]",
    "running sums": "return list(accumulate(x))",
}


@pytest.mark.parametrize("body", LINEAR.values(), ids=LINEAR)
def test_linear_work_stays_linear(body: str) -> None:
    small, large = work(body, list(range(400))), work(body, list(range(1600)))
    assert large < 6 * small


def test_large_numbers_cost_their_words() -> None:
    assert work("return x * x", 1 << 200_000) > 20 * work("return x * x", 1 << 2000)


def test_a_statement_is_counted_once_for_each_time_it_is_executed() -> None:
    assert work("for _ in range(x):\n    pass", 1000) - work("for _ in range(x):\n    pass", 500) == 500


def test_a_round_counts_whatever_it_consists_of() -> None:
    for body in ("'a text'", "global y"):
        loop = f"for _ in range(x):\n    {body}"
        assert work(loop, 1000) - work(loop, 500) == 500, body


def test_a_loop_that_is_written_out_costs_by_its_parts() -> None:
    written = "y = x[0]\nreturn [" + ", ".join(["y is x"] * 800) + "]"
    assert work(written, [1]) > 300


PROGRAM = '''"""Text."""
from __future__ import annotations
from collections import deque

class Tree:
    """A class with a super class and a private name."""
    def __init__(self, *items: int, **more: int) -> None:
        super().__init__()
        self.__items = [*items, *more.values()]

    @property
    def items(self):
        return self.__items

    def __iter__(self):
        yield from self.__items

def walk(values, depth=0):
    global CALLS
    CALLS += 1
    try:
        if depth > 3 or not values:
            raise ValueError(f"{depth}: {len(values)}")
        head, *tail = values
        return [head * 2] + walk(tail, depth + 1)
    except ValueError as error:
        return [str(error)]
    finally:
        CALLS += 0

CALLS = 0

def f(x):
    tree = Tree(*x, last=7)
    queue, seen = deque(tree), {}
    while queue and (one := queue.popleft()) is not None:
        seen[one % 5] = seen.get(one % 5, 0) + one
        if 0 < one < 3:
            continue
    numbers = {key: (lambda value: value ** 2)(value) for key, value in sorted(seen.items())}
    match x:
        case [first, *_]:
            kind = "some"
        case _:
            kind = "none"
    x[1:2] = [9, 9]
    return numbers, walk(tree.items), kind, x, max(numbers.values(), default=None), CALLS > 0
'''


@given(st.lists(st.integers(-50, 50), max_size=8))
def test_a_woven_program_does_what_it_did(values: list[int]) -> None:
    names: dict[str, Any] = {"__name__": "solution"}
    exec(PROGRAM, names)
    assert measured(PROGRAM, "f", (list(values),))[0] == names["f"](list(values))


def test_recursion_goes_as_deep_as_before() -> None:
    assert measured("def f(x):\n    return f(x - 1) + 1 if x else 0", "f", (800,))[0] == 800


def test_the_name_of_the_counter_is_taken() -> None:
    with pytest.raises(TaskError, match="name of the counter"):
        weave("__work__ = 1")
    with pytest.raises(TaskError, match="does not compile"):
        weave("def f(:")
